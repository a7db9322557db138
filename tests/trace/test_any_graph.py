"""Graphs that are not everyday ones: traced as they are, left as they were, shown in every form."""

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.autograd.graph import get_gradient_edge, save_on_cpu, saved_tensors_hooks
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import checkpoint

from leafgrad import GraphTrace, preflight, trace_graph
from tests.diagnosis.programs import code_of


def leaf(*shape: int) -> Tensor:
    numbers = torch.arange(1, 1 + torch.Size(shape).numel(), dtype=torch.float32)
    return (numbers / 10).reshape(shape).requires_grad_()


class Old(torch.autograd.Function):
    """The combined style, with None among what it saves, and two outputs of which one is plain."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, _: str) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(None, x)
        ctx.set_materialize_grads(False)
        count = x.detach().long()
        ctx.mark_non_differentiable(count)
        return x.sin(), count

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * ctx.saved_tensors[1].cos(), None


class New(torch.autograd.Function):
    """The separate style, which vmap can take apart."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, _: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * ctx.saved_tensors[0].cos()


class Once(New):
    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * ctx.saved_tensors[0].cos()


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return 2 * gradients[0]


def applied(function: Any, *inputs: Any) -> Any:
    return function.apply(*inputs)


def written_through_views(x: Tensor) -> Tensor:
    y = x * 1
    y.view(-1)[1:].mul_(2)
    y[0].add_(x[1])
    return y.sin()


def under_hooks(x: Tensor) -> Tensor:
    with save_on_cpu():
        y = x.exp()
    with saved_tensors_hooks(lambda t: (t.double(), t.dtype), moved):
        return y.sin() * y


def double_backward(x: Tensor) -> Tensor:
    (slope,) = torch.autograd.grad(x.tanh().sum(), x, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
    return bend * x


def with_hooks(x: Tensor) -> Tensor:
    y = x.sin()
    y.register_hook(lambda gradient: 2 * gradient)
    recorded: Any = y.grad_fn
    recorded.register_prehook(lambda gradients: gradients)
    y.retain_grad()
    return y.exp()


def moved(pair: Any) -> Tensor:
    tensor, dtype = pair
    moved: Tensor = tensor.to(dtype)
    return moved


def of_a_subclass(x: Tensor) -> Any:
    both: Any = TwoTensor(x, x * 2)
    return both.sin().a * x


def compiled(x: Tensor) -> Any:
    def product(x: Tensor) -> Tensor:
        return x.sin() * x.sum()

    faster: Any = torch.compile(product, backend="aot_eager")
    return faster(x)


def compiled_in_parts(x: Tensor) -> Any:
    def broken(x: Tensor) -> Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.exp() * y

    faster: Any = torch.compile(broken, backend="aot_eager")
    return faster(x)


def autocast(x: Tensor) -> Tensor:
    with torch.autocast("cpu"):
        return torch.mm(x, x.T)


def several_losses(x: Tensor) -> list[Tensor]:
    trunk = x.exp()
    return [trunk.sin().sum(), trunk.cos().mean(), trunk.detach().sum(), x.sum()]


KINDS: dict[str, Callable[[Tensor], Any]] = {
    "custom, old style": lambda x: applied(Old, x, "text"),
    "custom, new style": lambda x: applied(New, x),
    "custom, once differentiable": lambda x: applied(Once, x),
    "custom, in place": lambda x: applied(InPlace, x * 1).sin(),
    "views that were written into": written_through_views,
    "checkpoint": lambda x: checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False),
    "checkpoint, reentrant": lambda x: checkpoint(lambda x: x.sin().exp(), x, use_reentrant=True),
    "saved-tensor hooks": under_hooks,
    "double backward": double_backward,
    "vmap": torch.vmap(lambda row: applied(New, row).exp()),
    "gradients by func": lambda x: torch.func.grad(lambda x: applied(New, x).sum())(x) * x,
    "hessian by func": torch.func.hessian(lambda x: x.sin().sum()),
    "pushed forward": lambda x: torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),)),
    "compiled": compiled,
    "compiled in parts": compiled_in_parts,
    "foreach": lambda x: torch._foreach_div([x, x * 2], [x.exp(), x + 1]),
    "foreach that hides": lambda x: torch._foreach_mul([x, x * 2], [x.exp(), x + 1]),
    "sparse": lambda x: torch.sparse.mm((x @ x.T).to_sparse(), x),
    "compressed sparse": lambda x: torch.eye(x.shape[0]).to_sparse_csr() @ x,
    "jagged": lambda x: (
        torch.nested.as_nested_tensor([x, 2 * x], layout=torch.jagged).sin().values()
    ),
    "complex": lambda x: torch.view_as_real(torch.complex(x, x.cos()).exp()),
    "subclass": of_a_subclass,
    "hooks on tensors and nodes": with_hooks,
    "several outputs": lambda x: x.unbind()[::2],
    "several losses": several_losses,
    "edges": lambda x: [get_gradient_edge(x.sin()), get_gradient_edge(x)],
    "an output that needs none": lambda x: {"needs": x.exp(), "does not": torch.ones(2)},
    "a leaf": lambda x: x,
    "autocast": autocast,
    "attention": lambda x: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
}


def gradient(outputs: Any, x: Tensor) -> Tensor | None:
    """Give what a backward from all outputs leaves at their input."""
    nest = outputs.values() if isinstance(outputs, dict) else outputs
    flat = [nest] if isinstance(nest, Tensor) else [*nest]
    ends = [end for end in flat if not isinstance(end, Tensor) or end.requires_grad]
    torch.autograd.backward(ends, [torch.ones_like(_tensor(end, x)) for end in ends])
    found, x.grad = x.grad, None
    return found


def _tensor(end: Any, x: Tensor) -> Tensor:
    """Give something of the shape of an output; the edges here are of tensors like their input."""
    return end if isinstance(end, Tensor) else x


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_of_any_kind_is_traced_and_left_as_it_was(kind: str) -> None:
    x = leaf(3, 2)
    undisturbed = gradient(KINDS[kind](x), x)
    outputs = KINDS[kind](x)
    number = torch._C._autograd._get_sequence_nr()
    trace = trace_graph(outputs, names={"x": x})
    found = preflight(outputs, names={"x": x})
    assert torch._C._autograd._get_sequence_nr() == number
    assert "x" in {leaf.leaf_name for leaf in trace.leaves}
    assert not found.may_fail
    assert code_of(x, outputs) is None
    assert GraphTrace.from_json(trace.to_json()) == trace
    for form in (str(trace), trace.to_dot(), trace.to_mermaid(), trace.to_svg(), str(trace.memory)):
        assert form
    assert json.dumps(found.to_dict())
    assert trace_graph(outputs, names={"x": x}) == trace
    torch.testing.assert_close(gradient(outputs, x), undisturbed, rtol=0, atol=0)


# --- Several losses with one trunk


def test_losses_share_the_nodes_of_their_trunk_until_one_of_them_frees_it() -> None:
    x = leaf(3)
    first, second, _, third = several_losses(x)
    trace = trace_graph([first, second, third])
    assert [node.name for node in trace.nodes].count("ExpBackward0") == 1
    assert [root.name for root in trace.roots] == ["SumBackward0", "MeanBackward0", "SumBackward0"]
    first.backward()
    assert [node.name for node in trace_graph(second).nodes if node.is_freed] == ["ExpBackward0"]
    assert preflight(second).will_fail
    assert not preflight(third).may_fail


# --- Hooks of training in parallel


@contextmanager
def alone_in_a_group() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        meeting = (Path(folder) / "meeting").as_uri()
        torch.distributed.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch without distributed")
@pytest.mark.filterwarnings("ignore")
def test_a_model_in_parallel_keeps_its_hooks() -> None:
    model = nn.Linear(2, 2)
    with alone_in_a_group():
        parallel = nn.parallel.DistributedDataParallel(model)
        loss = parallel(torch.ones(1, 2)).sum()
        trace = trace_graph(loss, names=model)
        loss.backward()
        del parallel
    assert [leaf.leaf_name for leaf in trace.leaves] == ["bias", "weight"]
    assert model.weight.grad is not None
    assert torch.equal(model.weight.grad, torch.ones(2, 2))


def test_hooks_on_leaves_run_in_backward_and_not_in_a_trace() -> None:
    x = leaf(2)
    seen: list[str] = []
    x.register_post_accumulate_grad_hook(lambda _: seen.append("accumulated"))
    accumulator: Any = get_gradient_edge(x).node
    accumulator.register_hook(lambda *_: seen.append("on the node"))
    y = (x * 2).sum()
    trace_graph(y, names={"x": x})
    preflight(y, names={"x": x})
    assert seen == []
    y.backward()
    assert sorted(seen) == ["accumulated", "on the node"]
