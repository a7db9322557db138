"""Folds: parts of a page that a reader can open, such as a proof, an answer or a hint."""

from collections.abc import Callable
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

Visitor = Callable[[HTML5Translator, nodes.Element], None]


class Fold(nodes.container):
    """A node for content that a reader can open. In formats other than HTML, it is always open."""


class FoldTitle(nodes.rubric):
    """A node for the title of a fold, which is content that a reader can open."""


class FoldDirective(SphinxDirective):
    """The directive `{fold}`: content that a reader can open. Its cells are executed as usual."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return nodes for the title and the content. The search index contains both."""
        self.assert_has_content()
        words, messages = self.parse_inline(self.arguments[0], lineno=self.lineno)
        fold = Fold("", FoldTitle("", "", *words), classes=["fold"])
        self.set_source_info(fold)
        fold += self.parse_content_to_nodes()
        return [fold, *messages]


class JoinProofs(SphinxPostTransform):
    """A transform that moves the proof behind a claim into the claim's box.

    A proof is a fold: content that a reader can open. A click on the tick (✓) of the box opens it.
    """

    default_priority = 6  # Run after `ShowVerdicts`, which reads the box.

    def run(self, **_options: Any) -> None:
        """Move the folds; keep their titles for screen readers only."""
        for words in [*self.document.findall(FoldTitle)]:
            fold = words.parent
            box = fold.parent.children[max(fold.parent.index(fold) - 1, 0)]
            if isinstance(box, nodes.container) and "claim" in box["classes"]:
                words[:] = [nodes.inline("", "", *words.children, classes=["claim-word"])]
                fold.parent.remove(fold)
                fold["classes"] = ["proof"]
                box += fold


def add_fold(app: Sphinx) -> None:
    """Register the directive `{fold}` and its rendering in HTML."""
    app.add_post_transform(JoinProofs)
    app.add_node(Fold, html=_visitors("details", "\n"))
    app.add_node(FoldTitle, html=_visitors("summary", ""))
    app.add_directive("fold", FoldDirective)


def _visitors(tag: str, suffix: str) -> tuple[Visitor, Visitor]:
    """Return two functions that write the start tag and the end tag of an HTML element."""
    return (
        lambda self, node: self.body.append(self.starttag(node, tag, suffix)),
        lambda self, _: self.body.append(f"</{tag}>\n"),
    )
