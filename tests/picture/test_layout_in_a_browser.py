"""The page's own layout draws what the library's draws."""

import json
import random
from importlib.resources import files
from pathlib import Path

import pytest

from leafgrad._picture.layout import Box, Link, draw
from leafgrad._picture.svg.svg import links_of, sketches_of
from leafgrad._picture.view import picture
from tests.browser import ask, needs_chromium
from tests.models import MODELS

pytestmark = needs_chromium
Graph = tuple[list[Box], list[Link]]

DRAW = """
graphs.map(([boxes, links]) => {
    const {places, paths, left, right, height} = layout(boxes, links);
    return {places: places.map(({x, top}) => [x, top]), paths, left, right, height};
})
"""


def random_graph(seed: int) -> Graph:
    """Boxes of any size, joined in any way, some of them with ports."""
    pick = random.Random(seed)
    count = pick.randint(1, 30)
    boxes = [
        Box(
            width=pick.randint(60, 200),
            height=pick.randint(20, 120),
            outputs=pick.choice([0, 0, 3]),
            clear=pick.choice([0, 15]),
        )
        for _ in range(count)
    ]
    pairs = (sorted(pick.choices(range(count), k=2)) for _ in range(2 * count))
    return boxes, [Link(source=a, target=b, output=pick.randint(0, 2)) for a, b in pairs if a != b]


def graph_of(name: str) -> Graph:
    trace = MODELS[name]()
    shown = picture(trace, fold=False)
    return [sketch.box() for sketch in sketches_of(trace, shown)], links_of(shown)


def as_data(thing: Box | Link) -> dict[str, float]:
    return {name: getattr(thing, name) for name in thing.__slots__}


def drawings(graphs: list[Graph], folder: Path, layout: str) -> list[dict[str, object]]:
    """What the page makes of some graphs."""
    data = [[[*map(as_data, things)] for things in graph] for graph in graphs]
    body = f"<script>{layout}\nconst graphs = {json.dumps(data)};</script>"
    found: list[dict[str, object]] = ask(body, DRAW, folder)
    return found


def numbers(value: object) -> list[float]:
    """All numbers of a nest, in order."""
    if isinstance(value, list | tuple):
        return [number for item in value for number in numbers(item)]
    assert isinstance(value, int | float)
    return [value]


@pytest.fixture(scope="module")
def layout() -> str:
    return files("leafgrad._picture.html").joinpath("layout.js").read_text("utf-8")


def differing(graphs: list[Graph], folder: Path, layout: str) -> list[int]:
    """The graphs that the two layouts draw otherwise."""
    found = []
    for place, (graph, drawn) in enumerate(
        zip(graphs, drawings(graphs, folder, layout), strict=True)
    ):
        own = draw(*graph)
        expected = {
            "places": [[at.x, at.top] for at in own.places],
            "paths": own.paths,
            "left": own.left,
            "right": own.right,
            "height": own.height,
        }
        for key, value in expected.items():
            if numbers(drawn[key]) != pytest.approx(numbers(value), abs=1e-6):
                found.append(place)
                break
    return found


def test_they_draw_random_graphs_and_real_models_the_same(tmp_path: Path, layout: str) -> None:
    graphs = [*map(random_graph, range(200)), *map(graph_of, MODELS)]
    assert differing(graphs, tmp_path, layout) == []
    changed = layout.replace("const GAP = 16", "const GAP = 17")
    assert len(differing(graphs, tmp_path, changed)) > 100
