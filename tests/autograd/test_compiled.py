"""One test a fact about what the code that `torch.compile` made calls what it saved."""

from typing import Any

import pytest
import torch

from leafgrad import _autograd
from tests.tensors import leaf


def compiled(function: Any, *inputs: torch.Tensor, dynamic: bool = False) -> Any:
    faster: Any = torch.compile(function, backend="aot_eager", dynamic=dynamic)
    return faster(*inputs)


@pytest.mark.parametrize("dynamic", [False, True], ids=["numbers", "symbols"])
def test_the_names_stand_beside_the_tensors_whether_sizes_are_saved_or_not(
    *, dynamic: bool
) -> None:
    x = leaf(2, 3)
    y = compiled(lambda x: x.exp() * x.sum(), x, dynamic=dynamic)
    slots = {slot.name: slot.tensor for slot in _autograd.saved_slots(y.grad_fn)}
    assert set(slots) == {"exp", "sum_1"}
    assert slots["exp"] is not None
    assert slots["sum_1"] is not None
    assert torch.equal(slots["exp"], x.exp())
    assert slots["sum_1"].item() == 6


def test_an_argument_is_named_by_its_place() -> None:
    x, w = leaf(2), leaf(2)
    y = compiled(lambda x, w: x.sin() * w.cos(), x, w)
    slots = _autograd.saved_slots(y.grad_fn)
    assert [(slot.name, slot.tensor) for slot in slots] == [("primals_1", x), ("primals_2", w)]
    assert [slot.state for slot in slots] == ["live", "live"]


def test_what_is_freed_has_no_name_any_more() -> None:
    y = compiled(torch.exp, leaf(2))
    y.sum().backward()
    assert [slot[:2] for slot in _autograd.saved_slots(y.grad_fn)] == [("saved_tensors", "freed")]


# The compiler hides this warning of its own, but not where warnings are errors.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_what_leaves_compiled_code_runs_as_it_is_written() -> None:
    def graph_name(x: torch.Tensor) -> str | None:
        return _autograd.grad_fn_name(x.sin())

    outside = _autograd.outside_compiled_code(graph_name)

    def step(x: torch.Tensor) -> tuple[torch.Tensor, str | None]:
        return x.cos(), outside(x)

    y, name = compiled(step, leaf(2))
    assert (_autograd.grad_fn_name(y), name) == ("CompiledFunctionBackward", "SinBackward0")
