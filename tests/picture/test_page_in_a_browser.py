"""The HTML page of a graph in Chromium."""

from collections.abc import Callable
from functools import cache
from html import escape
from pathlib import Path

import pytest

from leafgrad import GraphTrace
from tests.browser import needs_chromium
from tests.devtools import CONTROL, Browser, Page
from tests.models import pinn, polynomial, transformer
from tests.picture.test_modules import blocks
from tests.picture.test_overview import Language, traced

BOXES = "view.boxes"
LIT = f"{BOXES}.flatMap((box, n) => !view.lit || view.lit.has(n) ? [n] : [])"
DIM = "document.querySelectorAll('.view:not([hidden]) .part.dim').length"
WAYS = "document.querySelectorAll('.view:not([hidden]) .way').length"
SELECTED = "selected ?? -1"
TOLD = "document.querySelector('output').textContent"
WIDTH = "view.svg.getBoundingClientRect().width"
WHOLE = """
(svg => {
    const [picture, frame] = [svg.getBoundingClientRect(), stage.getBoundingClientRect()];
    return picture.top >= frame.top - 1 && picture.bottom <= frame.bottom + 1
        && picture.left >= frame.left - 1 && picture.right <= frame.right + 1;
})(view.svg)
"""
SCROLL = "[stage.scrollLeft, stage.scrollTop]"

pytestmark = needs_chromium
Opened = Callable[..., Page]


@cache
def html(make: Callable[[], GraphTrace]) -> str:
    """Make the page of a graph once for all tests."""
    return make().to_html()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Opened:
    def at(shown: Callable[[], GraphTrace] | str, width: int = 1000, height: int = 700) -> Page:
        file = tmp_path / "graph.html"
        file.write_text(shown if isinstance(shown, str) else html(shown), "utf-8")
        page = Page(browser, file.as_uri(), width, height)
        page.until("packed.forward")
        return page

    return at


def box(number: int) -> str:
    return f"{BOXES}[{number}].querySelector('rect')"


def test_page_requests_nothing_and_logs_nothing(opened: Opened, browser: Browser) -> None:
    page = opened(polynomial)
    mine = [event for event in browser.events if event.get("sessionId") == page.session]
    asked = [e["params"]["request"]["url"] for e in mine if e["method"].endswith("BeSent")]
    assert [url.rpartition("/")[2] for url in asked] == ["graph.html"]
    complaints = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
    assert [event for event in mine if event["method"] in complaints] == []


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("make", [pinn, transformer, polynomial, blocks])
def test_page_opens_with_whole_graph_in_sight(
    opened: Opened, make: Callable[[], GraphTrace], width: int
) -> None:
    page = opened(make, width, 844)
    assert page.ask(WHOLE)
    page.resize(width, 600)
    page.until(WHOLE)  # The picture fits until the user zooms.
    page.key("+")
    scale = page.ask("scale")
    page.resize(width, 400)
    assert page.ask("scale") == scale
    page.key("f")
    assert page.ask("scale") >= 0.45  # a newly opened view is large enough to read


def test_page_in_hidden_frame_fits_graph_when_frame_is_shown(
    browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "frame.html"
    style = "display: none; height: 400px"
    file.write_text(f'<iframe style="{style}" srcdoc="{escape(html(transformer))}"></iframe>')
    page = Page(browser, file.as_uri())
    page.ask("(inside = document.querySelector('iframe')).style.display = 'block'")
    heights = "['.view', 'main'].map(it => inside.contentDocument.querySelector(it).clientHeight)"
    page.until(f"(([graph, frame]) => 100 < graph && graph <= frame)({heights})")


# --- With the pointer


def test_pointing_at_box_shows_its_details(opened: Opened) -> None:
    page = opened(polynomial)
    hint = page.ask(TOLD)
    page.mouse("mouseMoved", page.middle(box(3)))
    assert "node 3: SinBackward0\noutput (3,) float32 cpu\n" in page.ask(TOLD)
    page.mouse("mouseMoved", (5, 300))
    assert page.ask(TOLD) == hint


def test_click_highlights_connected_boxes(opened: Opened) -> None:
    page = opened(polynomial)
    page.click(page.middle(box(3)))
    assert page.ask(LIT) == [0, 3, 4, 5]
    assert page.ask(f"[{WAYS}, {DIM}]") == [3, 2]
    page.click((5, 300))
    assert page.ask(LIT) == [0, 1, 2, 3, 4, 5]
    assert page.ask(f"[{WAYS}, {DIM}]") == [0, 0]


def test_drag_scrolls_and_selects_nothing(opened: Opened) -> None:
    page = opened(transformer)
    page.key("f")
    page.ask("(zoom(1.3), stage.scrollTo(0, 0), 0)")
    before = page.ask(SCROLL)
    page.drag((60, 500), (60, 450))
    assert page.ask(SCROLL) == [before[0], before[1] + 50]
    assert page.ask(SELECTED) == -1


def test_control_wheel_zooms_at_pointer(opened: Opened) -> None:
    page = opened(transformer)
    spot = page.middle(box(3))
    width = page.ask(WIDTH)
    page.mouse("mouseWheel", spot, deltaX=0, deltaY=-200, modifiers=CONTROL)
    page.until(f"{WIDTH} > {width * 1.5}")
    _, y = page.middle(box(3))
    assert abs(y - spot[1]) < 10


# --- Directions, modules and colours

NAMES = f"{BOXES}.map(box => box.querySelector('.name').textContent)"
CHOICES = "[...document.querySelectorAll('nav select')].map(one => one.selectedOptions[0].text)"
PRESSED = "document.querySelector('[data-do={}]').ariaPressed"
BLOCK = [
    "blocks.3: Block",
    "add",
    "blocks.2.perceptron: Sequential",
    "blocks.2.norms.1: LayerNorm",
    "add",
    "blocks.2.attend: MultiheadAttention",
    "blocks.2.norms.0: LayerNorm",
    "blocks.1: Block",
]


def language() -> GraphTrace:
    return traced(Language())


@pytest.fixture(name="model")
def of_a_model(opened: Opened) -> Page:
    return opened(language)


def double_click(page: Page, spot: tuple[float, float]) -> None:
    page.click(spot)
    for kind in ("mousePressed", "mouseReleased"):
        page.mouse(kind, spot, button="left", clickCount=2)


def test_button_reverses_direction(opened: Opened) -> None:
    page = opened(polynomial)
    top = f"{BOXES}[0].getBoundingClientRect().top < {BOXES}[5].getBoundingClientRect().top"
    assert page.ask(f"[{top}, {NAMES}[0]]") == [False, "add"]
    page.click(page.middle("document.querySelector('[data-do=turn]')"))
    assert page.ask(f"[{top}, {NAMES}[0]]") == [True, "AddBackward0"]
    assert page.ask(PRESSED.format("turn")) == "true"
    page.key("d")
    assert page.ask(f"{NAMES}[0]") == "add"


def test_double_click_opens_module(model: Page) -> None:
    assert model.ask(CHOICES) == ["all of Language"]
    double_click(model, model.middle(box(1)))
    assert model.ask(CHOICES) == ["head: Linear"]
    double_click(model, model.middle(box(0)))  # a node cannot be opened
    assert model.ask(CHOICES) == ["head: Linear"]


def test_menus_choose_modules(model: Page) -> None:
    choose = "(choice => (choice.value = {}, choice.dispatchEvent(new Event('change'))))"
    number = model.ask("modules.findIndex(([title]) => title === 'blocks.2: Block')")
    model.ask(f"{choose.format(number)}(document.querySelector('nav select'))")
    assert model.ask(NAMES) == BLOCK
    assert model.ask(CHOICES) == ["blocks.2: Block", "all of it"]
    model.ask(f"{choose.format(-1)}(document.querySelector('nav select'))")
    assert model.ask(CHOICES) == ["all of Language"]
    assert model.ask(PRESSED.format("fold")) == "false"


def test_keys_open_and_leave_modules(model: Page) -> None:
    model.ask(f"select({NAMES}.findIndex(name => name.startsWith('blocks.')))")
    model.key("Enter")
    assert model.ask(f"{CHOICES}[0]") == "blocks.3: Block"
    model.ask(f"select({NAMES}.indexOf('blocks.2: Block'))")
    model.key("Enter")
    assert model.ask(NAMES) == BLOCK
    model.key("Backspace")
    assert model.ask(CHOICES) == ["all of Language"]


MARKS = (
    f"{BOXES}.map((one) => [...one.firstElementChild.classList])"
    ".map((all) => all.find(c => /^(heat|hue)-/.test(c)) ?? '')"
)
PAINT = "(color.value = '{}', color.dispatchEvent(new Event('change')))"


def test_colours_apply_to_each_picture_of_a_page(opened: Opened) -> None:
    page = opened(traced(Language(), gradients=True).to_html())
    for which in ("class", "bytes", "gradient"):
        page.ask(PAINT.format(which))
        marks = page.ask(MARKS)
        assert len({*marks}) > 2
        assert marks == page.ask(f"view.heat.{which}.marks")
    assert page.ask("legend.textContent").startswith("gradient norm, ")
    double_click(page, page.middle(box(3)))
    assert page.ask(MARKS) == page.ask("view.heat.gradient.marks")
    page.ask(PAINT.format(""))
    assert page.ask(f"[{{...{MARKS}}}[0], legend.textContent]") == ["", ""]


# --- With the keyboard


def test_arrow_keys_move_along_graph(opened: Opened) -> None:
    page = opened(polynomial)
    visited = []
    for key in ("Down", "Down", "Down", "Up", "Left", "Up"):
        page.key(f"Arrow{key}")
        visited.append(page.ask(SELECTED))
    assert visited[:4] == [2, 1, 0, 1]
    page.key("Escape")
    assert page.ask(SELECTED) == -1


def test_keys_pressed_in_menus_and_buttons_do_not_select_boxes(model: Page) -> None:
    model.ask("document.querySelector('nav select').focus()")
    model.key("ArrowDown")
    assert model.ask(SELECTED) == -1
    model.ask("document.querySelector('[data-do=fold]').focus()")
    model.key("Enter")
    assert model.ask(SELECTED) == -1


def test_selected_box_scrolls_into_view(opened: Opened) -> None:
    page = opened(transformer)
    page.key("f")
    for _ in range(30):
        page.key("ArrowDown")
    _, y = page.middle(f"{BOXES}[{page.ask(SELECTED)}]")
    assert 60 < y < 600


def test_enter_moves_through_search_results(opened: Opened) -> None:
    page = opened(polynomial)
    page.key("/")
    page.send("Input.insertText", text="mulback")
    assert page.ask(LIT) == [1, 4]
    assert page.ask(TOLD).startswith("2 boxes found")
    visited = []
    for _ in range(3):
        page.key("Enter")
        visited.append(page.ask(SELECTED))
    assert visited == [1, 4, 1]
    page.key("Escape")
    assert page.ask("document.querySelector('input').value") == ""
