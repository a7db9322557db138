"""Code that Inductor compiled, as `torch.compile` does by default: names, memory, no false word."""

import shutil
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leafgrad import GradCause, explain_grad, preflight, trace_graph

COMPILERS = ("cl",) if sys.platform == "win32" else ("g++", "c++", "clang++")

pytestmark = [
    pytest.mark.skipif(
        not any(map(shutil.which, COMPILERS)),
        reason=f"Inductor writes C++, and there is no compiler: none of {', '.join(COMPILERS)}",
    ),
    # PyTorch warns of itself while it loads its compiler.
    pytest.mark.filterwarnings("ignore:.torch.jit.*deprecated:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def compiled() -> Iterator[tuple[nn.Module, Any]]:
    """Compile one small model, a bias of which is frozen, for all tests here."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    model.get_parameter("0.bias").requires_grad_(False)
    run = torch.compile(model, backend="inductor")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".torch.jit.*deprecated", DeprecationWarning)
        try:
            run(torch.ones(3, 4)).sum().backward()
        except RuntimeError as error:
            if sys.platform == "linux":
                raise
            pytest.skip(f"the compiler here lacks what Inductor needs, such as OpenMP: {error}")
    yield model, run
    torch._dynamo.reset()


X = torch.ones(3, 4)


def test_it_is_one_node_whose_leaves_have_their_names(compiled: tuple[nn.Module, Any]) -> None:
    model, run = compiled
    trace = trace_graph(run(X), names={"": model, "x": X})
    assert [node.name for node in trace.nodes if not node.is_leaf] == ["CompiledFunctionBackward"]
    trained = {f".{name}" for name, one in model.named_parameters() if one.requires_grad}
    assert {leaf.leaf_name for leaf in trace.leaves} == trained
    assert [(given.name, given.shape) for given in trace.inputs] == [("x", (3, 4))]


def test_its_memory_is_what_it_keeps(compiled: tuple[nn.Module, Any]) -> None:
    model, run = compiled
    y: Tensor = run(X)
    node: Any = y.grad_fn
    kept = {
        t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in node.saved_tensors
    }
    total = trace_graph(y, names=model).memory.total
    assert total.storage_bytes == sum(kept.values())
    weights = {one.data_ptr() for one in model.parameters()}
    own = [nbytes for place, nbytes in kept.items() if place not in weights]
    assert total.bytes_without_parameters == sum(own)


def test_what_is_said_before_a_backward_comes_true(compiled: tuple[nn.Module, Any]) -> None:
    model, run = compiled
    model.zero_grad()
    loss = run(X).sum()
    told = preflight(loss, names=model)
    assert not told.will_fail
    expected = {name for name, one in model.named_parameters() if one.requires_grad}
    weight = model.get_parameter("2.weight")
    assert explain_grad(weight, loss).cause is GradCause.NOT_RUN
    loss.backward()
    assert {name for name, one in model.named_parameters() if one.grad is not None} == expected
    assert explain_grad(weight, loss).cause is GradCause.FILLED
    assert preflight(loss, names=model).will_fail


def test_every_picture_of_it_is_drawn(compiled: tuple[nn.Module, Any]) -> None:
    model, run = compiled
    trace = trace_graph(run(X).sum(), names=model, values=True)
    wide = trace.to_text(width=200)
    for drawn in (wide, trace.to_svg(), trace.to_html(), trace.to_mermaid(), trace.to_dot()):
        assert "CompiledFunction" in drawn


def test_a_backward_that_may_not_keep_its_graph_raises_what_pytorch_says(
    compiled: tuple[nn.Module, Any],
) -> None:
    model, run = compiled
    with pytest.raises(RuntimeError, match="donated"):
        trace_graph(run(X).sum(), names=model, gradients=True)
