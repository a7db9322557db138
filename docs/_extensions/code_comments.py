"""Translate comments in the code of a page together with its sentences.

Only the words of a comment are: the code itself stays as it was executed, letter for letter.
"""

import io
import tokenize
from collections.abc import Iterator, Mapping, Sequence

from docutils import nodes
from docutils.nodes import SkipNode
from sphinx.addnodes import translatable
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

MARK = "# "


class CodeComment(nodes.Invisible, nodes.Element, translatable):
    """A translatable message for a comment in the adjacent code block."""

    def preserve_original_messages(self) -> None:
        """Keep the comment as it is, which a translation does not touch."""

    def extract_original_messages(self) -> Sequence[str]:
        """Return the messages to translate."""
        return [str(self["words"])]

    def apply_translated_message(self, original_message: str, translated_message: str) -> None:
        """Replace the comment in the adjacent code block by its translation."""
        code = self.next_node(nodes.literal_block, descend=False, siblings=True)
        if code is not None:
            text = in_other_words(code.astext(), {original_message: translated_message})
            code.rawsource = text
            code[:] = [nodes.Text(text)]


def comments(code: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the comments of some code that are for its reader; of what is no code, none."""
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO(code).readline)]
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        if token.type == tokenize.COMMENT and token.string.startswith(MARK):
            yield token


def words(comment: tokenize.TokenInfo) -> str:
    """Return the text of a comment."""
    return comment.string.removeprefix(MARK)


def in_other_words(code: str, messages: Mapping[str, str]) -> str:
    """Write some code with those of its comments translated for which there is a message."""
    lines = code.splitlines(keepends=True)
    for comment in comments(code):
        row, column = comment.start
        line = lines[row - 1]
        said = messages.get(words(comment)) or words(comment)
        end = line[column + len(comment.string) :]
        lines[row - 1] = f"{line[:column]}{MARK}{said}{end}"
    return "".join(lines)


class NoteComments(SphinxTransform):
    """Insert a message node for each comment before its cell, so that Sphinx translates it."""

    default_priority = 5  # before Sphinx translates

    def apply(self, **_: object) -> None:
        """Look at the code of each cell."""
        for box in self.document.findall(nodes.container):
            if "cell_input" in box["classes"]:
                for code in [*box.findall(nodes.literal_block)]:
                    said = [CodeComment(words=words(one)) for one in comments(code.astext())]
                    code.parent.insert(code.parent.index(code), said)


def skip(_translator: HTML5Translator, _node: nodes.Element) -> None:
    """Show nothing."""
    raise SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Note the comments of each page as it is read."""
    app.add_node(CodeComment, html=(skip, None))
    app.add_transform(NoteComments)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
