"""The forward values of a traced graph: what was recorded, what is at hand, what nodes saved."""

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
AtHand = Sequence[tuple[str | None, torch.Tensor]]  # with their names, if any


def add_values(
    nodes: Nodes, roots: Iterable[int], graph: _autograd.LiveGraph, tensors: AtHand, log: Log
) -> Nodes:
    """Return the nodes with what their operations made, where nothing has to be computed for it.

    What was recorded wins: a tensor at hand may have been written into since, out of autograd's
    sight.
    """
    found: dict[_autograd.Edge, TensorSummary | None] = {}
    for node in graph:
        number = _autograd.sequence_nr(node)
        for output in range(len(_autograd.forward_outputs(node))):
            if number is not None and (number, output) in log.values:
                found[node, output] = log.values[number, output]
    at_hand = [tensor for _, tensor in tensors]
    for node, output, tensor in _tensors_at_hand(graph, at_hand):
        if node in graph and (node, output) not in found:
            found[node, output] = summary_of(tensor)
    valued = [
        replace(traced, values=tuple(found.get((node, n)) for n in range(len(traced.shapes))))
        for node, traced in zip(graph, nodes, strict=True)
    ]
    recorded = dict(_given_not_finite(graph, tensors, log)) if log.values else {}
    return tuple(mark_value_turns(valued, roots, recorded))


def _given_not_finite(
    graph: _autograd.LiveGraph, tensors: AtHand, log: Log
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield each node that a recording summed up, with what it was given that is not finite."""
    made = {number for number, _ in log.values}
    for place, node in enumerate(graph):
        number = _autograd.sequence_nr(node)
        if number is not None:
            given = log.given_to(number)
            if given is not None or number in made:
                yield place, (*dict.fromkeys(argument_name(one, tensors) for one in given or ()),)


def argument_name(given: Given, tensors: AtHand) -> str:
    """Return the name of a tensor that was given, if it has one; else where it was given."""
    tensor = given.tensor()
    memory = None if tensor is None else _autograd.storage(tensor)
    for name, named in tensors:
        if name is not None and memory is not None and _autograd.storage(named) == memory:
            return name
    return given.argument


def _tensors_at_hand(
    graph: _autograd.LiveGraph, tensors: Iterable[torch.Tensor]
) -> Iterator[tuple[Node, int, torch.Tensor]]:
    """Yield the leaves, the tensors that were made by a node, and the results that nodes saved."""
    for node in graph:
        leaf = _autograd.leaf_variable(node)
        if leaf is not None:
            yield node, 0, leaf
    for tensor in tensors:
        maker = _autograd.plain(tensor, "grad_fn")
        if maker is not None:
            yield maker, _autograd.plain(tensor, "output_nr"), tensor
    for node in graph:
        yield from _autograd.results_in_slots(node)
