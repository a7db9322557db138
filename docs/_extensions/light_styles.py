"""Remove MyST-NB's 512 rules for terminal colours, which no page needs."""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

COLOUR = re.compile(r"div\.highlight \.-Color\[class\*=-(?:BG)?C\d+\] \{[^{}]*\}\s*")


def forget(app: Sphinx) -> None:
    """Remove shortened styles of an earlier build, so that MyST-NB does not report a change."""
    for style in Path(app.outdir, "_static").glob("mystnb.*.css"):
        style.unlink()


def lighten(app: Sphinx, error: Exception | None) -> None:
    """Shorten the styles of MyST-NB in the built site."""
    if error is None and app.builder.format == "html":
        for style in Path(app.outdir, "_static").glob("mystnb.*.css"):
            style.write_text(COLOUR.sub("", style.read_text("utf-8")), "utf-8")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the handlers. `lighten` runs before `page_checks` checks the sizes of pages."""
    app.connect("builder-inited", forget, priority=100)
    app.connect("build-finished", lighten, priority=800)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
