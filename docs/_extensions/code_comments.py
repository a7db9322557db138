"""Translate the comments in code and the words in plots, as Sphinx translates the sentences.

Only comments are translated: the code stays exactly as it was executed. The words in a plot are its
labels and its alternative text. leafgrad translates the words in its own pictures.
"""

import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from html import escape, unescape

from docutils import nodes
from docutils.nodes import SkipNode
from sphinx.addnodes import translatable
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

MARK = "# "
PLOT = re.compile(r"<svg\b(?![^>]*leafgrad-graph)[^>]*\brole=.*?</svg>", re.DOTALL)
LABEL = re.compile(r'(?<=aria-label=")[^"]+|(?<=>)(?=[a-z]|[^<>]* )[^<>]*[a-z]{3}[^<>]*(?=</text>)')


class CodeComment(nodes.Invisible, nodes.Element, translatable):
    """A translatable message for a comment in the adjacent code block, or a word in a plot."""

    def preserve_original_messages(self) -> None:
        """Do nothing, because a translation does not change the original comment."""

    def extract_original_messages(self) -> Sequence[str]:
        """Return the comment's text as the only message to translate."""
        return [str(self["words"])]

    def apply_translated_message(self, original_message: str, translated_message: str) -> None:
        """Replace the message in the adjacent code block or plot by its translation."""
        shown = self.next_node(nodes.FixedTextElement, descend=False, siblings=True)
        if shown is not None:
            replace = with_labels if isinstance(shown, nodes.raw) else in_other_words
            text = replace(shown.astext(), {original_message: translated_message})
            shown.rawsource = text
            shown[:] = [nodes.Text(text)]


def with_labels(picture: str, messages: Mapping[str, str]) -> str:
    """Return a plot with its words replaced by their translations in `messages`."""

    def word(found: re.Match[str]) -> str:
        return escape(messages.get(unescape(found[0])) or unescape(found[0]))

    return PLOT.sub(lambda plot: LABEL.sub(word, plot[0]), picture)


def comments(code: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the comments of `code` that start with `# `.

    Yield nothing if it is not valid Python.
    """
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO(code).readline)]
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        if token.type == tokenize.COMMENT and token.string.startswith(MARK):
            yield token


def words(comment: tokenize.TokenInfo) -> str:
    """Return the text of a comment without `# `."""
    return comment.string.removeprefix(MARK)


def in_other_words(code: str, messages: Mapping[str, str]) -> str:
    """Return `code` with its comments replaced by their translations in `messages`.

    Comments without a translation do not change.
    """
    lines = code.splitlines(keepends=True)
    for comment in comments(code):
        row, column = comment.start
        line = lines[row - 1]
        said = messages.get(words(comment)) or words(comment)
        end = line[column + len(comment.string) :]
        lines[row - 1] = f"{line[:column]}{MARK}{said}{end}"
    return "".join(lines)


class NoteComments(SphinxTransform):
    """Insert a `CodeComment` for each comment before its cell, so that Sphinx translates it."""

    default_priority = 5  # This runs before Sphinx translates the page.

    def apply(self, **_: object) -> None:
        """Insert the `CodeComment` nodes in front of each cell's code."""
        for box in self.document.findall(nodes.container):
            if "cell_input" in box["classes"]:
                for code in [*box.findall(nodes.literal_block)]:
                    said = [CodeComment(words=words(one)) for one in comments(code.astext())]
                    code.parent.insert(code.parent.index(code), said)
        for picture in [*self.document.findall(nodes.raw)]:
            plots = "".join(PLOT.findall(picture.astext()))
            said = [CodeComment(words=unescape(label)) for label in LABEL.findall(plots)]
            picture.parent.insert(picture.parent.index(picture), said)


def skip(_translator: HTML5Translator, _node: nodes.Element) -> None:
    """Write no HTML for a `CodeComment`."""
    raise SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the `CodeComment` node and the `NoteComments` transform."""
    app.add_node(CodeComment, html=(skip, None))
    app.add_transform(NoteComments)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
