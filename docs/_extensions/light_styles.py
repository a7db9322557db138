"""Leave out of the styles what no page has, and no reader looks up.

They are MyST-NB's 512 rules for colours of terminals, the maps from the theme's styles and scripts
to what its authors wrote, and comments and indents in the script of live figures.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

COLOUR = re.compile(r"div\.highlight \.-Color\[class\*=-(?:BG)?C\d+\] \{[^{}]*\}\s*")

COMMENT = re.compile(r"^ *//.*\n|^ +", re.MULTILINE)

MAP = re.compile(r"\s*(?:/\*|//)# sourceMappingURL=[^\s*]*(?: ?\*/)?\s*$")


def forget(app: Sphinx) -> None:
    """Take away what an earlier build wrote, or MyST-NB finds there what it did not write."""
    for style in Path(app.outdir, "_static").glob("mystnb.*.css"):
        style.unlink()


def lighten(app: Sphinx, error: Exception | None) -> None:
    """Write the styles and scripts without them."""
    if error is None and app.builder.format == "html":
        for style in Path(app.outdir, "_static").glob("mystnb.*.css"):
            style.write_text(COLOUR.sub("", style.read_text("utf-8")), "utf-8")
        live = Path(app.outdir, "_static", "live.js")
        live.write_text(COMMENT.sub("", live.read_text("utf-8")), "utf-8")
        for mapping in Path(app.outdir, "_static").rglob("*.map"):
            mapping.unlink()
            mapped = mapping.with_suffix("")
            mapped.write_text(MAP.sub("\n", mapped.read_text("utf-8")), "utf-8")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Shorten the styles before the sizes of the pages are checked."""
    app.connect("builder-inited", forget, priority=100)
    app.connect("build-finished", lighten, priority=800)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
