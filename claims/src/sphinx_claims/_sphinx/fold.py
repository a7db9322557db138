"""A part of a page that stays folded until a reader wants it: a proof, an answer, a hint."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator


class Fold(nodes.container):
    """What is folded away; where nothing folds, a container like any other."""


class FoldTitle(nodes.rubric):
    """What a reader sees of it."""


class FoldDirective(SphinxDirective):
    """A fold under its title. Cells in it are executed and judged as everywhere."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Render the title and the content, none of it left out of the search."""
        self.assert_has_content()
        words, messages = self.parse_inline(self.arguments[0], lineno=self.lineno)
        fold = Fold("", FoldTitle("", "", *words), classes=["fold"])
        self.set_source_info(fold)
        fold += self.parse_content_to_nodes()
        return [fold, *messages]


def add_fold(app: Sphinx) -> None:
    """Add the directive, and how HTML folds."""
    app.add_node(Fold, html=(_visit_fold, _depart_fold))
    app.add_node(FoldTitle, html=(_visit_title, _depart_title))
    app.add_directive("fold", FoldDirective)


def _visit_fold(self: HTML5Translator, node: Fold) -> None:
    self.body.append(self.starttag(node, "details"))


def _depart_fold(self: HTML5Translator, _node: Fold) -> None:
    self.body.append("</details>\n")


def _visit_title(self: HTML5Translator, node: FoldTitle) -> None:
    self.body.append(self.starttag(node, "summary", ""))


def _depart_title(self: HTML5Translator, _node: FoldTitle) -> None:
    self.body.append("</summary>\n")
