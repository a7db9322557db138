"""The HTML page of a graph in Chromium."""

from collections.abc import Callable
from functools import cache
from html import escape
from pathlib import Path

import pytest
import torch
from torch import nn

from leafgrad import GraphTrace, trace_graph
from tests.browser import needs_chromium
from tests.devtools import CONTROL, SHIFT, Browser, Page
from tests.models import Block, pinn, polynomial, transformer
from tests.picture.test_modules import blocks
from tests.picture.test_overview import Language, traced

BOXES = "view.boxes"
DRAWN = "[...document.querySelectorAll('.view:not([hidden]) .part')]"
LIT = f"{BOXES}.flatMap((box, n) => !view.lit || view.lit.has(n) ? [n] : [])"
VEIL = "document.querySelector('.view:not([hidden]) .veil').getAttribute('d')"
WAYS = "document.querySelector('.view:not([hidden]) .way').getAttribute('d')"
SELECTED = "selected ?? -1"
TOLD = "document.querySelector('output').textContent"
WIDTH = "document.querySelector('.view:not([hidden]) svg').getBoundingClientRect().width"
WHOLE = """
(svg => {
    const [picture, frame] = [svg.getBoundingClientRect(), stage.getBoundingClientRect()];
    return picture.top >= frame.top - 1 && picture.bottom <= frame.bottom + 1
        && picture.left >= frame.left - 1 && picture.right <= frame.right + 1;
})(view.svg)
"""
SCROLL = "[document.querySelector('main').scrollLeft, document.querySelector('main').scrollTop]"


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
        page.until("rest.length > 0")
        return page

    return at


def box(number: int) -> str:
    return f"{BOXES}[{number}].querySelector('rect')"


# --- What the page is


def test_page_requests_nothing_and_logs_nothing(opened: Opened, browser: Browser) -> None:
    page = opened(polynomial)
    mine = [event for event in browser.events if event.get("sessionId") == page.session]
    asked = [e["params"]["request"]["url"] for e in mine if e["method"].endswith("BeSent")]
    assert [url.rpartition("/")[2] for url in asked] == ["graph.html"]
    complaints = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
    assert [event for event in mine if event["method"] in complaints] == []


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
    assert page.ask(WAYS).count("M") == 3
    assert page.ask(VEIL).count("M") == 2
    page.click((5, 300))
    assert page.ask(LIT) == [0, 1, 2, 3, 4, 5]
    assert page.ask(f"{VEIL} + {WAYS}") == ""


def test_shift_click_highlights_paths_between_two_boxes(opened: Opened) -> None:
    page = opened(polynomial)
    page.click(page.middle(box(5)))
    page.click(page.middle(box(0)), SHIFT)
    assert page.ask(LIT) == [0, 3, 4, 5]
    assert page.ask(TOLD).startswith("4 boxes on the paths between\nnode 5: ")
    page.click(page.middle(box(5)))
    page.click(page.middle(box(1)), SHIFT)
    assert page.ask(LIT) == [1, 5]
    assert page.ask(TOLD).startswith("no path between\n")


def test_drag_scrolls_and_selects_nothing(opened: Opened) -> None:
    page = opened(transformer)
    page.key("f")
    before = page.ask(SCROLL)
    page.drag((60, 500), (60, 200))
    assert page.ask(SCROLL) == [before[0], before[1] + 300]
    assert page.ask(SELECTED) == -1


def test_control_wheel_zooms_at_pointer(opened: Opened) -> None:
    page = opened(transformer)
    spot = page.middle(box(3))
    width = page.ask(WIDTH)
    page.mouse("mouseWheel", spot, deltaX=0, deltaY=-200, modifiers=CONTROL)
    page.until(f"{WIDTH} > {width * 1.5}")
    x, y = page.middle(box(3))
    assert abs(y - spot[1]) < 10
    assert abs(x - spot[0]) < 10


def test_touch_highlights_paths_after_button(opened: Opened) -> None:
    page = opened(polynomial)
    paths = "document.querySelector('[data-do=path]')"
    page.tap(page.middle(box(5)))
    page.tap(page.middle(paths))
    page.until(f"{paths}.ariaPressed === 'true'")
    page.tap(page.middle(box(0)))
    page.until(f"{TOLD}.startsWith('4 boxes on the paths between')")
    assert page.ask(LIT) == [0, 3, 4, 5]
    page.tap(page.middle(paths))
    page.tap(page.middle(box(1)))
    page.until(f"{SELECTED} === 1")
    assert page.ask(LIT) == [0, 1, 2]


def test_pinch_zooms_between_fingers(opened: Opened) -> None:
    page = opened(transformer, 390, 844)
    page.ask("zoom(1)")
    middle = page.middle(box(3))
    page.pinch(middle, 100, 200)
    page.until("scale === 2")
    assert page.middle(box(3)) == pytest.approx(middle, abs=4)
    page.pinch(middle, 200, 100)
    page.until("scale === 1")


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("make", [pinn, transformer, polynomial, blocks])
def test_page_opens_with_whole_graph_in_sight(
    opened: Opened, make: Callable[[], GraphTrace], width: int
) -> None:
    page = opened(make, width, 844)
    assert page.ask(WHOLE)
    page.resize(width, 500)
    page.until(WHOLE)  # until someone zooms
    page.key("+")
    scale = page.ask("scale")
    page.resize(width, 400)
    assert page.ask("scale") == scale
    page.key("f")
    assert page.ask("scale") >= 0.8  # a view that is turned to is large enough to read


def test_page_in_a_hidden_frame_opens_with_whole_graph_once_shown(
    browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "frame.html"
    style = "display: none; height: 400px"
    file.write_text(f'<iframe style="{style}" srcdoc="{escape(html(transformer))}"></iframe>')
    page = Page(browser, file.as_uri())
    page.ask("(inside = document.querySelector('iframe')).style.display = 'block'")
    heights = "['.view', 'main'].map(it => inside.contentDocument.querySelector(it).clientHeight)"
    page.until(f"(([graph, frame]) => 100 < graph && graph <= frame)({heights})")


NAMES = f"{BOXES}.map(box => box.querySelector('.name').textContent)"
OVERLAPS = f"""
{DRAWN}.map(box => box.querySelector('rect').getBoundingClientRect()).flatMap((a, m, all) =>
    all.slice(m + 1).filter(b => a.left < b.right && b.left < a.right
        && a.top < b.bottom && b.top < a.bottom))
"""
CUT = """
(svg => {
    const {x, y, width, height} = svg.getBBox();
    const seen = svg.viewBox.baseVal;
    return x < seen.x || y < seen.y || x + width > seen.x + seen.width
        || y + height > seen.y + seen.height;
})(document.querySelector(".view:not([hidden]) svg"))
"""


def test_print_has_all_boxes_without_overlap(opened: Opened) -> None:
    page = opened(blocks)
    for _ in range(2):
        page.ask("dispatchEvent(new Event('beforeprint'))")
        assert page.ask(f"{DRAWN}.length === {BOXES}.length")
        assert page.ask(f"{OVERLAPS}.length") == 0
        assert page.ask(CUT) is False
        page.ask("dispatchEvent(new Event('afterprint'))")
        page.key("f")


def test_search_and_highlight_follow_fold(opened: Opened) -> None:
    page = opened(transformer)
    page.click(page.middle(box(0)))
    assert page.ask(f"{LIT}.length") == page.ask(f"{BOXES}.length")
    page.key("/")
    page.send("Input.insertText", text="1.perceptron.0.weight")
    assert page.ask(LIT) == []
    page.key("Escape")
    page.key("f")
    assert page.ask(SELECTED) == -1
    page.key("/")
    page.send("Input.insertText", text="11.perceptron.0.weight")
    assert page.ask(f"{LIT}.map(n => {NAMES}[n])") == ["11.perceptron.0.weight"]


# --- Modules

TITLES = f"{NAMES}.join()"
CHOICES = "[...document.querySelectorAll('nav select')].map(one => one.selectedOptions[0].text)"
FOLDED = "document.querySelector('[data-do=fold]').ariaPressed"
BLOCK = [
    "blocks.3: Block",
    "AddBackward0",
    "blocks.2.perceptron: Sequential",
    "blocks.2.norms.1: LayerNorm",
    "AddBackward0",
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


def test_double_click_opens_module(model: Page) -> None:
    assert model.ask(CHOICES) == ["all of Language"]
    double_click(model, model.middle(box(1)))
    assert model.ask(CHOICES) == ["head: Linear"]
    assert model.ask(TITLES).startswith("SumBackward0,")
    double_click(model, model.middle(box(1)))  # a node has nothing to look into
    assert model.ask(CHOICES) == ["head: Linear"]


def test_menus_choose_modules(model: Page) -> None:
    choose = "(choice => (choice.value = {}, choice.dispatchEvent(new Event('change'))))"
    number = model.ask("modules.findIndex(([title]) => title === 'blocks.2: Block')")
    model.ask(f"{choose.format(number)}(document.querySelector('nav select'))")
    assert model.ask(NAMES) == BLOCK
    assert model.ask(CHOICES) == ["blocks.2: Block", "all of it"]
    number = model.ask("modules.findIndex(([title]) => title.startsWith('blocks.2.attend:'))")
    model.ask(f"{choose.format(number)}(document.querySelectorAll('nav select')[1])")
    assert model.ask(f"{CHOICES}[1]") == "blocks.2.attend: MultiheadAttention"
    assert model.ask(TITLES).endswith("blocks.2.norms.0: LayerNorm")
    model.ask(f"{choose.format(-1)}(document.querySelector('nav select'))")
    assert model.ask(CHOICES) == ["all of Language"]
    assert model.ask(FOLDED) == "true"


def test_keys_open_and_leave_modules(model: Page) -> None:
    for _ in range(4):
        model.key("ArrowDown")
    model.key("Enter")
    assert model.ask(f"{CHOICES}[0]") == "blocks.3: Block"
    model.ask(f"select({NAMES}.indexOf('blocks.2: Block'))")
    model.key("Enter")
    assert model.ask(NAMES) == BLOCK
    model.key("Backspace")
    assert model.ask(f"[{CHOICES}[0], {SELECTED}]") == ["all of Language", -1]
    model.key("Backspace")
    assert model.ask(CHOICES) == ["all of Language"]


def test_search_finds_boxes_of_hidden_modules(model: Page) -> None:
    model.key("/")
    model.send("Input.insertText", text="blocks.1.perceptron.0.weight")
    assert model.ask(TOLD) == "none here; Enter looks into blocks.1.perceptron.0: Linear"
    model.key("Enter")
    assert model.ask(f"{LIT}.length") == 1
    assert model.ask(f"{CHOICES}[0]") == "blocks.1: Block"
    model.send("Input.insertText", text="no such name")
    assert model.ask(TOLD).startswith("0 boxes found")
    model.key("Enter")
    assert model.ask(f"{CHOICES}[0]") == "blocks.1: Block"


CLASS = "view.shape(number).getAttribute('class')"
HEAT = f"{BOXES}.map((_, number) => Number({CLASS}.match(/heat-(.)/)?.[1] ?? 0))"
PAINT = "(color.value = '{}', color.dispatchEvent(new Event('change')))"


def test_colours_apply_to_each_view(opened: Opened) -> None:
    page = opened(traced(Language(), gradients=True).to_html())
    for which in ("bytes", "gradient"):
        page.ask(PAINT.format(which))
        steps = page.ask(HEAT)
        assert max(steps) == 5
        assert steps == page.ask(f"view.heat.{which}.slice(1)")
    assert page.ask(TOLD).startswith("Colour: gradient norm, ")
    double_click(page, page.middle(box(3)))
    assert page.ask(HEAT) == page.ask("view.heat.gradient.slice(1)")
    page.key("f")
    page.key("0")
    drawn = "[...document.querySelectorAll('.view:not([hidden]) [class*=heat]')].length"
    assert page.ask(drawn) > 0
    page.ask(PAINT.format(""))
    assert page.ask(drawn) == 0
    assert page.ask(TOLD).startswith("Point at a box")


def test_menus_and_buttons_keep_their_keys(model: Page) -> None:
    model.ask("document.querySelector('nav select').focus()")
    model.key("ArrowDown")
    assert model.ask(f"[{SELECTED}, {CHOICES}[0]]")[0] == -1
    model.ask("document.querySelector('[data-do=fold]').focus()")
    model.key("Enter")
    assert model.ask(SELECTED) == -1


def test_page_works_without_packed_views(tmp_path: Path, browser: Browser) -> None:
    file = tmp_path / "old.html"
    text = html(language)
    file.write_text(text.replace('id="rest">', 'id="rest">!'), "utf-8")
    page = Page(browser, file.as_uri(), 1000, 700)
    page.until("!document.querySelector('[data-do=fold]')")
    assert page.ask(f"{BOXES}.length") == 6  # with the input
    page.key("f")
    double_click(page, page.middle(box(1)))
    assert page.ask(f"{BOXES}.length") == 6  # with the input
    assert page.ask("document.querySelector('nav').childElementCount") == 0


# --- Thousands of nodes

SEEN = """
(frame => view.rects.flatMap((_, n) => {
    const [x, y] = view.middle(n);
    return x > frame.left && x < frame.right && y > frame.top && y < frame.bottom ? [n] : [];
}))(stage.getBoundingClientRect())
"""
THERE = f"{SEEN}.every(n => {BOXES}[n].isConnected)"
DRAWN_WRONG = f"""
{SEEN}.filter(n => {{
    const at = {BOXES}[n].querySelector('.box, .leaf').getBoundingClientRect();
    const [x, y] = view.middle(n);
    return Math.abs(at.left + at.width / 2 - x) > 1 || Math.abs(at.top + at.height / 2 - y) > 1;
}})
"""


def deep() -> GraphTrace:
    model = nn.Sequential(nn.Linear(8, 8), *(Block(8) for _ in range(54)))
    return trace_graph(model(torch.ones(1, 4, 8)).mean(), names=model)


@pytest.fixture(name="page")
def in_full(opened: Opened) -> Page:
    """Three thousand boxes; benchmarks/page_cost.py tells what it costs to move among them."""
    page = opened(deep)
    page.key("f")
    return page


def test_only_visible_boxes_are_drawn(page: Page) -> None:
    assert page.ask(f"{BOXES}.length") == 2923  # with the input
    for number in (0, 700, 2921, 1400, 60):
        page.ask(f"stage.scrollTo(0, view.rects[{number}].top * scale)")
        page.until(THERE)
        assert page.ask(DRAWN_WRONG) == []
        assert 5 < page.ask(f"{DRAWN}.length") < 100


def test_tiny_boxes_are_drawn_as_shapes(page: Page) -> None:
    page.key("0")
    shapes = "[...view.near.children].map(each => each.getAttribute('d').split('M').length - 1)"
    assert sum(page.ask(shapes)) == page.ask("view.nearBoxes.length") > 200
    assert page.ask(f"{DRAWN}.length") == 0
    page.click(page.ask("view.middle(view.nearBoxes[100])"))
    covers = page.ask("view.nearBoxes.filter(n => !view.lit.has(n)).map(n => view.cover(n))")
    assert page.ask(VEIL) == "".join(covers) != ""
    page.ask("zoom(1)")
    assert page.ask(THERE)


def test_long_graph_can_be_fitted(page: Page) -> None:
    assert not page.ask(WHOLE)
    page.click(page.middle("document.querySelector('[data-do=fit]')"))
    assert page.ask(WHOLE)
    for _ in range(40):
        page.key("+")
    assert page.ask("scale") == pytest.approx(4)
    page.key("0")
    assert page.ask(WHOLE)


# --- With the keyboard


def test_arrow_keys_move_along_graph(opened: Opened) -> None:
    page = opened(polynomial)
    visited = []
    for key in ("Down", "Down", "Right", "Down", "Left", "Up", "Up", "Up"):
        page.key(f"Arrow{key}")
        visited.append(page.ask(SELECTED))
    assert visited == [0, 1, 3, 4, 2, 1, 0, 0]
    page.key("Escape")
    assert page.ask(SELECTED) == -1


def test_shift_arrows_extend_path(opened: Opened) -> None:
    page = opened(polynomial)
    page.key("ArrowDown")
    page.key("ArrowDown", SHIFT)
    page.key("ArrowRight", SHIFT)
    page.key("ArrowDown", SHIFT)
    assert page.ask(SELECTED) == 0
    assert page.ask(LIT) == [0, 3, 4]
    page.key("ArrowUp")
    assert page.ask(SELECTED) == 3


def test_selected_box_scrolls_into_view(opened: Opened) -> None:
    page = opened(transformer)
    page.key("f")
    for _ in range(30):
        page.key("ArrowDown")
    assert page.ask(SELECTED) > 20
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
