"""Layout of drawings: nothing collides and the trunk is straight."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgrad._picture.layout import Edge, Extent, Layout, lay_out
from tests.picture.layout.geometry import collisions, overlaps, rectangles

pytestmark = pytest.mark.sweep

Graph = tuple[tuple[Extent, ...], tuple[Edge, ...]]


@st.composite
def graphs(pick: st.DrawFn) -> Graph:
    count = pick(st.integers(1, 14))
    boxes = tuple(
        Extent(
            width=pick(st.integers(60, 200)),
            height=pick(st.integers(20, 300)),
        )
        for _ in range(count)
    )
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    picked = pick(st.lists(ends.filter(lambda end: end[0] != end[1]), max_size=3 * count))
    links = (Edge(source=min(ends), target=max(ends)) for ends in picked)
    return boxes, tuple(links)


@given(graphs())
@settings(max_examples=300, deadline=None)
def test_boxes_and_links_do_not_collide(graph: Graph) -> None:
    drawing = lay_out(*graph)
    boxes = rectangles(graph[0], drawing)
    assert overlaps(boxes) == []
    assert collisions(boxes, drawing.paths) == []


@given(graphs())
@settings(deadline=None)
def test_links_lead_down_from_source_to_target(graph: Graph) -> None:
    boxes, links = graph
    drawing = lay_out(boxes, links)
    edges = rectangles(boxes, drawing)
    for link, path in zip(links, drawing.paths, strict=True):
        assert edges[link.source][0] < path[0][0] < edges[link.source][2]
        assert path[0][1] == edges[link.source][3]
        assert edges[link.target][0] < path[-1][0] < edges[link.target][2]
        assert path[-1][1] == edges[link.target][1]
        assert all(upper[1] < lower[1] for upper, lower in pairwise(path))


@given(graphs())
@settings(deadline=None)
def test_boxes_and_links_are_within_the_drawing(graph: Graph) -> None:
    drawing = lay_out(*graph)
    edges = rectangles(graph[0], drawing)
    points = [point for path in drawing.paths for point in path]
    assert min([edge[0] for edge in edges] + [x for x, _ in points]) >= drawing.left
    assert max([edge[2] for edge in edges] + [x for x, _ in points]) <= drawing.right
    assert min(edge[1] for edge in edges) == 0
    assert max(edge[3] for edge in edges) == drawing.height


@given(graphs())
@settings(deadline=None)
def test_boxes_of_the_longest_path_are_in_one_column(graph: Graph) -> None:
    boxes, links = graph
    positions = lay_out(boxes, links).positions
    trunk = [box for box, place in enumerate(positions) if place.x == 0]
    assert [positions[box].layer for box in trunk] == list(range(len(trunk)))
    assert len(trunk) == max(place.layer for place in positions) + 1
    steps = {(link.source, link.target) for link in links}
    assert all(step in steps for step in pairwise(trunk))


def stack(*links: tuple[int, int]) -> Graph:
    """Return boxes of one size with links."""
    count = max(max(link[:2]) for link in links) + 1
    boxes = (Extent(width=80, height=30),) * count
    return boxes, tuple(Edge(source=a, target=b) for a, b in links)


def columns(drawing: Layout) -> list[float]:
    return [place.x for place in drawing.positions]


def test_skip_connection_is_straight() -> None:
    drawing = lay_out(*stack((0, 3), (0, 1), (1, 2), (2, 3)))
    skip = drawing.paths[0]
    assert columns(drawing) == [0, 0, 0, 0]
    assert skip[1][0] == skip[2][0] == drawing.left < -40
    assert skip[1][1] == drawing.positions[1].top
    assert skip[2][1] == drawing.positions[2].top + 30


def test_links_to_one_box_share_their_last_segments() -> None:
    spine = [(n, n + 1) for n in range(5)]
    drawing = lay_out(*stack((0, 5), (1, 5), *spine))
    first, second = drawing.paths[:2]
    assert first[1][0] == second[1][0]
    assert first[-2:] == second[-2:]


def test_very_long_chain_is_drawn() -> None:
    count = 20_000
    boxes = (Extent(width=80, height=30),) * count
    drawing = lay_out(boxes, [Edge(source=n - 1, target=n) for n in range(1, count)])
    assert (drawing.left, drawing.right) == (-40, 40)
    assert drawing.positions[-1].layer == count - 1
