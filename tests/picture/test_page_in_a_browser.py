"""The page of a graph, used with a real pointer and real keys in Chromium."""

from collections.abc import Callable
from functools import cache
from html import escape
from pathlib import Path

import pytest
import torch
from torch import nn

from leafgrad import GraphTrace, record, trace_graph
from tests.browser import needs_chromium
from tests.devtools import CONTROL, SHIFT, Browser, Page
from tests.models import Block, pinn, polynomial, resnet, transformer
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


def test_it_asks_no_network_and_runs_without_a_complaint(opened: Opened, browser: Browser) -> None:
    page = opened(polynomial)
    mine = [event for event in browser.events if event.get("sessionId") == page.session]
    asked = [e["params"]["request"]["url"] for e in mine if e["method"].endswith("BeSent")]
    assert [url.rpartition("/")[2] for url in asked] == ["graph.html"]
    complaints = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
    assert [event for event in mine if event["method"] in complaints] == []


def test_a_name_with_a_script_in_it_does_nothing(opened: Opened) -> None:
    x = torch.ones(2, requires_grad=True)
    name = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
    page = opened(trace_graph(x.exp(), names={name: x}).to_html())
    page.click(page.middle(box(1)))
    assert name in page.ask(TOLD)
    assert page.ask("[window.hit ?? 0, document.images.length]") == [0, 0]


def test_the_hint_tells_of_keys_but_for_those_who_have_a_touch_screen(opened: Opened) -> None:
    page = opened(polynomial)
    hint, keys = page.ask(TOLD).splitlines()
    assert (hint[:5], keys[:5]) == ("Point", "Keys:")
    page.send("Emulation.setTouchEmulationEnabled", enabled=True)
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1}
    page.send("Emulation.setDeviceMetricsOverride", mobile=True, **size)
    page.ask("window.isOld = true")
    page.send("Page.reload")
    page.until("!window.isOld && document.readyState === 'complete'")
    assert page.ask(TOLD) == hint


# --- With the pointer


def test_pointing_at_a_box_tells_what_is_known_of_it(opened: Opened) -> None:
    page = opened(polynomial)
    hint = page.ask(TOLD)
    page.mouse("mouseMoved", page.middle(box(3)))
    assert "node 3: SinBackward0\noutput (3,) float32 cpu\n" in page.ask(TOLD)
    page.mouse("mouseMoved", (5, 300))
    assert page.ask(TOLD) == hint


def test_a_click_lights_what_leads_to_a_box_and_what_it_leads_to(opened: Opened) -> None:
    page = opened(polynomial)
    page.click(page.middle(box(3)))
    assert page.ask(LIT) == [0, 3, 4, 5]
    assert page.ask(WAYS).count("M") == 3
    assert page.ask(VEIL).count("M") == 2
    page.click((5, 300))
    assert page.ask(LIT) == [0, 1, 2, 3, 4, 5]
    assert page.ask(f"{VEIL} + {WAYS}") == ""


def test_a_click_with_shift_lights_the_paths_between_two(opened: Opened) -> None:
    page = opened(polynomial)
    page.click(page.middle(box(5)))
    page.click(page.middle(box(0)), SHIFT)
    assert page.ask(LIT) == [0, 3, 4, 5]
    assert page.ask(TOLD).startswith("4 boxes on the paths between\nnode 5: ")
    page.click(page.middle(box(5)))
    page.click(page.middle(box(1)), SHIFT)
    assert page.ask(LIT) == [1, 5]
    assert page.ask(TOLD).startswith("no path between\n")


def test_dragging_moves_the_picture_and_selects_nothing(opened: Opened) -> None:
    page = opened(transformer)
    page.key("f")
    before = page.ask(SCROLL)
    page.drag((60, 500), (60, 200))
    assert page.ask(SCROLL) == [before[0], before[1] + 300]
    assert page.ask(SELECTED) == -1


def test_control_and_the_wheel_zoom_where_the_pointer_is(opened: Opened) -> None:
    page = opened(transformer)
    spot = page.middle(box(3))
    width = page.ask(WIDTH)
    page.mouse("mouseWheel", spot, deltaX=0, deltaY=-200, modifiers=CONTROL)
    page.until(f"{WIDTH} > {width * 1.5}")
    x, y = page.middle(box(3))
    assert abs(y - spot[1]) < 10
    assert abs(x - spot[0]) < 10


def test_what_leads_to_an_input_is_dotted_and_has_no_head(opened: Opened) -> None:
    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    with record() as recording:
        y = (x * w).sin()
    page = opened(trace_graph(y, names={"x": x, "w": w}, recording=recording).to_html())
    lines, free, heads = (
        page.ask(f"document.querySelector('{what}').getAttribute('d').split('M').length - 1")
        for what in (".links > :not(.free)", ".links > .free", ".heads > .head")
    )
    assert (lines, free, heads) == (2, 1, 2)


def test_a_tap_selects(opened: Opened) -> None:
    page = opened(polynomial)
    page.tap(page.middle(box(1)))
    page.until(f"{SELECTED} === 1")
    assert page.ask(LIT) == [0, 1, 2]


def test_nothing_moves_when_a_box_is_selected(opened: Opened) -> None:
    for width in (390, 600, 800, 1000, 1200):
        page = opened(blocks, width, 844)
        page.key("f")
        page.ask(f"reveal({place('GeluBackward0')})")
        tops = []
        for number in ("null", place("GeluBackward0")):
            page.ask(f"select({number})")
            tops.append(
                page.ask(
                    "[stage, ...document.querySelectorAll('button')]"
                    ".map(it => it.getBoundingClientRect().left "
                    "+ it.getBoundingClientRect().right + it.offsetTop)"
                )
            )
        assert tops[0] == tops[1]


def test_a_finger_lights_the_paths_between_two_after_the_button(opened: Opened) -> None:
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


def test_two_fingers_zoom_what_is_between_them(opened: Opened) -> None:
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


@pytest.mark.parametrize(("button", "larger"), [("in", True), ("out", False)])
def test_buttons_zoom(opened: Opened, button: str, *, larger: bool) -> None:
    page = opened(polynomial)
    width = page.ask(WIDTH)
    page.click(page.middle(f"document.querySelector('[data-do={button}]')"))
    assert (page.ask(WIDTH) > width) is larger
    page.click(page.middle("document.querySelector('[data-do=fit]')"))
    assert page.ask(WIDTH) == pytest.approx(width)


def test_a_button_folds_and_unfolds(opened: Opened) -> None:
    page = opened(resnet)
    fold = "document.querySelector('[data-do=fold]')"
    assert page.ask(f"{fold}.ariaPressed") == "true"
    few = page.ask(f"{BOXES}.length")
    page.click(page.middle(fold))
    assert page.ask(f"{BOXES}.length") > 3 * few
    assert page.ask(f"{fold}.ariaPressed") == "false"


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


def place(name: str) -> str:
    return f"{NAMES}.indexOf('{name}')"


def test_folded_and_in_full_nothing_collides_and_nothing_is_cut(opened: Opened) -> None:
    page = opened(blocks)
    for _ in range(2):
        page.ask("dispatchEvent(new Event('beforeprint'))")
        assert page.ask(f"{DRAWN}.length === {BOXES}.length")
        assert page.ask(f"{OVERLAPS}.length") == 0
        assert page.ask(CUT) is False
        page.ask("dispatchEvent(new Event('afterprint'))")
        page.key("f")


def test_what_is_found_and_lit_follows_the_fold(opened: Opened) -> None:
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


def test_keys_that_mean_nothing_change_nothing(opened: Opened) -> None:
    page = opened(blocks)
    page.key("ArrowDown")
    before = page.ask("[view.boxes.length, selected]")
    page.key("m")
    page.key("Enter")
    assert page.ask("[view.boxes.length, selected]") == before


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


def test_a_double_click_looks_into_a_module_and_the_choices_say_which(model: Page) -> None:
    assert model.ask(CHOICES) == ["all of Language"]
    double_click(model, model.middle(box(1)))
    assert model.ask(CHOICES) == ["head: Linear"]
    assert model.ask(TITLES).startswith("SumBackward0,")
    double_click(model, model.middle(box(1)))  # a node has nothing to look into
    assert model.ask(CHOICES) == ["head: Linear"]


def test_any_single_module_can_be_chosen_and_the_next_one_from_there(model: Page) -> None:
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


def test_keys_look_into_a_module_walk_to_the_next_and_go_back_out(model: Page) -> None:
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


def test_going_back_out_selects_the_module_that_one_was_in(model: Page) -> None:
    double_click(model, model.middle(box(1)))
    model.key("Backspace")
    assert model.ask(SELECTED) == 1


def test_from_within_a_module_a_key_shows_the_whole_in_full_and_leads_back(model: Page) -> None:
    double_click(model, model.middle(box(1)))
    inside = model.ask(NAMES)
    model.key("f")
    assert model.ask(f"[{BOXES}.length > 100, {FOLDED}]") == [True, "false"]
    model.key("f")
    assert model.ask(NAMES) == inside
    assert model.ask(FOLDED) == "true"


def test_what_is_looked_for_is_found_in_a_module_that_is_not_shown(model: Page) -> None:
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


def test_colours_tell_bytes_or_gradients_in_every_view(opened: Opened) -> None:
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


def test_a_choice_and_a_button_keep_their_own_keys(model: Page) -> None:
    model.ask("document.querySelector('nav select').focus()")
    model.key("ArrowDown")
    assert model.ask(f"[{SELECTED}, {CHOICES}[0]]")[0] == -1
    model.ask("document.querySelector('[data-do=fold]').focus()")
    model.key("Enter")
    assert model.ask(SELECTED) == -1


def test_a_browser_that_cannot_unpack_shows_what_it_starts_with(
    tmp_path: Path, browser: Browser
) -> None:
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


def test_what_is_seen_is_drawn_where_it_is_and_little_else(page: Page) -> None:
    assert page.ask(f"{BOXES}.length") == 2923  # with the input
    for number in (0, 700, 2921, 1400, 60):
        page.ask(f"stage.scrollTo(0, view.rects[{number}].top * scale)")
        page.until(THERE)
        assert page.ask(DRAWN_WRONG) == []
        assert 5 < page.ask(f"{DRAWN}.length") < 100


def test_boxes_too_small_to_read_are_drawn_as_shapes_until_one_comes_nearer(page: Page) -> None:
    page.key("0")
    shapes = "[...view.near.children].map(each => each.getAttribute('d').split('M').length - 1)"
    assert sum(page.ask(shapes)) == page.ask("view.nearBoxes.length") > 200
    assert page.ask(f"{DRAWN}.length") == 0
    page.click(page.ask("view.middle(view.nearBoxes[100])"))
    covers = page.ask("view.nearBoxes.filter(n => !view.lit.has(n)).map(n => view.cover(n))")
    assert page.ask(VEIL) == "".join(covers) != ""
    page.ask("zoom(1)")
    assert page.ask(THERE)


def test_however_long_a_graph_is_the_whole_of_it_fits_and_comes_back(page: Page) -> None:
    assert not page.ask(WHOLE)
    page.click(page.middle("document.querySelector('[data-do=fit]')"))
    assert page.ask(WHOLE)
    for _ in range(40):
        page.key("+")
    assert page.ask("scale") == pytest.approx(4)
    page.key("0")
    assert page.ask(WHOLE)


def test_paper_has_it_all(opened: Opened) -> None:
    page = opened(transformer)
    page.key("f")
    assert page.ask(f"{DRAWN}.length < view.rects.length")
    page.ask("dispatchEvent(new Event('beforeprint'))")
    assert page.ask(f"{DRAWN}.length === view.rects.length")
    page.ask("dispatchEvent(new Event('afterprint'))")
    assert page.ask(f"{DRAWN}.length < view.rects.length")


# --- With the keyboard


def test_arrows_go_along_the_graph_and_escape_lets_go(opened: Opened) -> None:
    page = opened(polynomial)
    visited = []
    for key in ("Down", "Down", "Right", "Down", "Left", "Up", "Up", "Up"):
        page.key(f"Arrow{key}")
        visited.append(page.ask(SELECTED))
    assert visited == [0, 1, 3, 4, 2, 1, 0, 0]
    page.key("Escape")
    assert page.ask(SELECTED) == -1


def test_arrows_with_shift_move_the_other_end_of_the_paths(opened: Opened) -> None:
    page = opened(polynomial)
    page.key("ArrowDown")
    page.key("ArrowDown", SHIFT)
    page.key("ArrowRight", SHIFT)
    page.key("ArrowDown", SHIFT)
    assert page.ask(SELECTED) == 0
    assert page.ask(LIT) == [0, 3, 4]
    page.key("ArrowUp")
    assert page.ask(SELECTED) == 3


def test_what_the_keyboard_selects_comes_into_view(opened: Opened) -> None:
    page = opened(transformer)
    page.key("f")
    for _ in range(30):
        page.key("ArrowDown")
    assert page.ask(SELECTED) > 20
    _, y = page.middle(f"{BOXES}[{page.ask(SELECTED)}]")
    assert 60 < y < 600


def test_keys_zoom_and_fit(opened: Opened) -> None:
    page = opened(transformer)
    page.key("f")
    width = page.ask(WIDTH)
    page.key("+")
    assert page.ask(WIDTH) == pytest.approx(1.25 * width, abs=1)
    page.key("-")
    assert page.ask(WIDTH) == pytest.approx(width, abs=1)
    page.key("0")
    assert page.ask(WIDTH) < width / 3


def test_a_search_lights_what_it_finds_and_enter_goes_from_one_to_the_next(opened: Opened) -> None:
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
