"""Repetitions in a sequence, folded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgrad._picture.runs import Run, runs


@pytest.mark.parametrize(
    ("items", "folded"),
    [
        ("", []),
        ("a", [(0, 1, 1)]),
        ("abc", [(0, 3, 1)]),
        ("aaaa", [(0, 1, 4)]),
        ("ababab", [(0, 2, 3)]),
        ("xababy", [(0, 1, 1), (1, 2, 2), (5, 1, 1)]),
        ("abababa", [(0, 2, 3), (6, 1, 1)]),
        ("aabaab", [(0, 3, 2)]),
    ],
)
def test_a_sequence_is_split_where_it_repeats_itself(
    items: str, folded: list[tuple[int, int, int]]
) -> None:
    assert [*runs(items)] == [Run(*run) for run in folded]


@given(items=st.lists(st.sampled_from("abc"), max_size=60))
def test_the_runs_make_up_the_whole_sequence(items: list[str]) -> None:
    whole: list[str] = []
    for run in runs(items):
        assert run.start == len(whole)
        whole += items[run.start : run.start + run.period] * run.times
    assert whole == items
