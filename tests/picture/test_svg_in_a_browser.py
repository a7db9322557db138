"""Pictures in Chromium."""

import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from leafgrad import trace_graph
from tests.browser import needs_chromium
from tests.devtools import Browser, Page
from tests.models import MODELS, pinn, polynomial
from tests.picture.test_overview import Language, traced

pytestmark = needs_chromium

NASTY = ["重み" * 20, "🔥" * 30, "שלום העربية" * 4, "W" * 100, "e\u0301" * 30, "ꙮ﷽𒐫" * 5, "नमस्ते"]


def ask(browser: Browser, body: str, question: str, folder: Path, *, dark: bool = False) -> Any:
    """Show a body and return the value of a JavaScript expression."""
    file = folder / "page.html"
    file.write_text(f"<!doctype html><meta charset=utf-8>{body}", "utf-8")
    return Page(browser, file.as_uri(), dark=dark).ask(question)


OUTSIDE = """
[...document.querySelectorAll("svg > g:not(.legend)")].flatMap(group => {
    const box = group.querySelector(":scope > .box, :scope > .leaf")?.getBBox();
    return [...group.querySelectorAll(":scope > text")].filter(text => {
        const {x, y, width, height} = text.getBBox();
        return box && (x < box.x || x + width > box.x + box.width
            || y < box.y || y + height > box.y + box.height);
    }).map(text => text.textContent);
})
"""

CUT = """
[...document.querySelectorAll("svg")].map(svg => {
    const {x, y, width, height} = svg.getBBox();
    const seen = svg.viewBox.baseVal;
    return x >= seen.x && y >= seen.y && x + width <= seen.x + seen.width
        && y + height <= seen.y + seen.height;
})
"""


@cache
def pictures() -> list[str]:
    x = [torch.ones(2, requires_grad=True) for _ in NASTY]
    named = trace_graph([one.exp() for one in x], names=dict(zip(NASTY, x, strict=True)))
    shown = [named.to_svg(fold=fold) for fold in (True, False)]
    traces = [model() for model in MODELS.values()]
    shown += [trace.to_svg() for trace in traces]
    shown += [trace.to_svg(direction="forward", color="bytes") for trace in traces]
    coloured = traced(Language(), gradients=True)
    return [*shown, coloured.to_svg(color="gradient"), coloured.to_svg(fold="blocks.*.attend")]


def test_text_fits_in_its_box(browser: Browser, tmp_path: Path) -> None:
    body = "".join(pictures())
    assert ask(browser, body, OUTSIDE, tmp_path) == []
    tight = body.replace("font-size:11.0px", "font-size:14px")
    assert ask(browser, tight, OUTSIDE, tmp_path) != []


def test_picture_is_not_cut_off(browser: Browser, tmp_path: Path) -> None:
    shown = pictures()
    assert ask(browser, "".join(shown), CUT, tmp_path) == [True] * len(shown)


# --- In the frame of a notebook

LEFT = "document.querySelector('.leafgrad-frame').scrollLeft"
WIDTH = "document.querySelector('svg').getBoundingClientRect().width"
ROOT = """
(({left, right}) => left >= 0 && right <= innerWidth)(
    document.querySelector(".root").getBoundingClientRect())
"""


def scrolling_frame(browser: Browser, folder: Path, width: int) -> Page:
    file = folder / "framed.html"
    head = '<!doctype html><meta charset=utf-8><meta name=viewport content="width=device-width">'
    file.write_text(head + pinn()._repr_html_(), "utf-8")
    return Page(browser, file.as_uri(), width)


@pytest.mark.parametrize("share", [1.2, 0.9, 0.7, 0.4])
def test_frame_shows_whole_picture_or_scrolls_to_root(
    browser: Browser, tmp_path: Path, share: float
) -> None:
    full = float(ET.fromstring(pinn().to_svg()).get("width", ""))
    page = scrolling_frame(browser, tmp_path, int(share * full))
    page.until(ROOT)
    assert (page.ask(f"{LEFT} > 0")) is (share < 0.8)
    room = share * full - 16
    expected = min(full, room) if room > 0.8 * full else full
    assert page.ask(WIDTH) == pytest.approx(expected, abs=1)


# --- Colours

FILLS = """
[...document.querySelectorAll("svg")].map(svg => new Set([...svg.querySelectorAll(".part > .box")]
    .map(box => getComputedStyle(box).fillOpacity)).size)
"""


def test_plain_picture_does_not_change_colours_of_another(browser: Browser, tmp_path: Path) -> None:
    trace = traced(Language())
    body = trace.to_svg(color="bytes") + trace.to_svg()
    assert ask(browser, body, FILLS, tmp_path) == [3, 1]


INK = """
["svg text", "svg .leaf"].map(sign => getComputedStyle(document.querySelector(sign)))
    .map((style, text) => text ? style.stroke : style.fill)
"""
LIGHT_LEAF, DARK_LEAF = "rgb(23, 119, 49)", "rgb(86, 211, 100)"


@pytest.mark.parametrize(
    ("theme", "dark", "leaf"),
    [
        ("", True, DARK_LEAF),
        ("data-theme=light", True, LIGHT_LEAF),
        ("data-theme=dark", False, DARK_LEAF),
        ("data-jp-theme-light=true", True, LIGHT_LEAF),
        ("data-jp-theme-light=false", False, DARK_LEAF),
        ("class=vscode-dark", False, DARK_LEAF),
    ],
)
def test_colours_follow_theme_of_page_then_of_reader(
    browser: Browser, theme: str, *, dark: bool, leaf: str, tmp_path: Path
) -> None:
    body = f"<body {theme} style='color: rgb(1, 2, 3)'>{polynomial().to_svg()}"
    assert ask(browser, body, INK, tmp_path, dark=dark) == ["rgb(1, 2, 3)", leaf]
