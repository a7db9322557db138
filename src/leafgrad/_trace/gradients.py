"""Add the gradients of a real backward pass to a traced graph."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, Node

from leafgrad import _autograd
from leafgrad._arguments.outputs import Output, gradient_edges
from leafgrad._graph.nodes import TracedNode
from leafgrad._graph.summary import TensorSummary, summary_of
from leafgrad._messages import message
from leafgrad._trace.not_finite_turns import mark_gradient_turns

Nodes = tuple[TracedNode, ...]
Weights = torch.Tensor | Sequence[torch.Tensor | None] | None
Summaries = tuple[TensorSummary | None, ...]


def add_gradients(
    nodes: Nodes,
    roots: Collection[int],
    graph: _autograd.LiveGraph,
    ends: Sequence[Output],
    given: Weights,
) -> Nodes:
    """Run one backward pass and return the nodes with the gradients at each node and edge.

    Args:
        nodes: The traced nodes.
        roots: The indices of the nodes where the pass starts.
        graph: The live nodes with their successors, in the same order.
        ends: The outputs that the pass starts from.
        given: The gradients of these outputs, as in `trace_graph`.
    """
    starts: list[Any] = [end for end in ends if gradient_edges([end])]
    weights = _weights(starts, given)
    _check_weights(starts, weights)
    seen = _BackwardRecorder(graph)
    seen.start(starts, weights)
    sinks = [
        (node, output)
        for node, after in graph.items()
        if all(successor is None for successor, _ in after)
        for output in range(len(_autograd.forward_outputs(node)))
    ]
    with (
        _autograd.preserve_retained_grads(),
        _autograd.preserve_checkpoint_caches(graph),
        _autograd.postpone_static_graph_setup(graph),
        _autograd.preserve_donated_buffers(graph),
        _autograd.watch_nodes(graph, seen.visit),
    ):
        edges = [GradientEdge(*sink) for sink in sinks]
        arrived = torch.autograd.grad(starts, edges, weights, retain_graph=True, allow_unused=True)
        seen.end(sinks, arrived)
    annotated = [seen.annotate(node, traced) for node, traced in zip(graph, nodes, strict=True)]
    return tuple(mark_gradient_turns(annotated, roots))


def _weights(starts: Sequence[Output], given: Weights) -> list[torch.Tensor]:
    """Return the gradient that each output starts with: the given one, or 1 for a single number."""
    weights = [None] * len(starts) if given is None else given
    weights = [weights] if isinstance(weights, torch.Tensor) else [*weights]
    if len(weights) != len(starts):
        came = len(weights)
        raise ValueError(message("errors.grad-outputs.count", count=len(starts), came=came))
    pairs = zip(starts, weights, strict=True)
    return [_unit_gradient(start) if weight is None else weight for start, weight in pairs]


def _check_weights(starts: Sequence[Output], weights: Sequence[object]) -> None:
    """Raise an error if the gradient of an output is no tensor, has another shape or no memory."""
    for number, (start, weight) in enumerate(zip(starts, weights, strict=True)):
        ((node, output_nr),) = gradient_edges([start])
        wanted = _autograd.forward_outputs(node)[output_nr].shape
        place = {"number": number, "shape": wanted}
        if not isinstance(weight, torch.Tensor):
            kind = type(weight).__name__
            raise TypeError(message("errors.grad-outputs.type", type=kind, **place))
        if lack := _autograd.lacking_memory(weight):  # Reading the tensor would kill the process.
            raise ValueError(message("errors.grad-outputs.memory", lack=lack, **place))
        if wanted is not None and _autograd.shape(weight) != wanted:
            came = _autograd.shape(weight)
            raise ValueError(message("errors.grad-outputs.shape", came=came, **place))


def _unit_gradient(start: Output) -> torch.Tensor:
    """Return the gradient 1 for `start`, an output with a single real number.

    Raise an error for other outputs.
    """
    if isinstance(start, torch.Tensor) and start.numel() == 1 and not start.is_complex():
        return torch.ones_like(start, requires_grad=False)
    came = message("errors.grad-outputs.root-edge")
    if isinstance(start, torch.Tensor):
        facts = {"dtype": start.dtype, "shape": tuple(start.shape)}
        came = message("errors.grad-outputs.root-tensor", **facts)
    raise ValueError(message("errors.grad-outputs.root", what=came))


class _BackwardRecorder:
    """Records the gradients of a backward pass while it runs.

    The engine shows a sum of gradients only when it is complete. Therefore the gradients that
    arrive at the same output are added here as well, in the order of their arrival.
    """

    def __init__(self, graph: _autograd.LiveGraph) -> None:
        self.graph = graph
        self.order: dict[Node, int] = {}
        self.arrived: dict[Node, Summaries] = {}
        self.passed: dict[_autograd.Edge, tuple[TensorSummary | None, TensorSummary | None]] = {}
        self.waiting: dict[_autograd.Edge, tuple[torch.Tensor, TensorSummary | None]] = {}

    def start(self, starts: Sequence[Output], weights: Sequence[torch.Tensor]) -> None:
        """Record the gradients that the pass starts with."""
        for start, weight in zip(starts, weights, strict=True):
            (end,) = gradient_edges([start])
            self._add(end, weight.detach())

    def visit(self, node: Node, passed: _autograd.Gradients, arrived: _autograd.Gradients) -> None:
        """Record the gradients that arrive at a node and those it passes on (none for a leaf)."""
        self.order[node] = len(self.order)
        summaries = []
        for output, gradient in enumerate(arrived):
            # The gradient is usually the last sum, whose summary is known.
            total, summary = self.waiting.pop((node, output), (None, None))
            summaries.append(summary if total is gradient else _summarize(gradient))
        self.arrived[node] = tuple(summaries)
        edges = zip(self.graph[node], passed, strict=bool(passed))
        for number, ((successor, input_nr), gradient) in enumerate(edges):
            if successor is not None and gradient is not None:
                self.passed[node, number] = self._add((successor, input_nr), gradient)

    def _add(
        self, end: _autograd.Edge, gradient: torch.Tensor
    ) -> tuple[TensorSummary | None, TensorSummary | None]:
        """Add a gradient to the earlier gradients that arrived at the edge `end`.

        Return the summaries of the gradient and of the sum.
        """
        summary = so_far = summary_of(gradient)
        total = gradient
        if end in self.waiting:
            total = self.waiting[end][0] + gradient
            so_far = summary_of(total)
        self.waiting[end] = total, so_far
        return summary, so_far

    def end(self, sinks: Sequence[_autograd.Edge], arrived: _autograd.Gradients) -> None:
        """Record the gradients that arrive at nodes where the pass ends without a visit."""
        at: dict[Node, list[TensorSummary | None]] = {}
        for (node, _), gradient in zip(sinks, arrived, strict=True):
            if node not in self.order:
                at.setdefault(node, []).append(_summarize(gradient))
        self.arrived.update({node: tuple(summaries) for node, summaries in at.items()})

    def annotate(self, node: Node, traced: TracedNode) -> TracedNode:
        """Return a traced node with the recorded gradients at it and at its edges."""
        edges = []
        for edge in traced.edges:
            gradient, so_far = self.passed.get((node, edge.output_nr), (None, None))
            edges.append(replace(edge, gradient=gradient, gradient_so_far=so_far))
        arrived = self.arrived.get(node, (None,) * len(traced.shapes))
        visited = self.order.get(node)
        return replace(traced, edges=tuple(edges), gradients=arrived, visited=visited)


def _summarize(gradient: torch.Tensor | None) -> TensorSummary | None:
    """Return the summary of a gradient, None if there is no gradient."""
    return None if gradient is None else summary_of(gradient)
