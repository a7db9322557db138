"""Drawings: nothing collides, the trunk is straight, the same graph looks the same."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgrad._picture.layout import Band, Edge, Extent, Layout, lay_out
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
            outputs=pick(st.sampled_from([0, 0, 3])),
            clear=pick(st.sampled_from([0, 15])),
        )
        for _ in range(count)
    )
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1), st.integers(0, 2))
    picked = pick(st.lists(ends.filter(lambda end: end[0] != end[1]), max_size=3 * count))
    links = (Edge(source=min(a, b), target=max(a, b), output=n) for a, b, n in picked)
    return boxes, tuple(links)


@given(graphs())
@settings(max_examples=300, deadline=None)
def test_no_box_overlaps_another_and_no_link_crosses_a_box(graph: Graph) -> None:
    drawing = lay_out(*graph)
    boxes = rectangles(graph[0], drawing)
    assert overlaps(boxes) == []
    assert collisions(boxes, drawing.paths) == []


@given(graphs())
@settings(deadline=None)
def test_each_link_leads_down_from_the_bottom_of_its_source_to_the_top_of_its_target(
    graph: Graph,
) -> None:
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
def test_everything_is_within_the_drawing(graph: Graph) -> None:
    drawing = lay_out(*graph)
    edges = rectangles(graph[0], drawing)
    points = [point for path in drawing.paths for point in path]
    assert min([edge[0] for edge in edges] + [x for x, _ in points]) >= drawing.left
    assert max([edge[2] for edge in edges] + [x for x, _ in points]) <= drawing.right
    assert min(edge[1] for edge in edges) == 0
    assert max(edge[3] for edge in edges) == drawing.height


@given(graphs())
@settings(deadline=None)
def test_a_longest_path_runs_straight_down_the_middle(graph: Graph) -> None:
    boxes, links = graph
    positions = lay_out(boxes, links).positions
    trunk = [box for box, place in enumerate(positions) if place.x == 0]
    assert [positions[box].layer for box in trunk] == list(range(len(trunk)))
    assert len(trunk) == max(place.layer for place in positions) + 1
    steps = {(link.source, link.target) for link in links}
    assert all(step in steps for step in pairwise(trunk))


def stack(*links: tuple[int, int] | tuple[int, int, int], outputs: Sequence[int] = ()) -> Graph:
    """Boxes of one size, joined as told; `outputs` has the boxes with two ports."""
    count = max(max(link[:2]) for link in links) + 1
    boxes = (Extent(width=80, height=30, outputs=2 * (box in outputs)) for box in range(count))
    return tuple(boxes), tuple(Edge(source=a, target=b, output=sum(n)) for a, b, *n in links)


def columns(drawing: Layout) -> list[float]:
    return [place.x for place in drawing.positions]


def test_boxes_off_the_trunk_keep_the_order_of_the_links() -> None:
    left, right = lay_out(*stack((0, 1), (0, 2), (2, 3))), lay_out(*stack((0, 2), (2, 3), (0, 1)))
    assert columns(left)[1] < columns(left)[0] == columns(left)[2] < columns(right)[1]


def test_parallel_links_run_side_by_side() -> None:
    one, other = lay_out(*stack((0, 1), (0, 1))).paths
    assert one[0][0] == one[-1][0] == -other[0][0] == -other[-1][0] < 0


def test_a_skip_runs_straight_down_beside_what_it_skips() -> None:
    drawing = lay_out(*stack((0, 3), (0, 1), (1, 2), (2, 3)))
    skip = drawing.paths[0]
    assert columns(drawing) == [0, 0, 0, 0]
    assert skip[1][0] == skip[2][0] == drawing.left < -40
    assert skip[1][1] == drawing.positions[1].top
    assert skip[2][1] == drawing.positions[2].top + 30


def test_a_skip_within_a_skip_runs_nearer_to_the_trunk() -> None:
    spine = [(n, n + 1) for n in range(6)]
    drawing = lay_out(*stack((0, 6), (1, 4), *spine))
    outer, inner = drawing.paths[:2]
    assert outer[1][0] < inner[1][0] < -40


def test_links_that_pass_rows_to_one_port_of_a_box_share_a_lane_and_arrive_as_one() -> None:
    spine = [(n, n + 1) for n in range(5)]
    drawing = lay_out(*stack((0, 5), (1, 5), *spine))
    first, second = drawing.paths[:2]
    assert first[1][0] == second[1][0]
    assert first[-2:] == second[-2:]


def test_links_to_two_ports_run_in_two_lanes_to_the_ports_in_their_order() -> None:
    spine = [(n, n + 1) for n in range(5)]
    drawing = lay_out(*stack((0, 5), (1, 5, 1), *spine, outputs=[5]))
    first, second = drawing.paths[:2]
    assert first[1][0] != second[1][0]
    assert (first[-1][0], second[-1][0]) == (-20, 20)


def test_a_branch_that_joins_again_runs_straight_down_until_it_does() -> None:
    drawing = lay_out(*stack((0, 1), (0, 2), (2, 3), (3, 4), (1, 4)))
    branch = drawing.paths[4]
    assert branch[0][0] == branch[-2][0] == drawing.positions[1].x < 0
    assert branch[-2][1] == drawing.positions[3].top + 30


@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_terms_of_a_long_sum_do_not_drift_away_from_the_trunk(length: int) -> None:
    sums = 20
    terms = [[*range(sums * (n + 1), sums * (n + 1) + length)] for n in range(sums - length)]
    links = [*pairwise(range(sums))]
    links += [step for n, term in enumerate(terms) for step in pairwise([n, *term])]
    named = {box: n for n, box in enumerate(sorted({box for link in links for box in link}))}
    drawing = lay_out(*stack(*((named[a], named[b]) for a, b in links)))
    assert len({*columns(drawing)}) == 1 + length


def test_a_branch_of_a_branch_points_away_from_the_trunk_or_towards_it_as_its_link_says() -> None:
    inwards = columns(lay_out(*stack((0, 1), (1, 2), (2, 3), (0, 4), (4, 5), (4, 6), (6, 7))))
    outwards = columns(lay_out(*stack((0, 1), (1, 2), (2, 3), (0, 4), (4, 6), (6, 7), (4, 5))))
    assert 0 < inwards[5] < inwards[4]
    assert 0 < outwards[4] < outwards[5]


def test_a_box_that_nothing_leads_to_stands_right_above_what_it_leads_to() -> None:
    drawing = lay_out(*stack((0, 1), (1, 2), (2, 3), (4, 5), (3, 5)))
    assert [place.layer for place in drawing.positions] == [0, 1, 2, 3, 3, 4]
    assert drawing.positions[4].x > 0


BESIDE = [(0, 1), (1, 2), (0, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8)]


def test_a_lane_from_a_branch_to_the_trunk_starts_inwards() -> None:
    drawing = lay_out(*stack((1, 8), (2, 8), *BESIDE))
    assert drawing.positions[1].x == drawing.positions[2].x < drawing.paths[0][1][0] < -40


def test_a_lane_from_the_trunk_to_a_branch_runs_on_the_side_of_the_branch() -> None:
    drawing = lay_out(*stack(*BESIDE, (2, 9), (9, 10), (3, 10)))
    assert drawing.positions[10].x < drawing.paths[-1][1][0] < -40


@pytest.mark.parametrize("count", [1, 3000])
def test_the_same_graph_is_drawn_the_same(count: int) -> None:
    boxes = (Extent(width=80, height=30),) * count
    links = tuple(Edge(source=n // 2, target=n) for n in range(1, count))
    assert lay_out(boxes, links) == lay_out(list(boxes), list(links))


def test_a_very_long_chain_is_drawn() -> None:
    count = 20_000
    boxes = (Extent(width=80, height=30),) * count
    drawing = lay_out(boxes, [Edge(source=n - 1, target=n) for n in range(1, count)])
    assert (drawing.left, drawing.right) == (-40, 40)
    assert drawing.positions[-1].layer == count - 1


@given(graphs(), st.lists(st.integers(0, 14), min_size=4, max_size=4))
@settings(max_examples=200, deadline=None)
def test_bands_have_layers_of_their_own_and_room_around_them(graph: Graph, cuts: list[int]) -> None:
    boxes, links = graph
    first, last, start, stop = sorted(min(cut, len(boxes)) for cut in cuts)
    spans = [range(first, last), range(start, stop)]
    bands = [Band(boxes=tuple(span), above=17, below=6) for span in spans if span]
    drawing = lay_out(boxes, links, bands)
    assert overlaps(rectangles(boxes, drawing)) == []
    assert collisions(rectangles(boxes, drawing), drawing.paths) == []
    edges = rectangles(boxes, drawing)
    for link, path in zip(links, drawing.paths, strict=True):
        assert path[0][1] == edges[link.source][3]
        assert path[-1][1] == edges[link.target][1]
        assert all(upper[1] < lower[1] for upper, lower in pairwise(path))
    for band in bands:
        top = min(edges[box][1] for box in band.boxes) - band.above
        bottom = max(edges[box][3] for box in band.boxes) + band.below
        assert top >= 0
        assert bottom <= drawing.height
        for box in {*range(len(boxes))} - {*band.boxes}:
            assert edges[box][1] > bottom or edges[box][3] < top
