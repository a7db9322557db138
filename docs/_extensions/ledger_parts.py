"""What a page of the ledger says by naming a part of the tutorial, written out as it is read.

No tree of pages is known then, so it is read from the page of the part.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

PART = re.compile(r"^docs/(tutorial/part-[\w-]+)\.md$", re.MULTILINE)
TREE = re.compile(r"^```\{toctree\}\n(?::.*\n)*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def chapters(part: Path) -> Iterator[str]:
    """Yield the chapters that the page of a part lists, in its order."""
    for names in TREE.findall(part.read_text("utf-8")):
        yield from names.split()


def write_out(app: Sphinx, page: str, source: list[str]) -> None:
    """Let a list of the ledger that names a part mean its chapters too."""
    folder = Path(app.srcdir)

    def written(found: re.Match[str]) -> str:
        names = chapters(folder / f"{found[1]}.md")
        return "\n".join((found[0], *(f"docs/tutorial/{name}.md" for name in names)))

    if page.startswith("ledger/"):
        source[0] = PART.sub(written, source[0])


def setup(app: Sphinx) -> ExtensionMetadata:
    """Look at each page before it is read."""
    app.connect("source-read", write_out, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
