"""The page of a graph, used with a real pointer and real keys in Chromium."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from leafgrad import GraphTrace, trace_graph
from tests.browser import needs_chromium
from tests.devtools import CONTROL, SHIFT, Browser, Page, chromium
from tests.models import polynomial, resnet, transformer

BOXES = "[...document.querySelectorAll('.view:not([hidden]) .part')]"
LIT = f"{BOXES}.flatMap((box, n) => box.classList.contains('aside') ? [] : [n])"
SELECTED = f"{BOXES}.findIndex(box => box.classList.contains('selected'))"
TOLD = "document.querySelector('output').textContent"
WIDTH = "document.querySelector('.view:not([hidden]) svg').getBoundingClientRect().width"
SCROLL = "[document.querySelector('main').scrollLeft, document.querySelector('main').scrollTop]"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


pytestmark = needs_chromium
Opened = Callable[[GraphTrace], Page]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Opened:
    def at(trace: GraphTrace) -> Page:
        file = tmp_path / "graph.html"
        file.write_text(trace.to_html(), "utf-8")
        return Page(browser, file.as_uri())

    return at


def box(number: int) -> str:
    return f"{BOXES}[{number}].querySelector('rect')"


# --- What the page is


def test_it_asks_no_network_and_runs_without_a_complaint(opened: Opened, browser: Browser) -> None:
    page = opened(polynomial())
    mine = [event for event in browser.events if event.get("sessionId") == page.session]
    asked = [e["params"]["request"]["url"] for e in mine if e["method"].endswith("BeSent")]
    assert [url.rpartition("/")[2] for url in asked] == ["graph.html"]
    complaints = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
    assert [event for event in mine if event["method"] in complaints] == []


def test_a_name_with_a_script_in_it_does_nothing(opened: Opened) -> None:
    x = torch.ones(2, requires_grad=True)
    name = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
    page = opened(trace_graph(x.exp(), names={name: x}))
    page.click(page.middle(box(1)))
    assert name in page.ask(TOLD)
    assert page.ask("[window.hit ?? 0, document.images.length]") == [0, 0]


# --- With the pointer


def test_pointing_at_a_box_tells_what_is_known_of_it(opened: Opened) -> None:
    page = opened(polynomial())
    hint = page.ask(TOLD)
    page.mouse("mouseMoved", page.middle(box(3)))
    assert "node 3: SinBackward0\noutput (3,) float32 cpu\n" in page.ask(TOLD)
    page.mouse("mouseMoved", (5, 300))
    assert page.ask(TOLD) == hint


def test_a_click_lights_what_leads_to_a_box_and_what_it_leads_to(opened: Opened) -> None:
    page = opened(polynomial())
    page.click(page.middle(box(3)))
    assert page.ask(LIT) == [0, 3, 4, 5]
    assert page.ask("document.querySelectorAll('.on-path').length") == 3
    page.click((5, 300))
    assert page.ask(LIT) == [0, 1, 2, 3, 4, 5]


def test_a_click_with_shift_lights_the_paths_between_two(opened: Opened) -> None:
    page = opened(polynomial())
    page.click(page.middle(box(5)))
    page.click(page.middle(box(0)), SHIFT)
    assert page.ask(LIT) == [0, 3, 4, 5]
    assert page.ask(TOLD).startswith("4 boxes on the paths between\nnode 5: ")
    page.click(page.middle(box(5)))
    page.click(page.middle(box(1)), SHIFT)
    assert page.ask(LIT) == [1, 5]
    assert page.ask(TOLD).startswith("no path between\n")


def test_dragging_moves_the_picture_and_selects_nothing(opened: Opened) -> None:
    page = opened(transformer())
    before = page.ask(SCROLL)
    page.drag((60, 500), (60, 200))
    assert page.ask(SCROLL) == [before[0], before[1] + 300]
    assert page.ask(SELECTED) == -1


def test_control_and_the_wheel_zoom_where_the_pointer_is(opened: Opened) -> None:
    page = opened(transformer())
    spot = page.middle(box(3))
    width = page.ask(WIDTH)
    page.mouse("mouseWheel", spot, deltaX=0, deltaY=-200, modifiers=CONTROL)
    page.until(f"{WIDTH} > {width * 1.5}")
    x, y = page.middle(box(3))
    assert abs(y - spot[1]) < 10
    assert abs(x - spot[0]) < 10


def test_a_tap_selects(opened: Opened) -> None:
    page = opened(polynomial())
    page.tap(page.middle(box(1)))
    page.until(f"{SELECTED} === 1")
    assert page.ask(LIT) == [0, 1, 2]


@pytest.mark.parametrize(("button", "larger"), [("in", True), ("out", False)])
def test_buttons_zoom(opened: Opened, button: str, *, larger: bool) -> None:
    page = opened(polynomial())
    width = page.ask(WIDTH)
    page.click(page.middle(f"document.querySelector('[data-do={button}]')"))
    assert (page.ask(WIDTH) > width) is larger
    page.click(page.middle("document.querySelector('[data-do=fit]')"))
    assert page.ask(WIDTH) == pytest.approx(width)


def test_a_button_folds_and_unfolds(opened: Opened) -> None:
    page = opened(resnet())
    fold = "document.querySelector('[data-do=fold]')"
    assert page.ask(f"{fold}.ariaPressed") == "true"
    few = page.ask(f"{BOXES}.length")
    page.click(page.middle(fold))
    assert page.ask(f"{BOXES}.length") > 3 * few
    assert page.ask(f"{fold}.ariaPressed") == "false"


# --- With the keyboard


def test_arrows_go_along_the_graph_and_escape_lets_go(opened: Opened) -> None:
    page = opened(polynomial())
    visited = []
    for key in ("Down", "Down", "Right", "Down", "Left", "Up", "Up", "Up"):
        page.key(f"Arrow{key}")
        visited.append(page.ask(SELECTED))
    assert visited == [0, 1, 3, 4, 2, 1, 0, 0]
    page.key("Escape")
    assert page.ask(SELECTED) == -1


def test_what_the_keyboard_selects_comes_into_view(opened: Opened) -> None:
    page = opened(transformer())
    for _ in range(30):
        page.key("ArrowDown")
    assert page.ask(SELECTED) > 20
    _, y = page.middle(f"{BOXES}[{page.ask(SELECTED)}]")
    assert 60 < y < 600


def test_keys_zoom_and_fit(opened: Opened) -> None:
    page = opened(transformer())
    width = page.ask(WIDTH)
    page.key("+")
    assert page.ask(WIDTH) == pytest.approx(1.25 * width, abs=1)
    page.key("-")
    assert page.ask(WIDTH) == pytest.approx(width, abs=1)
    page.key("0")
    assert page.ask(WIDTH) < width / 3


def test_a_search_lights_what_it_finds_and_enter_goes_from_one_to_the_next(opened: Opened) -> None:
    page = opened(polynomial())
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


def test_a_key_folds_and_unfolds(opened: Opened) -> None:
    page = opened(polynomial())
    counts = []
    for _ in range(2):
        page.key("f")
        counts.append(page.ask(f"{BOXES}.length"))
    assert counts == [4, 6]
