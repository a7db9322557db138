"""Code compiled by Inductor."""

import shutil
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leafgrad import diagnose, trace_graph
from tests.diagnosis.programs import code_of

COMPILERS = ("cl",) if sys.platform == "win32" else ("g++", "c++", "clang++")

pytestmark = [
    pytest.mark.skipif(
        not any(map(shutil.which, COMPILERS)),
        reason=f"Inductor writes C++, and there is no compiler: none of {', '.join(COMPILERS)}",
    ),
    # PyTorch warns of itself while it loads its compiler.
    pytest.mark.filterwarnings("ignore:.torch.jit.*deprecated:DeprecationWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def _no_vectors() -> Iterator[None]:
    """Skip the check for vector instructions, which starts a process for each."""
    with torch._inductor.config.patch({"cpp.vec_isa_ok": False}):
        yield


@pytest.fixture(scope="module")
def compiled() -> Iterator[tuple[nn.Module, Any]]:
    """Compile a small model with a frozen bias once for all tests."""
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


def test_compiled_code_is_one_node_with_named_leaves(compiled: tuple[nn.Module, Any]) -> None:
    model, run = compiled
    trace = trace_graph(run(X), names={"": model, "x": X})
    assert [node.name for node in trace.nodes if not node.is_leaf] == ["CompiledFunctionBackward"]
    trained = {f".{name}" for name, one in model.named_parameters() if one.requires_grad}
    assert {leaf.leaf_name for leaf in trace.leaves} == trained
    assert [(given.name, given.shape) for given in trace.inputs] == [("x", (3, 4))]


def test_memory_of_compiled_code_is_that_of_its_saved_tensors(
    compiled: tuple[nn.Module, Any],
) -> None:
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


def test_diagnosis_of_compiled_model_matches_backward(compiled: tuple[nn.Module, Any]) -> None:
    model, run = compiled
    model.zero_grad()
    loss = run(X).sum()
    assert diagnose(loss, model).ok
    expected = {name for name, one in model.named_parameters() if one.requires_grad}
    weight = model.get_parameter("2.weight")
    assert code_of(weight, loss) is None
    loss.backward()
    assert {name for name, one in model.named_parameters() if one.grad is not None} == expected
    assert "freed" in diagnose(loss, model).codes


def test_pictures_and_pages_show_compiled_code(compiled: tuple[nn.Module, Any]) -> None:
    model, run = compiled
    trace = trace_graph(run(X).sum(), names=model, values=True)
    for drawn in (trace.to_svg(), trace.to_html()):
        assert "CompiledFunction" in drawn


def saved_by(loss: Tensor) -> list[Tensor]:
    """Return what the node of the compiled code saved."""
    node: Any = loss.grad_fn
    while node.name() != "CompiledFunctionBackward":
        node = node.next_functions[0][0]
    return [*node.saved_tensors]


def normalised(x: Tensor, w: Tensor) -> Tensor:
    return nn.functional.layer_norm((x @ w).exp(), (16,)).tanh()


@pytest.fixture(scope="module")
def writing() -> Iterator[Any]:
    """Compile a function whose backward overwrites a saved tensor."""
    run = torch.compile(normalised, backend="inductor", fullgraph=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".torch.jit.*deprecated", DeprecationWarning)
        run(torch.rand(16, 16), torch.rand(16, 16, requires_grad=True)).sum().backward()
    yield run
    torch._dynamo.reset()


def test_trace_with_gradients_keeps_saved_tensors(writing: Any) -> None:
    x, w = torch.rand(16, 16), torch.rand(16, 16, requires_grad=True)
    (eager,) = torch.autograd.grad(normalised(x, w).square().sum(), w)
    loss = writing(x, w).square().sum()
    before = [(tensor.clone(), tensor._version) for tensor in saved_by(loss)]
    for _ in range(2):
        trace = trace_graph(loss, names={"w": w}, gradients=True, values=True)
        (arrived,) = trace.leaves[0].gradients
        assert arrived is not None
        assert arrived.norm == pytest.approx(eager.norm().item(), rel=1e-4)
    assert diagnose(loss, {"w": w}, gradients=True).ok
    for (numbers, version), tensor in zip(before, saved_by(loss), strict=True):
        assert torch.equal(numbers, tensor)
        assert tensor._version == version
    assert torch._functorch.config.donated_buffer
    loss.backward()  # The traces and the diagnosis have added no gradient.
    assert w.grad is not None
    assert torch.allclose(w.grad, eager, atol=1e-5)


def test_failed_trace_with_gradients_keeps_saved_tensors(writing: Any) -> None:
    w = torch.rand(16, 16, requires_grad=True)
    h = w * 2
    loss = writing(torch.rand(16, 16), h.exp()).square().sum()
    before = [tensor.clone() for tensor in saved_by(loss)]
    handle = h.register_hook(lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        trace_graph(loss, gradients=True)
    handle.remove()
    assert all(torch.equal(*pair) for pair in zip(before, saved_by(loss), strict=True))
    assert torch._functorch.config.donated_buffer
