"""What a reader sees on one built page of each kind is as it was when someone last read it.

A page that changes on purpose is red here: read the difference, then keep it with `--update`.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from bs4 import BeautifulSoup, Tag

from tests.site.built import SITE, needs_site

pytestmark = needs_site

KEPT = Path(__file__).parent / "visible"
EDITIONS = {"en": "", "zh_CN": "zh-cn"}
PAGES = {
    "index": 150,
    "tutorial/index": 40,
    "tutorial/part-writing": 60,
    "tutorial/why": 100,
    "tutorial/cheat-sheet": 60,
    "how-to/index": 20,
    "how-to/install": 60,
    "reference/index": 60,
    "reference/laplacian": 100,
    "ledger": 30,
    "ledger/physics": 30,
    "glossary": 30,
    "changelog": 12,
    "search": 20,
    "genindex": 12,
    "404": 20,
}
"""How many lines are kept of each page: enough for its kind, few of what changes with others."""
APART = (
    "button dd div dl dt figcaption h1 h2 h3 h4 li nav ol option p pre section summary table text"
    " title ul"
).split()
CHANGING = {
    re.compile(r"\b\d{4}-\d\d-\d\d\b"): "DATE",
    re.compile(r"\b\d+\.\d+\.\d+\b"): "VERSION",
    re.compile(r"\b\d+(?:\.\d+)? (?:µs|ms|s|seconds)\b"): "TIME",
}
NUMBER = re.compile(r"\d+")


def visible(site: Path, page: str) -> list[str]:
    """Return the visible text of a page, one line per block.

    Parts that differ between builds are replaced.
    """
    soup = BeautifulSoup((site / f"{page}.html").read_text("utf-8"), "html.parser")
    for unseen in soup.select("script, style, .headerlink, symbol, svg title, svg desc"):
        unseen.decompose()
    for formula in soup.find_all("math"):
        formula.replace_with("".join(formula.get_text().split()))
    for row in soup.select("table.docutils tr"):
        cells = (" ".join(cell.get_text().split()) for cell in row.find_all(["td", "th"]))
        row.replace_with(f"\n{' | '.join(cells)}\n")
    for block in soup.find_all(APART):
        block.insert_before("\n")
        block.insert_after("\n")
    for fold in soup.find_all("summary"):
        fold.insert(0, "▸ ")
    described = soup.find("meta", attrs={"name": "description"})
    said = [
        soup.title,
        *([soup.find("aside", class_="sidebar-drawer")] if page == "index" else []),
        soup.find("article"),
        soup.find("div", class_="toc-tree"),
    ]
    text = "\n".join(part.get_text() for part in said if part)
    if isinstance(described, Tag):
        text = f"{described['content']}\n{text}"
    for changing, name in CHANGING.items():
        text = changing.sub(name, text)
    if page.startswith(("ledger", "genindex")):
        text = NUMBER.sub("#", text)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [line for line in lines if line]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("edition", EDITIONS)
def test_visible_text_matches_snapshot(
    page: str, edition: str, snapshot: Callable[[Path, str], None]
) -> None:
    lines = visible(Path(SITE, EDITIONS[edition]), page)
    now = [*lines[: PAGES[page]], *(["…"] if len(lines) > PAGES[page] else [])]
    snapshot(KEPT / edition / f"{page.replace('/', '-')}.txt", "\n".join(now) + "\n")


@pytest.mark.parametrize("edition", EDITIONS)
def test_links_of_the_page_for_unknown_addresses_begin_at_the_root(edition: str) -> None:
    file = Path(SITE, EDITIONS[edition], "404.html")
    links = BeautifulSoup(file.read_text("utf-8"), "html.parser").select("a[href]")
    targets = [str(link["href"]) for link in links]
    assert [t for t in targets if not t.startswith(("/", "#", "https://"))] == []
    assert [t for t in targets if t.startswith("/") and not t.endswith("/index.html")] != []


def test_each_snapshot_belongs_to_a_page_and_each_page_has_one() -> None:
    kept = {file.relative_to(KEPT).with_suffix("").as_posix() for file in KEPT.rglob("*.txt")}
    names = (page.replace("/", "-") for page in PAGES)
    assert kept == {f"{edition}/{name}" for name in names for edition in EDITIONS}
