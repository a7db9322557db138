"""Add the values of forward operations to a traced graph, without computing anything."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._graph.nodes import TracedNode
from leafgrad._graph.summary import TensorSummary, summary_of
from leafgrad._record.log import Given, Log
from leafgrad._trace.not_finite_turns import mark_value_turns

Nodes = tuple[TracedNode, ...]
AtHand = Sequence[tuple[str | None, torch.Tensor]]  # named tensors, and outputs without a name


def add_values(
    nodes: Nodes, roots: Iterable[int], graph: _autograd.LiveGraph, tensors: AtHand, log: Log
) -> Nodes:
    """Return the nodes with all values that can be read without computing anything.

    Recorded values have priority: a tensor may have been changed since without a new version.

    Args:
        nodes: The traced nodes.
        roots: The indices of the roots.
        graph: The live nodes with their successors, in the same order.
        tensors: The outputs and the named tensors.
        log: What a recording saw.
    """
    numbered = {_autograd.sequence_nr(node): node for node in graph}
    summaries: dict[_autograd.Edge, TensorSummary | None] = {
        (numbered[number], output): summary
        for (number, output), summary in log.values.items()
        if number in numbered
    }
    for node, output, tensor in _tensors_at_hand(graph, tensors):
        if node in graph and (node, output) not in summaries:
            summaries[node, output] = summary_of(tensor)
    valued = [
        replace(traced, values=tuple(summaries.get((node, n)) for n in range(len(traced.shapes))))
        for node, traced in zip(graph, nodes, strict=True)
    ]
    recorded = dict(_given_not_finite(graph, tensors, log)) if log.values else {}
    return tuple(mark_value_turns(valued, roots, recorded))


def _given_not_finite(
    graph: _autograd.LiveGraph, tensors: AtHand, log: Log
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the index of each recorded node, with the names of its non-finite arguments."""
    recorded = {number for number, _ in log.values}
    for index, node in enumerate(graph):
        number = _autograd.sequence_nr(node)
        if number is not None:
            arguments = log.given_to(number)
            if arguments is not None or number in recorded:
                names = (argument_name(argument, tensors) for argument in arguments or ())
                yield index, (*dict.fromkeys(names),)


def argument_name(argument: Given, tensors: AtHand) -> str:
    """Return the name of an argument's tensor; if it has none, the position of the argument."""
    tensor = argument.tensor()
    memory = None if tensor is None else _autograd.storage(tensor)
    for name, named in tensors:
        if name is not None and memory is not None and _autograd.storage(named) == memory:
            return name
    return argument.argument


def _tensors_at_hand(
    graph: _autograd.LiveGraph, tensors: AtHand
) -> Iterator[tuple[Node, int, torch.Tensor]]:
    """Yield node, output number and tensor of leaves, named tensors and saved results."""
    for node in graph:
        leaf = _autograd.leaf_variable(node)
        if leaf is not None:
            yield node, 0, leaf
    for _, tensor in tensors:
        maker = _autograd.plain(tensor, "grad_fn")
        if maker is not None:
            yield maker, _autograd.plain(tensor, "output_nr"), tensor
    for node in graph:
        yield from _autograd.results_in_slots(node)
