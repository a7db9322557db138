"""Repeated parts are drawn once, and others are not."""

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
    """Return a graph with an operation for each letter in `labels`, the first being the root."""
    y = leaf(2)
    for label in reversed(labels):
        y = OPERATIONS[label](y)
    return trace_graph(y)


def boxes(trace: GraphTrace) -> list[tuple[str, int]]:
    shown = picture_of(trace, fold=True).boxes
    return [(LABELS[box.name.removesuffix("Backward0")], box.copies) for box in shown]


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        ("zaaaz", "z1 a3 z1"),
        ("zabcabcabcz", "z1 a3 b3 c3 z1"),
        ("z" + "aaab" * 5 + "z", "z1 a15 b5 z1"),
        ("zabcz", "z1 a1 b1 c1 z1"),
        ("zaaz", "z1 a1 a1 z1"),
    ],
    ids=["letter", "stretch", "within a repeat", "all different", "too little to save"],
)
def test_repeats_of_chain_are_drawn_once(labels: str, shown: str) -> None:
    found = boxes(chain(labels))
    assert " ".join(f"{label}{copies}" for label, copies in found) == shown


@pytest.mark.parametrize(("labels", "parts"), [("zabcabcabcz", 1), ("zaaazbbbz", 2), ("zabz", 0)])
def test_repeated_part_is_drawn_with_two_stacked_frames(labels: str, parts: int) -> None:
    picture = chain(labels).to_svg(fold=True, legend=False)
    assert picture.count('class="block"') == 2 * parts


def test_repeated_diamonds_are_folded() -> None:
    y = leaf(2).tanh()
    for _ in range(6):
        y = (y.sin() * y.cos()).exp()
    shown = picture_of(trace_graph(y.tanh()), fold=True)
    assert [box.copies for box in shown.boxes] == [1, *[6] * 4, 1]
    assert [box.targets for box in shown.boxes] == [[1], [2], [3, 4], [5], [5], []]


@given(st.text("abc", min_size=1, max_size=4), st.integers(4, 30))
def test_copies_of_repeated_sequence_are_counted(stretch: str, copies: int) -> None:
    shown = boxes(chain("z" + stretch * copies + "z"))
    assert sum(count for _, count in shown) == len(stretch) * copies + 2
    assert len(shown) <= len(stretch) + 2
