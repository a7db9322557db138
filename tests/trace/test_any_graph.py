"""Traces of unusual graphs."""

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge, save_on_cpu, saved_tensors_hooks
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import checkpoint

from leafgrad import diagnose, trace_graph
from tests.diagnosis.programs import FAILING, code_of
from tests.tensors import outcome_of


def leaf(*shape: int) -> Tensor:
    numbers = torch.arange(1, 1 + torch.Size(shape).numel(), dtype=torch.float32)
    return (numbers / 10).reshape(shape).requires_grad_()


class Old(torch.autograd.Function):
    """A combined forward that saves None and returns an output without gradient."""

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
    """A separate setup_context, as vmap needs it."""

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


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return 2 * gradients[0]


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


def several_losses(x: Tensor) -> list[Tensor]:
    trunk = x.exp()
    return [trunk.sin().sum(), trunk.cos().mean(), trunk.detach().sum(), x.sum()]


KINDS: dict[str, Callable[[Tensor], Any]] = {
    "custom, old style": lambda x: outcome_of(Old, x, "text"),
    "custom, new style": lambda x: outcome_of(New, x),
    "custom, in place": lambda x: outcome_of(InPlace, x * 1).sin(),
    "views that were written into": written_through_views,
    "checkpoint": lambda x: checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False),
    "checkpoint, reentrant": lambda x: checkpoint(lambda x: x.sin().exp(), x, use_reentrant=True),
    "saved-tensor hooks": under_hooks,
    "double backward": double_backward,
    "vmap": torch.vmap(lambda row: outcome_of(New, row).exp()),
    "gradients by func": lambda x: torch.func.grad(lambda x: outcome_of(New, x).sum())(x) * x,
    "compiled": compiled,
    "foreach": lambda x: torch._foreach_div([x, x * 2], [x.exp(), x + 1]),
    "foreach that hides": lambda x: torch._foreach_mul([x, x * 2], [x.exp(), x + 1]),
    "sparse": lambda x: torch.sparse.mm((x @ x.T).to_sparse(), x),
    "jagged": lambda x: (
        torch.nested.as_nested_tensor([x, 2 * x], layout=torch.jagged).sin().values()
    ),
    "complex": lambda x: torch.view_as_real(torch.complex(x, x.cos()).exp()),
    "subclass": of_a_subclass,
    "hooks on tensors and nodes": with_hooks,
    "several losses": several_losses,
    "edges": lambda x: [get_gradient_edge(x.sin()), get_gradient_edge(x)],
    "an output that needs none": lambda x: {"needs": x.exp(), "does not": torch.ones(2)},
    "attention": lambda x: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
}


def gradient(outputs: Any, x: Tensor) -> Tensor | None:
    """Return the gradient of the input after backward from all outputs."""
    nest = outputs.values() if isinstance(outputs, dict) else outputs
    flat = [nest] if isinstance(nest, Tensor) else [*nest]
    ends = [end for end in flat if not isinstance(end, Tensor) or end.requires_grad]
    torch.autograd.backward(ends, [torch.ones_like(_tensor(end, x)) for end in ends])
    found, x.grad = x.grad, None
    return found


def _tensor(end: Any, x: Tensor) -> Tensor:
    """Return `end` if it is a tensor, and otherwise `x`, which has the same shape."""
    return end if isinstance(end, Tensor) else x


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_trace_leaves_graph_of_any_kind_unchanged(kind: str) -> None:
    x = leaf(3, 2)
    undisturbed = gradient(KINDS[kind](x), x)
    outputs = KINDS[kind](x)
    number = torch._C._autograd._get_sequence_nr()
    trace = trace_graph(outputs, names={"x": x})
    found = diagnose(outputs, {"x": x})
    assert torch._C._autograd._get_sequence_nr() == number
    assert "x" in {leaf.leaf_name for leaf in trace.leaves}
    assert FAILING.isdisjoint(found.codes)
    assert code_of(x, outputs) is None
    assert pickle.loads(pickle.dumps(trace)) == trace
    for form in (str(trace), trace.to_svg(), str(trace.memory)):
        assert form
    assert json.dumps(found.to_dict())
    assert trace_graph(outputs, names={"x": x}) == trace
    torch.testing.assert_close(gradient(outputs, x), undisturbed, rtol=0, atol=0)


# --- Several losses that share a trunk


def test_backward_of_one_loss_frees_the_nodes_that_others_share() -> None:
    x = leaf(3)
    first, second, _, third = several_losses(x)
    trace = trace_graph([first, second, third])
    assert [node.name for node in trace.nodes].count("ExpBackward0") == 1
    assert [root.name for root in trace.roots] == ["SumBackward0", "MeanBackward0", "SumBackward0"]
    first.backward()
    assert [node.name for node in trace_graph(second).nodes if node.is_freed] == ["ExpBackward0"]
    assert diagnose(second).codes == ("freed",)
    assert diagnose(third).ok
