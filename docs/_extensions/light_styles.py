"""Leave out of MyST-NB's style the 512 rules for colours of terminals, which no page has."""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

COLOUR = re.compile(r"div\.highlight \.-Color\[class\*=-(?:BG)?C\d+\] \{[^{}]*\}\s*")


def forget(app: Sphinx) -> None:
    """Take away what an earlier build wrote, or MyST-NB finds there what it did not write."""
    for style in Path(app.outdir, "_static").glob("mystnb.*.css"):
        style.unlink()


def lighten(app: Sphinx, error: Exception | None) -> None:
    """Write the style without them."""
    if error is None and app.builder.format == "html":
        for style in Path(app.outdir, "_static").glob("mystnb.*.css"):
            style.write_text(COLOUR.sub("", style.read_text("utf-8")), "utf-8")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Do it before the finished site is weighed."""
    app.connect("builder-inited", forget, priority=100)
    app.connect("build-finished", lighten, priority=800)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
