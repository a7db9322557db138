"""Built pages in a real browser: axe-core finds nothing to complain about."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from leafgrad import trace_graph
from tests.browser import needs_chromium
from tests.devtools import Browser, Page, chromium
from tests.models import checkpointed, pinn
from tests.render.test_piles import blocks

ROOT = Path(__file__).parent.parent
AXE = Path(os.environ.get("LEAFGRAD_NODE_MODULES", "")) / "axe-core" / "axe.min.js"
has_site = importlib.util.find_spec("furo") is not None
pytestmark = [
    needs_chromium,
    pytest.mark.skipif(not AXE.is_file(), reason="LEAFGRAD_NODE_MODULES has no axe-core"),
]

RUN = """
axe.run(document, {resultTypes: ["violations"]}).then(result => JSON.stringify(
    result.violations.flatMap(({id, nodes}) => nodes.map(node => [id, node.html]))))
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", str(ROOT / "docs"), str(built)]
    subprocess.run(command, check=True, capture_output=True)
    return built


def with_pictures(site: Path) -> list[Path]:
    """The pages on which a graph is drawn."""
    found = [page for page in site.rglob("*.html") if 'class="leafgrad-' in page.read_text("utf-8")]
    names = {page.relative_to(site).as_posix() for page in found}
    assert names >= {"reference/gallery.html", "tutorial/graph.html", "tutorial/step-by-step.html"}
    return found


def complaints(browser: Browser, file: Path, scheme: str, width: int) -> list[Any]:
    page = Page(browser, file.as_uri(), width=width)
    scheme_feature = {"name": "prefers-color-scheme", "value": scheme}
    page.send("Emulation.setEmulatedMedia", features=[scheme_feature])
    page.ask(AXE.read_text("utf-8") + ";0")
    answer = page.send("Runtime.evaluate", expression=RUN, awaitPromise=True, returnByValue=True)[
        "result"
    ]
    found: list[Any] = json.loads(answer["value"])
    return found


LOOKS = pytest.mark.parametrize(
    ("scheme", "width"),
    [("light", 1000), ("dark", 1000), ("light", 390), ("dark", 390)],
    ids=["light", "dark", "light phone", "dark phone"],
)


@LOOKS
@pytest.mark.skipif(not has_site, reason="the tools of the documentation are not installed")
def test_axe_finds_nothing_on_pages_with_pictures(
    browser: Browser, site: Path, scheme: str, width: int
) -> None:
    for page in with_pictures(site):
        assert complaints(browser, page, scheme, width) == []


@LOOKS
def test_axe_finds_nothing_on_the_page_of_a_graph_or_a_backward(
    browser: Browser, tmp_path: Path, scheme: str, width: int
) -> None:
    x = torch.tensor(2.0, requires_grad=True)
    told = trace_graph(x.sin() * x, names={"x": x}, values=True, gradients=True).steps()
    for shown in (blocks(), pinn(), checkpointed(), told):
        file = tmp_path / "graph.html"
        file.write_text(shown.to_html(), "utf-8")
        assert complaints(browser, file, scheme, width) == []


def test_axe_sees_what_is_wrong(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "graph.html"
    file.write_text(pinn().to_html().replace(' aria-label="Zoom in"', "").replace(">+<", "><"))
    assert [name for name, _ in complaints(browser, file, "light", 1000)] == ["button-name"]
