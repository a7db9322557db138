"""The forward values of a traced graph: what was recorded, what is at hand, what nodes saved."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._log import Log
from leafgrad._summary import TensorSummary, summary_of
from leafgrad._traced import TracedNode

Nodes = tuple[TracedNode, ...]
Graph = Mapping[Node, _autograd.Successors]
Output = tuple[Node, int]


def with_values(nodes: Nodes, graph: Graph, tensors: Iterable[torch.Tensor], log: Log) -> Nodes:
    """Give each node what its operation made, as far as that can be had without computing it.

    What was recorded wins: a tensor at hand may have been written into since, out of autograd's
    sight.
    """
    found: dict[Output, TensorSummary | None] = {}
    for node in graph:
        number = _autograd.sequence_nr(node)
        for output in range(len(_autograd.forward_outputs(node))):
            if number is not None and (number, output) in log.values:
                found[node, output] = log.values[number, output]
    for node, output, tensor in [*_at_hand(graph, tensors), *_saved(graph)]:
        if node in graph and (node, output) not in found:
            found[node, output] = summary_of(tensor)
    valued = [
        replace(traced, values=tuple(found.get((node, n)) for n in range(len(traced.shapes))))
        for node, traced in zip(graph, nodes, strict=True)
    ]
    return tuple(replace(node, value_turns=_turns(node, valued)) for node in valued)


def _at_hand(
    graph: Graph, tensors: Iterable[torch.Tensor]
) -> Iterator[tuple[Node, int, torch.Tensor]]:
    for node in graph:
        leaf = _autograd.leaf_variable(node)
        if leaf is not None:
            yield node, 0, leaf
    for tensor in tensors:
        maker = _autograd.plain(tensor, "grad_fn")
        if maker is not None:
            yield maker, _autograd.plain(tensor, "output_nr"), tensor


def _saved(graph: Graph) -> Iterator[tuple[Node, int, torch.Tensor]]:
    for node in graph:
        yield from _autograd.results_in_slots(node)


def _turns(node: TracedNode, nodes: list[TracedNode]) -> bool:
    """Say whether a value is not finite at the node, and all that came from other nodes is."""
    given = [
        nodes[edge.target].values[edge.input_nr] for edge in node.edges if edge.target is not None
    ]
    return any(v is not None and not v.is_finite for v in node.values) and all(
        v is not None and v.is_finite for v in given
    )
