"""Output in notebooks and in a browser."""

import re
import sys
import webbrowser
import xml.etree.ElementTree as ET
from base64 import b64decode
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from urllib.parse import unquote, urlparse

import nbclient
import nbformat
import pytest
import torch

from leafgrad import trace_graph
from tests.browser import needs_chromium
from tests.devtools import Browser, Page
from tests.tensors import leaf


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to run in the kernel of a notebook."""
    shell = SimpleNamespace(kernel=object())
    interactive = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", interactive)


def chain(length: int) -> Any:
    x = leaf(2)
    y = x
    for _ in range(length):
        y = y.sin()
    return trace_graph(y, names={"x": x})


def tangle(length: int) -> Any:
    """Trace a graph without repeats."""
    operations = [torch.sin, torch.exp, torch.tanh, torch.neg, torch.cos]
    made = [leaf(1)]
    for number in range(length):
        made.append(operations[number**2 % 5](made[number // 2]) * made[-1])
    return trace_graph(made[-1])


def classic() -> Any:
    x = torch.tensor(3.0, requires_grad=True)
    return trace_graph(x.sin() * x, names={"<'x'>": x}, values=True, gradients=True)


class Parts(HTMLParser):
    """The elements of some markup with their attributes."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def of(self, tag: str) -> list[dict[str, Any]]:
        return [attributes for name, attributes in self.elements if name == tag]


VALUES: dict[str, Callable[[], Any]] = {"graph": classic, "steps": lambda: classic().steps()}


@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES)
@pytest.mark.usefixtures("kernel")
def test_notebook_shows_page_in_sandboxed_frame(make: Callable[[], Any]) -> None:
    value = make()
    bundle = value._repr_mimebundle_(include=None, exclude=None)
    (frame,) = Parts(bundle["text/html"]).of("iframe")
    assert frame["srcdoc"] == value.to_html()
    assert frame["sandbox"] == "allow-scripts"
    assert bundle["text/plain"] == str(value)


@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES)
@pytest.mark.usefixtures("kernel")
def test_output_without_iframe_and_styles_shows_a_picture(make: Callable[[], Any]) -> None:
    html = make()._repr_mimebundle_()["text/html"]
    left = re.sub(r"<style>.*?</style>|<iframe.*?</iframe>", "", html, flags=re.DOTALL)
    assert "<svg" not in left
    (image,) = Parts(left).of("img")
    kind, data = image["src"].split(",")
    assert kind == "data:image/svg+xml;base64"
    assert ET.fromstring(b64decode(data)).tag.endswith("svg")
    assert image["alt"].startswith("Autograd graph of 3 nodes")


@pytest.mark.usefixtures("kernel")
def test_frame_is_as_high_as_its_picture_up_to_a_limit() -> None:
    bundles = [chain(length)._repr_mimebundle_() for length in (1, 2, 30)]
    heights = [float(Parts(one["text/html"]).of("iframe")[0]["height"]) for one in bundles]
    assert heights[0] < heights[1] < heights[2] == 640


@pytest.mark.usefixtures("kernel")
def test_too_long_page_is_shown_as_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "<iframe" in chain(3)._repr_mimebundle_()["text/html"]
    monkeypatch.setattr("leafgrad._picture.html.page.MOST_CHARACTERS", 1000)
    html = chain(3)._repr_mimebundle_()["text/html"]
    assert "<iframe" not in html
    assert len(Parts(html).of("img")) == 1


@pytest.mark.usefixtures("kernel")
def test_text_below_interactive_page_replaces_too_large_picture() -> None:
    html = tangle(150)._repr_mimebundle_()["text/html"]
    assert "<img" not in html
    assert "</iframe>" in html
    assert ".nodes has them all</pre>" in html.split("</iframe>")[1]


@pytest.mark.usefixtures("kernel")
def test_too_large_page_is_replaced_by_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leafgrad._picture.html.page.MOST_BOXES", 100)
    html = tangle(150)._repr_mimebundle_()["text/html"]
    assert "<iframe" not in html
    assert ".nodes has them all</pre>" in html


def test_ipython_in_a_terminal_gets_no_html(monkeypatch: pytest.MonkeyPatch) -> None:
    interactive = SimpleNamespace(get_ipython=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "IPython", interactive)
    assert classic()._repr_mimebundle_() == {}


@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES)
def test_mime_bundle_without_ipython_has_picture(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    value = make()
    assert value._repr_mimebundle_() == {
        "text/plain": repr(value),
        "text/html": value._repr_html_(),
    }
    assert "<iframe" not in value._repr_html_()


# --- In a browser


@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES)
def test_show_opens_page_in_browser(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = Mock(return_value=True)
    monkeypatch.setattr(webbrowser, "open", browser)
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    value = make()
    value.show()
    file = Path(unquote(urlparse(browser.call_args.args[0]).path))
    assert file.read_text("utf-8") == value.to_html()
    file.unlink()
    file.parent.rmdir()


def test_show_without_browser_names_file_of_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    with pytest.raises(RuntimeError, match="browser") as raised:
        classic().show()
    (name,) = re.findall(r"open (\S+) in a browser", str(raised.value))
    assert Path(name).read_text("utf-8") == classic().to_html()
    Path(name).unlink()
    Path(name).parent.rmdir()


@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES)
@pytest.mark.usefixtures("kernel")
def test_show_displays_in_notebook_and_opens_no_browser(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    displayed: list[object] = []
    display = SimpleNamespace(display=displayed.append)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(webbrowser, "open", pytest.fail)
    value = make()
    value.show()
    assert displayed == [value]


# --- In a notebook that runs


CELL = """
import torch
from leafgrad import trace_graph

x = torch.tensor(3.0, requires_grad=True)
trace = trace_graph(x.sin() * x, names={"x": x}, values=True, gradients=True)
trace.show()
trace
"""


def test_executed_notebook_cell_shows_page() -> None:
    document = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    nbclient.NotebookClient(document, timeout=60, kernel_name="python3").execute()
    told, result = document.cells[0].outputs
    assert (told.output_type, result.output_type) == ("display_data", "execute_result")
    assert told.data == result.data
    assert set(result.data) == {"text/plain", "text/html"}
    assert "<iframe" in result.data["text/html"]
    assert result.data["text/plain"].startswith("3 nodes, 3 edges")


SEEN = """
[...document.querySelectorAll(".leafgrad-page > *")].filter(part => part.offsetHeight > 0)
    .map(part => part.tagName.toLowerCase())
"""


@needs_chromium
@pytest.mark.usefixtures("kernel")
def test_browser_shows_page_or_picture_without_trust(browser: Browser, tmp_path: Path) -> None:
    html = classic()._repr_mimebundle_()["text/html"]
    left = re.sub(r"<style>.*?</style>|<iframe.*?</iframe>", "", html, flags=re.DOTALL)
    for body, seen in ((html, ["iframe"]), (left, ["div"])):
        file = tmp_path / "page.html"
        file.write_text(f"<!doctype html><meta charset=utf-8>{body}", "utf-8")
        assert Page(browser, file.as_uri()).ask(SEEN) == seen
