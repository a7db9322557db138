"""Interactive figures: the directive `{live} NAME` shows a question and a figure.

`docs/figures` contains the first picture of each figure, for readers without JavaScript, and its
controls and texts in `figures.toml`. The script `_static/live.js` makes the figure interactive. Its
style is the same as in leafgrad's step-by-step player of a backward pass.
"""

import json
import os
import tomllib
from pathlib import Path
from typing import Any
from unittest import mock

from docutils import nodes
from jinja2 import Template
from sphinx.application import Sphinx
from sphinx.locale import _
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from leafgrad._display.pages import resource
from leafgrad._messages import message
from leafgrad._picture.svg.style import STYLE

FIGURES = Path(__file__).parent.parent / "figures"


def translated(part: Any) -> Any:
    """Return a part of `figures.toml` with its strings in the language of the site."""
    if isinstance(part, dict):
        return {key: translated(value) for key, value in part.items()}
    return str(_(part)) if isinstance(part, str) else part


def figure(name: str) -> tuple[str, list[Path]]:
    """Return the HTML of the figure `name`, and the files from which it was made."""
    files = [FIGURES / file for file in ("figures.toml", "figure.html", f"{name}.svg")]
    words, template, start = (file.read_text("utf-8") for file in files)
    everything = translated(tomllib.loads(words))
    spec = everything[name]
    spec["say"]["unreadable"] = everything["unreadable"]
    curves = FIGURES / f"{name}.json"
    if curves.exists():
        spec["curves"] = json.loads(curves.read_text("utf-8"))
    about = {"name": name, "spec": spec, "start": start, "label": _("Live figure")}
    library = {"message": message, "resource": resource, "picture_style": STYLE}
    html = Template(template).render(spec, **about, **library)
    return html, files


class Live(SphinxDirective):
    """The directive `{live}`: a question (its content) and a live figure."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return a container with the question (the directive's content) and the figure's HTML."""
        self.assert_has_content()
        with mock.patch.dict(os.environ, LEAFGRAD_LANG=self.config.language):
            html, files = figure(self.arguments[0])
        for file in files:
            self.env.note_dependency(str(file))
        question = nodes.container("", *self.parse_content_to_nodes(), classes=["question"])
        return [nodes.container("", question, nodes.raw("", html, format="html"), classes=["live"])]


def add_scripts(
    app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: nodes.document | None
) -> None:
    """Load the scripts and styles of live figures on pages that have one."""
    if "data-figure=" in context.get("body", ""):
        app.add_css_file("live.css")
        app.add_js_file("live.js", defer="defer")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive, and connect `add_scripts` to the writing of pages."""
    app.add_directive("live", Live)
    app.connect("html-page-context", add_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
