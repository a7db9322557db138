"""Repeats: what is alike is drawn once, and nothing that is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgrad._picture.repeats import SEVERAL, Repeat, Vertex, fold_repeats, runs_in


def vertices(labels: str, *edges: tuple[int, int]) -> list[Vertex]:
    """Vertices with a letter each, linked as told."""
    ahead: list[list[tuple[int, int]]] = [[] for _ in labels]
    for a, b in edges:
        ahead[a].append((b, 0))
    return [
        Vertex(label=label, edges=tuple(ahead[place]), members=(place,))
        for place, label in enumerate(labels)
    ]


def chain(labels: str) -> list[Vertex]:
    return vertices(labels, *((n, n + 1) for n in range(len(labels) - 1)))


def shown(kept: list[Vertex]) -> list[tuple[tuple[int, ...], list[int]]]:
    return [(vertex.members, [place for place, _ in vertex.edges]) for vertex in kept]


def test_a_chain_of_equals_becomes_one() -> None:
    kept, repeats = fold_repeats(chain("asssz"))
    assert shown(kept) == [((0,), [1]), ((1, 2, 3), [2]), ((4,), [])]
    assert repeats == [Repeat(members=(1,), copies=3, in_a_row=True)]


def test_a_stretch_that_recurs_is_kept_once_and_leads_on_from_its_last_copy() -> None:
    kept, repeats = fold_repeats(chain("rabcabcabcz"))
    assert shown(kept)[1:] == [((1, 4, 7), [2]), ((2, 5, 8), [3]), ((3, 6, 9), [4]), ((10,), [])]
    assert repeats == [Repeat(members=(1, 2, 3), copies=3, in_a_row=True)]


def test_equals_side_by_side_become_one_that_is_led_to_once() -> None:
    kept, repeats = fold_repeats(
        vertices("rsssz", *((0, n) for n in (1, 2, 3)), *((n, 4) for n in (1, 2, 3)))
    )
    assert shown(kept) == [((0,), [1]), ((1, 2, 3), [2]), ((4,), [])]
    assert repeats == [Repeat(members=(1,), copies=3, in_a_row=False)]


def test_copies_may_lead_to_one_place_by_different_outputs() -> None:
    edges = [((4, 7),), ((4, 5),), ((4, 6),), ()]
    ends = [
        Vertex(label=letter, edges=edge, members=(0,))
        for letter, edge in zip("sssz", edges, strict=True)
    ]
    kept, _ = fold_repeats([Vertex(label="r", edges=((1, 0), (2, 0), (3, 0)), members=(0,)), *ends])
    assert [vertex.edges for vertex in kept] == [((1, 0),), ((2, SEVERAL),), ()]


def test_copies_that_lead_to_several_places_beyond_lead_to_each() -> None:
    kept, _ = fold_repeats(
        vertices("rssstuvz", *((0, n) for n in (1, 2, 3)), *((n, n + 3) for n in (1, 2, 3)), (6, 7))
    )
    assert shown(kept)[:2] == [((0,), [1]), ((1, 2, 3), [2, 3, 4])]


def test_parallel_ways_within_a_copy_stay() -> None:
    doubled = [edge for n in range(6) for edge in [(n, n + 1)] * (1 + n % 2)]
    kept, _ = fold_repeats(vertices("rababaz", *doubled))
    assert shown(kept)[1:3] == [((1, 3), [2, 2]), ((2, 4), [3])]


def test_a_repeat_within_a_repeat_is_folded_too() -> None:
    kept, repeats = fold_repeats(chain("r" + "asssb" * 5 + "z"))
    assert [len(vertex.members) for vertex in kept] == [1, 5, 15, 5, 1]
    assert [(repeat.copies, len(repeat.members)) for repeat in repeats] == [(5, 5), (3, 1)]


def test_copies_are_cut_where_least_leads_from_one_to_the_next() -> None:
    diamond = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]
    diamonds = [(first + a, first + b) for first in (3, 7, 11, 15) for a, b in diamond]
    kept, (repeat,) = fold_repeats(
        vertices("rcdabcdabcdabcdabcdz", (0, 1), (1, 2), (2, 3), *diamonds)
    )
    assert (repeat.members, repeat.copies) == ((2, 3, 4, 5), 4)
    assert [vertex.members[0] for vertex in kept] == [0, 1, 2, 3, 4, 5, 18, 19]


def test_what_is_worth_less_than_a_fiftieth_stays() -> None:
    different = "".join(map(chr, range(0x4E00, 0x4E00 + 200)))
    assert fold_repeats(chain(f"sss{different}"))[1] == []
    assert len(fold_repeats(chain(f"ssssss{different}"))[1]) == 1


@pytest.mark.parametrize(
    ("labels", "edges"),
    [
        ("abcdef", [(n, n + 1) for n in range(5)]),
        ("rssz", [(n, n + 1) for n in range(3)]),
        ("rsssz", [(0, 1), (1, 2), (1, 3), (3, 4)]),
        ("rsssz", [(0, 1), (1, 3), (2, 3), (3, 4)]),
    ],
    ids=["all different", "too little to save", "one leads elsewhere", "one is shared"],
)
def test_what_is_not_alike_stays(labels: str, edges: list[tuple[int, int]]) -> None:
    kept, repeats = fold_repeats(vertices(labels, *edges))
    assert (len(kept), repeats) == (len(labels), [])


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), st.integers(4, 30))
def test_a_chain_of_copies_stands_for_every_node_once(stretch: list[str], copies: int) -> None:
    kept, _ = fold_repeats(chain("r" + "".join(stretch) * copies + "z"))
    members = [twin for vertex in kept for twin in vertex.members]
    assert sorted(members) == list(range(len(stretch) * copies + 2))
    assert len(kept) <= len(stretch) + 2
    assert all(target > place for place, vertex in enumerate(kept) for target, _ in vertex.edges)


def test_a_long_chain_takes_time_in_proportion() -> None:
    kept, repeats = fold_repeats(chain("r" + "ab" * 20_000 + "z"))
    assert (len(kept), repeats[0].copies) == (4, 20_000)


@pytest.mark.parametrize(
    ("labels", "split"),
    [
        ("", []),
        ("a", [(0, 1, 1)]),
        ("abc", [(0, 3, 1)]),
        ("aaaa", [(0, 1, 4)]),
        ("ababab", [(0, 2, 3)]),
        ("xababy", [(0, 1, 1), (1, 2, 2), (5, 1, 1)]),
        ("abababa", [(0, 2, 3), (6, 1, 1)]),
        ("aabaab", [(0, 3, 2)]),
        ("xaaaabcbcbcy", [(0, 1, 1), (1, 1, 4), (5, 2, 3), (11, 1, 1)]),
    ],
)
def test_a_sequence_is_split_where_it_repeats_itself(
    labels: str, split: list[tuple[int, int, int]]
) -> None:
    assert [(run.first, run.period, run.copies) for run in runs_in(labels)] == split


@given(labels=st.lists(st.sampled_from("abc"), max_size=60))
def test_the_runs_make_up_the_whole_sequence(labels: list[str]) -> None:
    whole: list[str] = []
    for run in runs_in(labels):
        assert run.first == len(whole)
        whole += labels[run.first : run.first + run.period] * run.copies
    assert whole == labels
