"""Pictures in a real browser: text stays in its box, and colours follow the page."""

from pathlib import Path

import pytest
import torch

from leafgrad import trace_graph
from tests.browser import ask, needs_chromium
from tests.models import MODELS, polynomial

pytestmark = needs_chromium

NASTY = ["重み" * 20, "🔥" * 30, "שלום העربية" * 4, "W" * 100, "e\u0301" * 30, "ꙮ﷽𒐫" * 5, "नमस्ते"]

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


def pictures() -> list[str]:
    x = [torch.ones(2, requires_grad=True) for _ in NASTY]
    named = trace_graph([one.exp() for one in x], names=dict(zip(NASTY, x, strict=True)))
    shown = [named.to_svg(fold=fold) for fold in (True, False)]
    return shown + [model().to_svg() for model in MODELS.values()]


def test_no_text_leaves_its_box(tmp_path: Path) -> None:
    body = "".join(pictures())
    assert ask(body, OUTSIDE, tmp_path) == []
    tight = body.replace("font-size:11.0px", "font-size:14px")
    assert ask(tight, OUTSIDE, tmp_path) != []


def test_no_picture_is_cut_off(tmp_path: Path) -> None:
    shown = pictures()
    assert ask("".join(shown), CUT, tmp_path) == [True] * len(shown)


INK = """
["svg text", "svg .leaf"].map(sign => getComputedStyle(document.querySelector(sign)))
    .map((style, text) => text ? style.stroke : style.fill)
"""
LIGHT_LEAF, DARK_LEAF = "rgb(26, 127, 55)", "rgb(86, 211, 100)"


@pytest.mark.parametrize(
    ("theme", "dark", "leaf"),
    [
        ("", False, LIGHT_LEAF),
        ("", True, DARK_LEAF),
        ("data-theme=auto", True, DARK_LEAF),
        ("data-theme=light", True, LIGHT_LEAF),
        ("data-theme=dark", False, DARK_LEAF),
        ("data-jp-theme-light=true", True, LIGHT_LEAF),
        ("data-jp-theme-light=false", False, DARK_LEAF),
        ("class=vscode-dark", False, DARK_LEAF),
        ("class=vscode-light", True, LIGHT_LEAF),
    ],
)
def test_colours_follow_the_page_and_then_the_reader(
    theme: str, *, dark: bool, leaf: str, tmp_path: Path
) -> None:
    body = f"<body {theme} style='color: rgb(1, 2, 3)'>{polynomial().to_svg()}"
    assert ask(body, INK, tmp_path, dark=dark) == ["rgb(1, 2, 3)", leaf]


def test_no_name_runs_as_a_script(tmp_path: Path) -> None:
    x = torch.ones(2, requires_grad=True)
    name = "</title><img src=x onerror='window.hit = 1'><script>window.hit = 1</script>"
    picture = trace_graph(x.exp(), names={name: x}).to_svg()
    assert ask(picture, "[window.hit ?? 0, document.images.length]", tmp_path) == [0, 0]
