"""What the page of a graph costs who moves about in it: CPU time of the page in Chromium.

The page is that of `to_html`, with three thousand boxes and nothing folded. What a pointer does as
it moves counts by the frame, of which 60 a second leave 16.7 ms each; the rest is done once and
then drawn. Last of all come the pictures of a chain of a million operations, which fold it: CPU
time of Python.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn

from leafgrad import GraphTrace, trace_graph
from tests.devtools import CONTROL, SHIFT, Page, chromium
from tests.models import Block

ROUNDS = 5
FRAMES = 30
MILLION = 1_000_000
BOX = "view.boxes[{}].querySelector('rect')"
DRAG = {"button": "left", "clickCount": 1}
WHEEL = {"deltaX": 0, "deltaY": 15, "modifiers": CONTROL}

MOVES: dict[str, Callable[[Page, int], object]] = {
    "hover": lambda page, n: page.mouse("mouseMoved", (300 + 5 * n, 100 + 8 * n)),
    "drag": lambda page, n: page.mouse("mouseMoved", (60, 600 - 9 * n), button="left", buttons=1),
    "zoom": lambda page, _: page.mouse("mouseWheel", (500, 300), **WHEEL),
}
ACTS: dict[str, Callable[[Page], object]] = {
    "click on a box": lambda page: page.click(page.middle(BOX.format(3))),
    "the other end of the paths": lambda page: page.click(page.middle(BOX.format(0)), SHIFT),
    "let go": lambda page: page.key("Escape"),
    "fold what repeats": lambda page: page.key("f"),
}


def deep() -> GraphTrace:
    """Trace a transformer of three thousand nodes."""
    model = nn.Sequential(nn.Linear(8, 8), *(Block(8) for _ in range(54)))
    return trace_graph(model(torch.ones(1, 4, 8)).mean(), names=model)


def chain(steps: int) -> GraphTrace:
    """Trace one operation after another."""
    y = torch.ones(1, requires_grad=True)
    for _ in range(steps):
        y = y.sin()
    return trace_graph(y, saved=False)


def spent(page: Page) -> float:
    """Give the milliseconds that the page has worked so far, with what it has drawn."""
    page.ask("new Promise(requestAnimationFrame).then(() => 0)")
    found = page.send("Performance.getMetrics")["metrics"]
    (seconds,) = [metric["value"] for metric in found if metric["name"] == "TaskDuration"]
    return 1e3 * float(seconds)


def milliseconds(page: Page, work: Callable[[], object]) -> float:
    """Measure what something costs the page."""
    before = spent(page)
    work()
    return spent(page) - before


def moves(page: Page) -> Iterator[tuple[str, float]]:
    """Measure each way to move about, by the frame."""
    for name, move in MOVES.items():
        page.mouse("mousePressed" if name == "drag" else "mouseMoved", (60, 600), **DRAG)
        move(page, 0)
        work = milliseconds(page, lambda move=move: [move(page, n) for n in range(FRAMES)])  # type: ignore[misc]
        yield f"{name}, by the frame", work / FRAMES
        page.mouse("mouseReleased", (60, 330), **DRAG)


def acts(page: Page) -> Iterator[tuple[str, float]]:
    """Measure what is done once."""
    for name, act in ACTS.items():
        yield name, milliseconds(page, lambda act=act: act(page))  # type: ignore[misc]


def in_the_browser(folder: Path) -> None:
    """Print a line for each thing that one does on the page: the median of a few pages."""
    file = folder / "graph.html"
    file.write_text(deep().to_html(), encoding="utf-8")
    rounds = []
    with chromium(folder / "profile") as browser:
        for _ in range(ROUNDS):
            page = Page(browser, file.as_uri())
            page.send("Performance.enable", timeDomain="threadTicks")
            page.key("f")
            boxes = page.ask("view.boxes.length")
            rounds.append(dict([*moves(page), *acts(page)]))
    print(f"{boxes:,} boxes")
    for name in rounds[0]:
        print(f"  {name:28} {statistics.median(times[name] for times in rounds):6.1f} ms")


def pictures(trace: GraphTrace) -> None:
    """Print what it takes to make each picture of a graph."""
    for make in (trace.to_svg, trace.to_html):
        start = time.process_time()
        size = len(make())
        seconds = time.process_time() - start
        print(f"  {make.__name__:28} {seconds:6.1f} s, {size:,} characters")


def main() -> None:
    """Print the page's costs, then those of a million."""
    with tempfile.TemporaryDirectory() as folder:
        in_the_browser(Path(folder))
    trace = chain(MILLION)
    print(f"a chain of {len(trace.nodes):,} nodes")
    pictures(trace)


if __name__ == "__main__":
    main()
