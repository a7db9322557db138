"""Facts about edges and paths, one test each."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from leafgrad import _autograd
from tests.apart import RunApart
from tests.tensors import leaf


class WatchingDispatchMode(TorchDispatchMode):
    """A mode that records each operation."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[object] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


def view_under_no_grad(base: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return base[:]


def test_accumulator_check_runs_no_operation(watching_mode: Any) -> None:
    view = view_under_no_grad(leaf(2))
    sequence_number = torch._C._autograd._get_sequence_nr()
    modes = watching_mode, WatchingDispatchMode()
    with modes[0] as functions, modes[1] as operations, _autograd.unobserved():
        assert not _autograd.has_accumulator(view)
    assert (functions.calls, operations.calls) == ([], [])
    assert torch._C._autograd._get_sequence_nr() == sequence_number
    with torch.inference_mode():
        assert not _autograd.has_accumulator(view)


def test_path_between_is_empty_or_none() -> None:
    x, y = (torch.ones(2, requires_grad=True) for _ in "xy")
    edge = _autograd.edge_by_use(x)
    assert edge is not None
    assert _autograd.path_between(x, x) == ({}, edge, edge)
    assert _autograd.path_between(x * 2, y) is None
    assert _autograd.path_between(torch.ones(2), y) is None
    assert _autograd.path_between(y, torch.ones(2)) is None


# --- Sequence numbers and the living graph


def test_leaves_and_results_have_distinct_numbers() -> None:
    x = leaf(2)
    y, z = x.sin(), x.cos()
    assert _autograd.number_of(x) < 0 <= _autograd.number_of(y) < _autograd.number_of(z)
    assert _autograd.number_of(x) != _autograd.number_of(leaf(2))


def test_unrecorded_view_has_number_of_its_base() -> None:
    x = leaf(2)
    y = x.exp()
    with torch.no_grad():
        views = x[0], y[0]
    assert list(map(_autograd.number_of, views)) == [_autograd.number_of(x), _autograd.number_of(y)]
    assert _autograd.number_of(y[0]) > _autograd.number_of(y)


def test_structure_outlives_graph() -> None:
    x, other = leaf(2), leaf(2)
    structure = _autograd.GraphStructure()
    inner = structure.add(x.sin())
    numbers = structure.add(x.sin() * other), structure.add(other.cos())
    assert structure.depend_on(x) >= {inner, numbers[0], _autograd.number_of(x)}
    assert numbers[1] not in structure.depend_on(x)
    assert structure.depend_on(other) >= {*numbers}


def test_structure_adds_new_nodes_only() -> None:
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
for number in range(20_000):
    x = x.sin()
    if number % 2_000 == 0:
        structure.add(x)
structure.add(x)
print(len(structure.successors))
del x
print("freed")
"""


def test_deep_graph_of_structure_can_be_freed(run_apart: RunApart) -> None:
    run = run_apart(DEEP)
    assert (run.returncode, run.stdout, run.stderr) == (0, "20001\nfreed\n", "")
