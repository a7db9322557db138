"""The steps of a backward pass in Chromium."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from leafgrad import trace_graph
from leafgrad.types import BackwardSteps
from tests.browser import needs_chromium
from tests.devtools import Browser, Page
from tests.steps.test_steps import classic

pytestmark = needs_chromium
Opened = Callable[..., Page]

TOLD = "document.querySelector('.sentence').textContent"
COUNT = "document.querySelector('.count').textContent"
SHOWN = (
    "[...document.querySelectorAll('.part > :is(.value, .grad)')]"
    ".filter(line => !line.classList.contains('later')).map(line => line.textContent)"
)


def button(name: str) -> str:
    return f"document.querySelector('[data-do={name}]')"


@pytest.fixture(scope="module", name="classic")
def steps_of_classic() -> BackwardSteps:
    return classic()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path, classic: BackwardSteps) -> Opened:
    def at(width: int = 800, height: int = 1200, page: str = "") -> Page:
        file = tmp_path / "steps.html"
        file.write_text(page or classic.to_html(), "utf-8")
        return Page(browser, file.as_uri(), width, height)

    return at


def test_player_requests_nothing_and_starts_before_first_step(
    opened: Opened, browser: Browser
) -> None:
    page = opened()
    mine = [event for event in browser.events if event.get("sessionId") == page.session]
    asked = [e["params"]["request"]["url"] for e in mine if e["method"].endswith("BeSent")]
    assert [url.rpartition("/")[2] for url in asked] == ["steps.html"]
    complaints = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
    assert [event for event in mine if event["method"] in complaints] == []
    assert (page.ask(SHOWN), page.ask(COUNT)) == ([], "0 of 15")


def test_next_button_shows_each_step_of_the_player(opened: Opened, classic: BackwardSteps) -> None:
    page = opened()
    told = []
    for _ in classic.steps:
        page.click(page.middle(button("next")))
        told.append(page.ask(TOLD))
    assert told == [step.sentence for step in classic.steps]
    whole = [
        text
        for node in classic.trace.nodes
        for text in (f"value {node.values[0]}", f"grad {node.gradients[0]}")
    ]
    assert page.ask(SHOWN) == whole
    page.click(page.middle(button("next")))
    assert page.ask(COUNT) == "15 of 15"


def test_keys_move_between_steps_of_the_player(opened: Opened) -> None:
    page = opened()
    page.ask(f"{button('next')}.focus()")
    page.key("ArrowRight")
    page.key("ArrowRight")
    assert (page.ask(COUNT), page.ask(SHOWN)) == ("2 of 15", ["value 4", "value 3.1416"])
    page.key("ArrowLeft")
    assert (page.ask(COUNT), page.ask(SHOWN)) == ("1 of 15", ["value 4"])
    page.key("End")
    assert page.ask(COUNT) == "15 of 15"
    page.key("Home")
    assert page.ask(COUNT) == "0 of 15"
    page.key("ArrowLeft")
    assert page.ask(COUNT) == "0 of 15"


def test_player_works_by_touch(opened: Opened) -> None:
    page = opened(width=360, height=740)
    page.tap(page.middle(button("next")))
    page.until(f"{COUNT} === '1 of 15'")
    assert page.ask("document.documentElement.scrollWidth") == 360


def test_page_without_script_has_picture_and_list(opened: Opened, classic: BackwardSteps) -> None:
    page = opened(page=classic.to_html().replace("script-src", "style-src-attr"))
    assert page.ask("document.querySelector('.controls').offsetHeight") == 0
    assert page.ask("document.querySelectorAll('li').length") == 15
    assert len(page.ask(SHOWN)) == 12


@pytest.fixture(scope="module")
def deep() -> BackwardSteps:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(6)))
    loss = model(torch.ones(2, 4)).square().mean()
    return trace_graph(loss, names=model, gradients=True).steps()


def test_box_of_each_player_step_is_visible_on_phone(opened: Opened, deep: BackwardSteps) -> None:
    page = opened(390, 844, deep.to_html())
    inside = (
        "(box => frame => box.top >= frame.top"
        " && box.bottom <= Math.min(frame.bottom, innerHeight))"
        "(document.querySelector('.part.now').getBoundingClientRect())"
        "(document.querySelector('.leafgrad-frame').getBoundingClientRect())"
    )
    top = "document.querySelector('.leafgrad-frame').getBoundingClientRect().top"
    tops = {page.ask(top)}
    for step in deep.steps:
        page.ask(f"{button('next')}.click()")
        assert page.ask(TOLD) == step.sentence
        assert page.ask(inside)
        tops.add(page.ask(top))
    assert len(tops) == 1
    assert page.ask("[scrollX, scrollY, document.documentElement.scrollWidth]") == [0, 0, 390]


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_small_graph_and_its_buttons_fit_on_one_screen(
    opened: Opened, width: int, height: int
) -> None:
    page = opened(width, height)
    frame = "document.querySelector('.leafgrad-frame')"
    assert page.ask(f"{frame}.scrollHeight") == page.ask(f"{frame}.clientHeight")
    bottoms = "[...document.querySelectorAll('.part')].map(x => x.getBoundingClientRect().bottom)"
    assert page.ask(f"Math.max(...{bottoms}) <= innerHeight && scrollY === 0")
