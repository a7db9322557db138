"""One test a fact about the numbers that outlive a graph."""

from typing import Any

import torch

from leafgrad import _autograd
from tests.apart import RunApart
from tests.tensors import leaf


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


def test_a_structure_knows_what_depended_on_what_when_the_graph_is_gone() -> None:
    x, other = leaf(2), leaf(2)
    structure = _autograd.GraphStructure()
    inner = structure.add(x.sin())
    numbers = structure.add(x.sin() * other), structure.add(other.cos())
    assert structure.depend_on(x) >= {inner, numbers[0], _autograd.number_of(x)}
    assert numbers[1] not in structure.depend_on(x)
    assert structure.depend_on(other) >= {*numbers}


def test_a_structure_grows_by_what_is_new() -> None:
    structure = _autograd.GraphStructure()
    y = leaf(2).sin()
    structure.add(y)
    before = len(structure.successors)
    structure.add(y)
    structure.add(y.cos())
    assert len(structure.successors) == before + 1


DEEP = """
import torch
from leafgrad import _autograd
structure = _autograd.GraphStructure()
x = torch.ones(1, requires_grad=True)
for number in range(100_000):
    x = x.sin()
    if number % 10_000 == 0:
        structure.add(x)
structure.add(x)
print(len(structure.successors))
del x
print("freed")
"""


def test_a_deep_graph_that_a_structure_was_made_of_can_be_freed(run_apart: RunApart) -> None:
    run = run_apart(DEEP)
    assert (run.returncode, run.stdout, run.stderr) == (0, "100001\nfreed\n", "")


def test_a_structure_finds_each_dependent_once_however_many_paths_there_are() -> None:
    x = leaf(2)
    structure, y = _autograd.GraphStructure(), x
    for _ in range(60):
        y = y * y
    structure.add(y)
    assert len(structure.depend_on(x)) == 61


def number(tensor: torch.Tensor) -> int:
    return _autograd.number_of(tensor)


def test_a_graph_lives_as_long_as_a_tensor_leads_to_it() -> None:
    x = leaf(2)
    y = x.sin().exp()
    nodes, living = _autograd.living_graph()
    assert y.grad_fn in nodes
    inner: Any = y.grad_fn
    assert {number(x), number(y), _autograd.sequence_nr(inner.next_functions[0][0])} <= living
    gone = number(y)
    del y, inner, nodes
    assert gone not in _autograd.living_graph()[1]


def test_a_graph_lives_in_a_gradient_in_the_base_of_a_view_and_in_a_wrapper() -> None:
    x = leaf(2)
    (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    x.grad = slope
    behind = number(slope)
    base = x * 2
    view, of_base = base[:1], number(base)
    del slope, base
    assert {behind, of_base, number(view)} <= _autograd.living_graph()[1]
    found = []

    def inside(row: torch.Tensor) -> torch.Tensor:
        y = row * 2
        found.append(_autograd.living_graph()[1])
        return y

    made = torch.func.vmap(inside)(leaf(2, 3))
    assert number(made) - 1 in found[0] or number(made) in found[0]


def test_a_view_that_was_written_into_is_not_asked_which_would_record_a_node() -> None:
    base = leaf(4) * 1
    view = base[:2]
    base.mul_(2)
    start = _autograd.next_sequence_nr()
    assert number(base) in _autograd.living_graph()[1]
    assert _autograd.next_sequence_nr() == start
    assert view.grad_fn is not None
    assert _autograd.next_sequence_nr() == start + 1
