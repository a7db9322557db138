"""One test a fact about the numbers that outlive a graph."""

import subprocess
import sys

import torch

from leafgrad import _autograd
from tests.processes import unmeasured


def leaf(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, requires_grad=True)


def test_a_leaf_and_a_result_have_numbers_of_their_own() -> None:
    x = leaf(2)
    y, z = x.sin(), x.cos()
    assert _autograd.number_of(x) < 0 <= _autograd.number_of(y) < _autograd.number_of(z)
    assert _autograd.number_of(x) != _autograd.number_of(leaf(2))


def test_an_unrecorded_view_has_the_number_of_what_it_shows() -> None:
    x = leaf(2)
    y = x.exp()
    with torch.no_grad():
        views = x[0], y[0]
    assert list(map(_autograd.number_of, views)) == [_autograd.number_of(x), _autograd.number_of(y)]
    assert _autograd.number_of(y[0]) > _autograd.number_of(y)


def test_a_skeleton_knows_what_depended_on_what_when_the_graph_is_gone() -> None:
    x, other = leaf(2), leaf(2)
    skeleton = _autograd.Skeleton()
    inner = skeleton.add(x.sin())
    numbers = skeleton.add(x.sin() * other), skeleton.add(other.cos())
    assert skeleton.depend_on(x) >= {inner, numbers[0], _autograd.number_of(x)}
    assert numbers[1] not in skeleton.depend_on(x)
    assert skeleton.depend_on(other) >= {*numbers}


def test_a_skeleton_grows_by_what_is_new() -> None:
    skeleton = _autograd.Skeleton()
    y = leaf(2).sin()
    skeleton.add(y)
    before = len(skeleton.successors)
    skeleton.add(y)
    skeleton.add(y.cos())
    assert len(skeleton.successors) == before + 1


DEEP = """
import torch
from leafgrad import _autograd
from tests.processes import unmeasured
skeleton = _autograd.Skeleton()
x = torch.ones(1, requires_grad=True)
for number in range(100_000):
    x = x.sin()
    if number % 10_000 == 0:
        skeleton.add(x)
skeleton.add(x)
print(len(skeleton.successors))
del x
print("freed")
"""


def test_a_deep_graph_that_a_skeleton_was_made_of_can_be_freed() -> None:
    command = [sys.executable, "-c", DEEP]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=unmeasured())
    assert (run.returncode, run.stdout, run.stderr) == (0, "100001\nfreed\n", "")


def test_a_skeleton_finds_each_dependent_once_however_many_paths_there_are() -> None:
    x = leaf(2)
    skeleton, y = _autograd.Skeleton(), x
    for _ in range(60):
        y = y * y
    skeleton.add(y)
    assert len(skeleton.depend_on(x)) == 61
