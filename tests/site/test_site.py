"""The built site in a browser: accessibility, widths and search.

`nox -s docs` builds the site and stores its folder in the variable SITE.
"""

import json
import os
import re
import tomllib
from base64 import b64decode
from collections.abc import Iterator
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest
import torch

from leafgrad import trace_graph
from tests.browser import needs_chromium
from tests.devtools import Browser, Page
from tests.models import checkpointed, pinn
from tests.picture.test_modules import blocks
from tests.site.built import SITE, needs_site

AXE = Path(os.environ.get("LEAFGRAD_NODE_MODULES", "")) / "axe-core" / "axe.min.js"
needs_axe = pytest.mark.skipif(not AXE.is_file(), reason="LEAFGRAD_NODE_MODULES has no axe-core")
pytestmark = needs_chromium

RUN = """
axe.run(document, {resultTypes: ["violations"]}).then(result => JSON.stringify(
    result.violations.flatMap(({id, nodes}) => nodes.map(node => [id, node.html]))))
"""


class Server(SimpleHTTPRequestHandler):
    """Serves the site below the same path as the published one, which the 404 page uses."""

    def translate_path(self, path: str) -> str:
        return super().translate_path("/" + path.removeprefix(published()))

    def log_message(self, *_words: Any) -> None:
        pass


@cache
def published() -> str:
    """Return the path of the site on its published server."""
    found = re.search(r'href="([^"]*/)_static/', Path(SITE, "404.html").read_text("utf-8"))
    assert found
    return found[1]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve the site over HTTP, because links from its root do not work with file addresses."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, directory=SITE)) as server:
        Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def pages() -> list[str]:
    files = sorted(Path(SITE).rglob("*.html"))
    shown = [file for file in files if 'http-equiv="refresh"' not in file.read_text("utf-8")]
    names = [file.relative_to(SITE).as_posix() for file in shown]
    return [name for name in names if not name.startswith("_static/")]


def complaints(browser: Browser, uri: str, *looks: tuple[str, int]) -> list[Any]:
    page = Page(browser, uri)
    page.ask(AXE.read_text("utf-8") + ";0")
    found: list[Any] = []
    for scheme, width in looks:
        page.resize(width)
        scheme_feature = {"name": "prefers-color-scheme", "value": scheme}
        page.send("Emulation.setEmulatedMedia", features=[scheme_feature])
        run = {"expression": RUN, "awaitPromise": True, "returnByValue": True}
        found += json.loads(page.send("Runtime.evaluate", **run)["result"]["value"])
    return found


LAYOUTS = {
    "start": "index",
    "routes": "tutorial/index",
    "a part": "tutorial/part-gradients",
    "the cheat sheet": "tutorial/cheat-sheet",
    "a chapter with a picture": "tutorial/graph",
    "steps": "tutorial/step-by-step",
    "a plot": "tutorial/pinn-heat",
    "wide tables": "tutorial/errata",
    "errors": "how-to/errors",
    "diagnoses": "how-to/missing-gradient",
    "tables of contents": "how-to/index",
    "pictures": "reference/gallery",
    "a function and its values": "reference/diagnose",
    "definitions": "glossary",
    "counts": "ledger",
    "claims": "ledger/first-gradients",
    "search": "search",
    "nowhere": "404",
}


@needs_axe
@needs_site
@pytest.mark.parametrize("page", LAYOUTS.values(), ids=LAYOUTS)
def test_axe_finds_no_accessibility_problem_on_a_page_of_each_layout(
    browser: Browser, address: str, page: str
) -> None:
    looks = [(scheme, width) for scheme in ("light", "dark") for width in (1000, 390)]
    assert complaints(browser, f"{address}/{page}.html", *looks) == []


@needs_site
def test_old_address_redirects_to_the_section_that_replaced_its_page(
    browser: Browser, address: str
) -> None:
    page = Page(browser, f"{address}/404.html")
    page.send("Page.navigate", url=f"{address}/how-to/vanishing.html")
    page.until("location.href.endsWith('/how-to/does-not-train.html#gradients-vanish')")


CUT = "[...document.querySelectorAll('article pre')].filter(e => e.scrollWidth > e.clientWidth)"
HIDDEN = "[...document.querySelectorAll('.hide pre')].filter(e => !e.checkVisibility())"
TOO_WIDE = "document.scrollingElement.scrollWidth > 320"


def cut_and_too_wide(browser: Browser, *uris: str) -> list[tuple[list[str], bool]]:
    """Return for each page the code that a wide screen cuts, and whether a phone must scroll."""
    page = Page(browser, uris[0])
    found = []
    for uri in uris:
        page.resize(1280)
        page.go(uri)
        cut: list[str] = page.ask(f"{CUT}.map(e => e.textContent)")
        page.resize(320)
        found.append((cut, page.ask(TOO_WIDE)))
    return found


@pytest.fixture(scope="module")
def widths(browser: Browser, address: str, pages: list[str]) -> dict[str, tuple[list[str], bool]]:
    found = cut_and_too_wide(browser, *(f"{address}/{page}" for page in pages))
    return dict(zip(pages, found, strict=True))


@needs_site
def test_no_page_is_wider_than_a_narrow_phone(widths: dict[str, tuple[list[str], bool]]) -> None:
    assert [page for page, (_, is_too_wide) in widths.items() if is_too_wide] == []


def test_too_wide_page_is_detected(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "wide.html"
    for width, is_too_wide in ((300, False), (400, True)):
        file.write_text(f'<!doctype html><div style="width: {width}px">A</div>')
        assert cut_and_too_wide(browser, file.as_uri()) == [([], is_too_wide)]


@needs_site
def test_code_needs_no_scrolling_on_a_wide_screen(
    widths: dict[str, tuple[list[str], bool]],
) -> None:
    assert {page: cut for page, (cut, _) in widths.items() if cut} == {}


@needs_site
def test_printed_page_cuts_no_code_and_opens_no_fold(browser: Browser, address: str) -> None:
    page = Page(browser, f"{address}/tutorial/second-order-memory.html", 680)
    folds = page.ask(f"{HIDDEN}.length")
    cut = {}
    for media in ("screen", "print"):
        page.send("Emulation.setEmulatedMedia", media=media)
        cut[media] = page.ask(f"{CUT}.length")
    assert cut["print"] == 0
    assert page.ask(f"{HIDDEN}.length") == folds
    assert min(cut["screen"], folds) > 0  # on the screen these exist, so the selectors work


@needs_site
def test_the_cheat_sheet_prints_on_one_sheet_of_a4(browser: Browser, address: str) -> None:
    found = []
    for name in ("tutorial/cheat-sheet", "tutorial/leaf"):
        page = Page(browser, f"{address}/{name}.html")
        printed = page.send("Page.printToPDF", preferCSSPageSize=True)["data"]
        found.append(len(re.findall(rb"/Type\s*/Page\b", b64decode(printed))))
    sheets, others = found
    assert sheets == 1
    assert others > 1  # So the count notices further sheets.


ERROR = "/how-to/backward-error.html"


@needs_site
@pytest.mark.parametrize(
    ("words", "found"),
    {
        "Trying to backward through the graph a second time": f"{ERROR}#freed",
        "has been modified by an inplace operation": ERROR,
        "can't retain_grad on Tensor that has requires_grad=False": "/how-to/errors.html",
        "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn": (
            f"{ERROR}#no-graph"
        ),
        "RuntimeError: Trying to backward through the graph a second time (or directly access"
        " saved tensors after they have already been freed). Saved intermediate values": (
            f"{ERROR}#freed"
        ),
        "RuntimeError: Function 'MulBackward0' returned nan values in its 1st output.": (
            "/how-to/does-not-train.html#function-returned-nan-values-in-its"
        ),
        "leaf/constant-result-is-leaf": "/tutorial/leaf.html#claim-leaf-constant-result-is-leaf",
        "is-grads-batched": "/tutorial/grad-outputs.html#claim-autograd-grad-is-grads-batched",
        "pinn-heat/reaches-the-solution": (
            "/tutorial/pinn-heat.html#claim-pinn-heat-reaches-the-solution"
        ),
    }.items(),
)
def test_search_finds_a_message_and_an_id(
    browser: Browser, address: str, words: str, found: str
) -> None:
    page = Page(browser, f"{address}/search.html?q={quote(words)}")
    page.until("!!document.querySelector('ul.search a')")
    first = page.ask("document.querySelector('ul.search a').href")
    assert first.removeprefix(address).startswith(found)


RANKED = "Search.find({}).map(({{ name }}) => name)"


QUERIES = tomllib.loads(Path(__file__).with_name("queries.toml").read_text("utf-8"))


def ranks(browser: Browser, address: str, queries: str) -> dict[str, int]:
    """Return, for each query, how many pages come before the first expected one."""
    edition = "zh-cn/" if "chinese" in queries else ""
    page = Page(browser, f"{address}/{edition}search.html?q=leaf")
    page.until("!!document.querySelector('ul.search a')")
    found = {query: page.ask(RANKED.format(json.dumps(query))) for query in QUERIES[queries]}
    return {
        query: min((pages.index(one) for one in wanted.split() if one in pages), default=99)
        for (query, wanted), pages in zip(QUERIES[queries].items(), found.values(), strict=True)
    }


@needs_site
@pytest.mark.parametrize(("queries", "most"), [("first", 0), ("among-three", 2), ("chinese", 2)])
def test_search_ranks_the_expected_page_first(
    browser: Browser, address: str, queries: str, most: int
) -> None:
    found = ranks(browser, address, queries)
    assert {query: rank for query, rank in found.items() if rank > most} == {}


@needs_site
@pytest.mark.parametrize("queries", ["asked", "asked-chinese"])
def test_search_finds_most_expected_pages(browser: Browser, address: str, queries: str) -> None:
    found = sorted(ranks(browser, address, queries).values())
    assert found[int(0.8 * len(found)) - 1] == 0
    assert found[int(0.95 * len(found)) - 1] <= 2


LOOKS = pytest.mark.parametrize(
    ("scheme", "width"),
    [("light", 1000), ("dark", 1000), ("light", 390), ("dark", 390)],
    ids=["light", "dark", "light phone", "dark phone"],
)


@needs_axe
@LOOKS
def test_axe_finds_no_accessibility_problem_on_explorer_and_player_pages(
    browser: Browser, tmp_path: Path, scheme: str, width: int
) -> None:
    x = torch.tensor(2.0, requires_grad=True)
    told = trace_graph(x.sin() * x, names={"x": x}, values=True, gradients=True).steps()
    for shown in (blocks(), pinn(), checkpointed(), told):
        file = tmp_path / "graph.html"
        file.write_text(shown.to_html(), "utf-8")
        assert complaints(browser, file.as_uri(), (scheme, width)) == []


@needs_axe
def test_axe_reports_planted_accessibility_problems(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "graph.html"
    file.write_text(pinn().to_html().replace(' aria-label="Zoom in"', "").replace(">+<", "><"))
    assert [name for name, _ in complaints(browser, file.as_uri(), ("light", 1000))] == [
        "button-name"
    ]
