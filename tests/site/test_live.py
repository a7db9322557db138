"""Live figures in Chromium show PyTorch's numbers, and react to pointer, keys and touch."""

import json
import math
import random
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from babel.messages.pofile import read_po
from live import FIGURES, figure
from torch import Tensor

from tests.browser import needs_chromium
from tests.devtools import Browser, Page
from tests.site.built import SITE, needs_site

pytestmark = needs_chromium

SPECS = {
    name: spec
    for name, spec in tomllib.loads((FIGURES / "figures.toml").read_text("utf-8")).items()
    if "kind" in spec
}
SETTINGS = 100
SCRIPT = FIGURES.parent / "_static" / "live.js"
SET = """
((root, all) => all.map(({sliders, expression, presses}) => {
  for (const slider of root.live.sliders) slider.value = sliders[slider.name];
  if (expression !== null) root.live.field.value = expression;
  root.live.grads = {};
  root.dispatchEvent(new Event("input"));
  const said = presses.map((press) => {
    root.querySelector(`[data-do="${press}"]`).click();
    return root.live.said;
  });
  return {...root.live.numbers, said, values: root.live.values};
}))(document.querySelector("[data-figure]"), %s)
"""
FORMS = (
    "torch.sin({0})|torch.tanh({0})|torch.cos({0})|torch.relu({0})|torch.exp(-({0}) ** 2)"
    "|({0}) ** 2|-({0}) * {1}|({0}) + {1}|({0}) - {1}|({0}) / (2 + ({0}) ** 2)|({0}).detach() * {1}"
).split("|")


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Callable[..., Page]:
    """Open a page that contains only a figure."""

    def at(name: str, width: int = 1000) -> Page:
        styles = (FIGURES.parent / "_static" / "live.css").read_text("utf-8")
        html = f"<!doctype html><meta charset=utf-8><style>{styles}</style><div class=live>"
        file = tmp_path / "figure.html"
        file.write_text(f"{html}{figure(name)[0]}<script>{SCRIPT.read_text()}</script>", "utf-8")
        return Page(browser, file.as_uri(), width, 844)

    return at


def random_expression(names: list[str], depth: int = 3) -> str:
    """Return a random expression that contains one of the names."""
    if not depth:
        return random.choice(names)
    inner, other = (random_expression(names, depth - 1) for _ in range(2))
    return random.choice(FORMS).format(inner, random.choice([other, "2", "0.5"]))


def settings(name: str) -> Iterator[dict[str, Any]]:
    """Yield random positions of the controls; every third expression is the figure's own."""
    spec = SPECS[name]
    names = {"own-autograd": ["out", "x"], "learning-rate": ["w"]}.get(name, [*spec["sliders"]])
    for number in range(SETTINGS):
        own = [spec.get("expression", {"start": None})["start"], *spec.get("presets", [])]
        made = random_expression(names) if own[0] and number % 3 else random.choice(own)
        ends = spec["sliders"].items()
        buttons = [*spec.get("buttons", {})] if "change" in spec else []
        yield {
            "sliders": {slider: random.uniform(of["min"], of["max"]) for slider, of in ends},
            "expression": made,
            "presses": [random.choice(buttons) for _ in buttons * 2],
        }


def compute(name: str, expression: str, **leaves: Tensor) -> Tensor:
    constants = {k: torch.tensor(v).double() for k, v in SPECS[name].get("constants", {}).items()}
    result: Tensor = eval(expression, {"torch": torch, **constants, **leaves})
    return result


def leaf(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def slope(result: Tensor, at: Tensor) -> Tensor:
    if not result.requires_grad:
        return torch.zeros(())
    (found,) = torch.autograd.grad(
        result, at, create_graph=True, allow_unused=True, materialize_grads=True
    )
    return found


def expected(name: str, values: dict[str, float], expression: str) -> dict[str, Any]:
    """Compute in PyTorch what a figure without a graph shows for these values of its sliders."""
    match name, [leaf(value) for value in values.values()]:
        case "valley", [w]:
            loss = compute(name, expression, w=w)
            return {"loss": loss, "slope": slope(loss, w), "next": w - 0.1 * slope(loss, w)}
        case "learning-rate", [lr]:
            path = [leaf(0.5)]
            for _ in range(10):
                gradient = slope(compute(name, expression, w=path[-1]), path[-1])
                path.append((path[-1] - lr * gradient).detach().requires_grad_())
            start, loss = (compute(name, expression, w=w) for w in (path[0], path[-1]))
            return {"w": path[-1], "start": start, "loss": loss}
        case "own-autograd", [x]:
            out = torch.tanh(x)
            yours = compute(name, expression, x=x, out=out)
            return {"out": out, "yours": yours, "nudged": slope(out, x)}
        case "create-graph", [x]:
            y = compute(name, expression, x=x)
            return {"y": y, "slope": slope(y, x), "second": slope(slope(y, x), x)}
        case _, [weight]:
            curves = json.loads((FIGURES / f"{name}.json").read_text("utf-8"))
            x = torch.linspace(0.0, 1.0, len(curves["exact"]), dtype=torch.float64)
            exact, solution = torch.sin(math.pi * x) + x, curves["solutions"][int(weight)]
            error = (torch.tensor(solution["u"], dtype=torch.float64) - exact).abs().max()
            assert error == pytest.approx(solution["error"], rel=0.02, abs=6e-4)
            return {"error": torch.tensor(solution["error"], dtype=torch.float64)}
    raise AssertionError(name)


def pressed(name: str, setting: dict[str, Any], values: dict[str, float]) -> dict[str, Any]:
    """Do in PyTorch what the buttons of a graph do, for these values of its sliders."""
    leaves = {slider: leaf(value) for slider, value in values.items()}
    said = []
    for press in [*SPECS[name]["change"], *setting["presses"]]:
        *_, said_then = press.split()
        if "forward" in press:
            result = compute(name, setting["expression"], **leaves)
        if "clear" in press:
            torch.optim.SGD(leaves.values()).zero_grad()
        if said_then in ("backward", "free"):
            try:
                result.backward(retain_graph=said_then == "backward")
            except RuntimeError as error:
                said_then = "again" if "second time" in str(error) else "constant"
        if said_then == "free":
            with suppress(RuntimeError):  # a node freed what it had saved
                torch.autograd.grad(result, [*leaves.values()], retain_graph=True)
                said_then = "kept"
        said.append(said_then)
    grads = {f"{k}_grad": "None" if w.grad is None else w.grad for k, w in leaves.items()}
    return {"value": result, "said": said[len(SPECS[name]["change"]) :], **grads}


@pytest.mark.parametrize("name", SPECS)
def test_figures_show_the_same_numbers_as_pytorch(opened: Callable[..., Page], name: str) -> None:
    random.seed(name)
    drawn = [*settings(name)]
    largest = 0.0
    for setting, shown in zip(drawn, opened(name).ask(SET % json.dumps(drawn)), strict=True):
        given = shown["values"], setting["expression"]
        is_graph = SPECS[name]["kind"] == "graph"
        wanted = pressed(name, setting, given[0]) if is_graph else expected(name, *given)
        for key, number in wanted.items():
            if not isinstance(number, Tensor):
                assert shown[key] == number, (setting, key)
            elif number.isfinite():
                difference = abs(shown[key] - number.item()) / max(1.0, abs(number.item()))
                assert difference < (1e-7 if key == "nudged" else 1e-10), (setting, key)
                largest = max(largest, difference)
    sys.stdout.write(f"\n{name}: {len(drawn)} settings, largest difference {largest:.1e}\n")


SLIDER = "document.querySelector('[type=range]')"
SENTENCE = "document.querySelector('.panel .sentence').textContent"
PICTURE = "document.querySelector('.picture').innerHTML"


@pytest.mark.parametrize("name", SPECS)
def test_keys_pointer_and_fingers_move_a_figure(opened: Callable[..., Page], name: str) -> None:
    page = opened(name, 390)
    assert page.ask("[document.documentElement.scrollWidth, innerHeight]") == [390, 844]
    assert page.ask("document.querySelector('.live-figure').offsetHeight") < 700  # and its quiz
    box = page.ask(f"(b => [b.x, b.width, b.y + b.height / 2])({SLIDER}.getBoundingClientRect())")
    page.ask(f"{SLIDER}.focus()")
    arrow = {"key": "ArrowRight", "windowsVirtualKeyCode": 39}
    seen = [page.ask(f"[{SLIDER}.value, {SENTENCE}, {PICTURE}]")]
    for move in (
        lambda: page.send("Input.dispatchKeyEvent", type="rawKeyDown", **arrow),
        lambda: page.click((box[0] + 0.3 * box[1], box[2])),
        lambda: page.tap((box[0] + 0.8 * box[1], box[2])),
    ):
        move()
        page.until(f"{SLIDER}.value !== '{seen[-1][0]}'")
        seen.append(page.ask(f"[{SLIDER}.value, {SENTENCE}, {PICTURE}]"))
        assert all(now != before for now, before in zip(*seen[-2:], strict=True))


@pytest.mark.parametrize("name", SPECS)
def test_static_picture_matches_first_picture_in_the_browser(
    opened: Callable[..., Page], name: str, snapshot: Callable[[Path, str], None]
) -> None:
    page = opened(name)
    page.ask(
        "root = document.querySelector('[data-figure]').live; root.spec.player = 0; root.show()"
    )
    snapshot(FIGURES / f"{name}.svg", page.ask(PICTURE) + "\n")


def test_pressed_button_is_marked_and_clear_removes_gradients(opened: Callable[..., Page]) -> None:
    page = opened("accumulate")
    marked = "document.querySelector('[aria-current=true]').dataset.do"
    grads = "document.querySelectorAll('.grad:not(:empty)').length"
    for press, count in (("forward backward", 4), ("clear", 0)):
        page.ask(f"document.querySelector('[data-do=\"{press}\"]').click()")
        assert page.ask(f"[{marked}, {grads}]") == [press, count]


def test_long_expression_is_wrapped(opened: Callable[..., Page]) -> None:
    page, long = (
        opened("detach"),
        "(w ** 2).detach() * (3 * w) + torch.tanh(torch.tanh(torch.tanh(w)))",
    )
    page.ask(SET % json.dumps([{"sliders": {"w": 1}, "expression": long, "presses": []}]))
    label = page.ask(
        "[...document.querySelector('.part').children].map(e => e.textContent).join('')"
    )
    assert long.replace(" ", "") in label.replace(" ", "")


def test_unreadable_expression_is_reported(opened: Callable[..., Page]) -> None:
    page = opened("valley")
    for wrong in ("", "w *", "(w", "w)", "torch.log(w)", "z", "w * x", "2 ** w", "w w"):
        page.ask(SET % json.dumps([{"sliders": {"w": 1}, "expression": wrong, "presses": []}]))
        assert page.ask("document.querySelector('[name=expression]').ariaInvalid") == "true", wrong
        assert page.ask(SENTENCE).startswith("This figure cannot compute")


def test_sentences_of_figures_are_translated() -> None:
    catalogue = FIGURES.parent / "locales/zh_CN/LC_MESSAGES/sphinx.po"
    with catalogue.open("rb") as file:
        translated = {message.id for message in read_po(file) if message.string}
    for spec in SPECS.values():
        assert translated >= {spec["picture"], *spec["say"].values()}


@needs_site
def test_each_figure_is_on_a_page_and_the_script_is_small() -> None:
    pages = "".join(file.read_text("utf-8") for file in Path(SITE).rglob("*.html"))
    assert {*re.findall('data-figure="([^"]*)', pages)} == {*SPECS}
    assert SCRIPT.stat().st_size < 40_000
