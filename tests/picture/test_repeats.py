"""Repeats are drawn once, and nothing else is."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leafgrad import GraphTrace, trace_graph
from tests.picture.picture import picture_of
from tests.tensors import leaf

OPERATIONS = {"a": torch.sin, "b": torch.cos, "c": torch.exp, "z": torch.tanh}
LABELS = {"Sin": "a", "Cos": "b", "Exp": "c", "Tanh": "z"}


def chain(labels: str) -> GraphTrace:
    """Apply an operation for each letter; the graph leads from the last one back."""
    y = leaf(2)
    for label in reversed(labels):
        y = OPERATIONS[label](y)
    return trace_graph(y)


def boxes(trace: GraphTrace) -> list[tuple[str, int]]:
    shown = picture_of(trace, fold=True).boxes
    return [(LABELS[box.name.removesuffix("Backward0")], box.copies) for box in shown]


@pytest.mark.parametrize(
    ("labels", "shown", "brackets"),
    [
        ("zaaaz", "z1 a3 z1", []),
        ("zabcabcabcz", "z1 a3 b3 c3 z1", ["×3 in a row"]),
        ("z" + "aaab" * 5 + "z", "z1 a15 b5 z1", ["×5 in a row"]),
        ("zabcz", "z1 a1 b1 c1 z1", []),
        ("zaaz", "z1 a1 a1 z1", []),
    ],
    ids=["letter", "stretch", "within a repeat", "all different", "too little to save"],
)
def test_repeats_of_chain_are_drawn_once(labels: str, shown: str, brackets: list[str]) -> None:
    trace = chain(labels)
    assert " ".join(f"{label}{copies}" for label, copies in boxes(trace)) == shown
    assert picture_of(trace, fold=True).brackets == brackets


def test_diamonds_are_cut_where_one_link_leads_on() -> None:
    y = leaf(2).tanh()
    for _ in range(6):
        y = (y.sin() * y.cos()).exp()
    shown = picture_of(trace_graph(y.tanh()), fold=True)
    assert [box.copies for box in shown.boxes] == [1, *[6] * 4, 1]
    assert [box.targets for box in shown.boxes] == [[1], [2], [3, 4], [5], [5], []]


@given(st.text("abc", min_size=1, max_size=4), st.integers(4, 30))
def test_copies_of_stretch_are_counted(stretch: str, copies: int) -> None:
    shown = boxes(chain("z" + stretch * copies + "z"))
    assert sum(count for _, count in shown) == len(stretch) * copies + 2
    assert len(shown) <= len(stretch) + 2


@pytest.mark.parametrize(
    ("labels", "rows"),
    [
        ("abc", ["0 to 2 ×1"]),
        ("aaaa", ["0 to 3 ×4"]),
        ("aabaab", ["0 to 5 ×2"]),
        ("abababa", ["0 to 5 ×3", "6 ×1"]),
        ("cababc", ["0 ×1", "1 to 4 ×2", "5 ×1"]),
        ("caaaabcbcbca", ["0 ×1", "1 to 4 ×4", "5 to 10 ×3", "11 ×1"]),
    ],
)
def test_text_splits_chain_where_it_repeats(labels: str, rows: list[str]) -> None:
    lines = str(chain(labels + "z" * 40)).splitlines()
    found = [re.match(r"(\d+(?: to \d+)?) +(\d+)", line) for line in lines[3:]]
    assert [f"{row[1]} ×{row[2]}" for row in found if row][:-2] == rows


@given(st.text("abc", min_size=40, max_size=60))
def test_ranges_of_repeats_in_text_cover_all_nodes(labels: str) -> None:
    lines = str(chain(labels)).splitlines()
    if any(line.startswith("folded by what repeats") for line in lines):
        ranges = [re.match(r"(\d+)(?: to (\d+))? ", line) for line in lines[3:]]
        ends = [(int(found[1]), int(found[2] or found[1])) for found in ranges if found]
        assert [first for first, _ in ends] == [0, *(last + 1 for _, last in ends[:-1])]
        assert ends[-1][1] == len(labels)
