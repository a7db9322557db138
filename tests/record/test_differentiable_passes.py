"""Which order of derivative each node belongs to, as a recording saw the passes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd.graph import get_gradient_edge

from leafgrad import GraphTrace, record, trace_graph

Loss = Callable[[torch.Tensor], torch.Tensor]


def slope(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def by_backward(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    y.sum().backward(create_graph=True, inputs=[x])
    gradient: Any = x.grad
    x.grad = None
    return gradient  # type: ignore[no-any-return]


def from_an_edge(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    ones: Any = torch.ones_like(y)
    return torch.autograd.grad(get_gradient_edge(y), x, ones, create_graph=True)[0]


def orders(trace: GraphTrace) -> dict[int | None, set[str]]:
    """Return the short names of the nodes of each order."""
    found: dict[int | None, set[str]] = {}
    for node in trace.nodes:
        found.setdefault(node.derivative_order, set()).add(node.name.replace("Backward0", ""))
    return found


def traced(loss: Loss) -> GraphTrace:
    x = torch.full((3,), 0.5, requires_grad=True)
    with record() as recording:
        y = loss(x)
    return trace_graph(y, recording=recording)


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
@pytest.mark.parametrize("derive", [slope, by_backward, from_an_edge])
def test_nodes_of_backward_pass_are_one_order_above_its_graph(
    derive: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> None:
    once = orders(traced(lambda x: derive(x.tanh(), x)))
    assert once[0] == {"AccumulateGrad", "Tanh"}
    assert set(once) == {0, 1}
    twice = orders(traced(lambda x: derive(derive(x.tanh(), x).square(), x)))
    assert twice[0] == {"AccumulateGrad", "Tanh"}
    assert "TanhBackward" in twice[1]
    assert "Mul" in twice[2]


def test_derivative_order_counts_passes_whose_nodes_were_freed() -> None:
    found = orders(traced(lambda x: slope(slope(x**3, x) * 1, x)))
    assert set(found) == {0, 2}
    assert found[0] == {"AccumulateGrad"}


def test_node_has_highest_derivative_order_of_its_inputs() -> None:
    def residual(x: torch.Tensor) -> torch.Tensor:
        first = slope(x.tanh(), x)
        return (x.tanh() * first - slope(first, x)).square().mean()

    trace = traced(residual)
    assert [node.derivative_order for node in trace.nodes[:3]] == [2, 2, 2]
    assert all(
        trace.nodes[edge.target].derivative_order <= trace.nodes[edge.source].derivative_order  # type: ignore[operator]
        for edge in trace.edges
        if edge.target is not None
    )


class Wrapped:
    """Stands in for a tensor that is not PyTorch's own."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, func: Any, _types: Any, args: Any, kwargs: Any) -> Any:
        outputs, inputs = args
        return func([output.tensor for output in outputs], inputs, **kwargs)


def test_grad_of_wrapped_tensor_counts_as_first_derivative() -> None:
    def first(x: torch.Tensor) -> torch.Tensor:
        outputs: Any = [Wrapped(x.tanh().sum())]
        return torch.autograd.grad(outputs, x, create_graph=True)[0]

    assert set(orders(traced(first))) == {0, 1}


def test_passes_without_create_graph_are_not_counted() -> None:
    def trained(x: torch.Tensor) -> torch.Tensor:
        torch.autograd.grad(x.tanh().sum(), x)
        return x.tanh()

    assert set(orders(traced(trained))) == {0}
