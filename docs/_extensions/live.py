"""Figures that respond: the directive `{live} NAME` inserts one after its question.

`docs/figures` has a picture of each as it starts, for readers without JavaScript, and
`figures.toml` its controls and words. The scripts in `_static/live` bring it to life, in the look
of a backward pass that one steps through.
"""

import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from jinja2 import Template
from sphinx.application import Sphinx
from sphinx.locale import _
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from leafgrad._display.pages import resource

FIGURES = Path(__file__).parent.parent / "figures"
SCRIPTS = ("tape", "drawing", "figures")
STYLE = resource("leafgrad._steps", "player.css")


def translated(part: Any) -> Any:
    """Return a part of `figures.toml` in the language of the site."""
    if isinstance(part, dict):
        return {key: translated(value) for key, value in part.items()}
    return _(part) if isinstance(part, str) else part


class Live(SphinxDirective):
    """Insert a live figure after its question."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the question and the figure."""
        (name,) = self.arguments
        self.assert_has_content()
        files = [FIGURES / file for file in ("figures.toml", "figure.html", f"{name}.svg")]
        for file in files:
            self.env.note_dependency(str(file))
        words, template, picture = (file.read_text("utf-8") for file in files)
        all_figures = translated(tomllib.loads(words))
        spec = all_figures[name]
        spec["say"]["unreadable"] = all_figures["unreadable"]
        about = {"name": name, "spec": spec, "picture": picture, "label": _("Live figure")}
        html = Template(template).render(spec, **about, style=STYLE)
        question = nodes.container("", *self.parse_content_to_nodes(), classes=["question"])
        return [nodes.container("", question, nodes.raw("", html, format="html"), classes=["live"])]


def add_scripts(
    app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: nodes.document | None
) -> None:
    """Load the scripts and styles on pages that have a figure."""
    if "data-figure=" in context.get("body", ""):
        for style in ("pictures.css", "live.css"):
            app.add_css_file(style)
        for script in SCRIPTS:
            app.add_js_file(f"live/{script}.js", defer="defer")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the directive."""
    app.add_directive("live", Live)
    app.connect("html-page-context", add_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
