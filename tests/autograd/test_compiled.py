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


def test_a_node_of_compiled_code_is_one_call_in_its_graph_and_its_backward_is_traced() -> None:
    def cube(x: torch.Tensor) -> torch.Tensor:
        assert x.requires_grad
        return x**3

    called: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        called.extend(node.name for node in graph.graph.nodes if node.op == "call_function")
        return graph

    node = _autograd.node_of_compiled_code(cube)
    x = leaf(2)

    def total(x: torch.Tensor) -> torch.Tensor:
        return node(x).sum()

    faster: Any = torch.compile(total, backend=backend, fullgraph=True)
    (gradient,) = torch.autograd.grad(faster(x), x)
    assert torch.equal(gradient, 3 * x**2)
    assert called == ["node"]
    assert torch.equal(node(x), x**3)


def test_the_graph_ends_before_a_node_that_raises_which_raises_by_itself_then() -> None:
    def refusing(_: torch.Tensor) -> torch.Tensor:
        raise ValueError("first line\nsecond line")

    node = _autograd.node_of_compiled_code(refusing)
    message = r"leave out fullgraph=True; without values it says: first line\n"
    with pytest.raises(Exception, match=message):
        torch.compile(node, backend="eager", fullgraph=True)(leaf(2))
    torch.compiler.reset()
    with pytest.raises(ValueError, match="second line"):
        torch.compile(node, backend="eager")(leaf(2))


def test_whether_a_function_of_ours_is_compiled_by_itself_is_known_to_the_compiler() -> None:
    def is_alone(x: torch.Tensor) -> torch.Tensor:
        return x + _autograd.is_compiled_alone()

    assert compiled(is_alone, torch.zeros(())).item() == 0


@pytest.mark.parametrize("is_within", [True, False], ids=["a compiler's", "a user's mode"])
def test_a_tensor_without_values_is_one_that_a_compiler_made(*, is_within: bool) -> None:
    from torch._subclasses import FakeTensorMode  # noqa: PLC0415 (takes long)
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415

    assert not _autograd.is_without_values(leaf(2))
    mode: Any = FakeTensorMode() if is_within else FlopCounterMode(display=False)
    with mode:
        assert _autograd.is_without_values(torch.ones(2)) == is_within
