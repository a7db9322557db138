"""Where a backward from some outputs brings gradients, as far as the graph shows it.

Each node is interpreted once, in the order of backward, with what is known of a gradient in place
of the gradient: whether one comes for sure, and whether it is zero.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, NamedTuple

from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._diagnosis.custom_backward import (
    CustomBackward,
    GradientKind,
    InputGradient,
    parse_backward,
)


class Arrival(NamedTuple):
    """How a gradient comes somewhere.

    Attributes:
        doubt: A node that may pass on none, if every path leads through one; None if a gradient
            arrives for sure.
        zero: A node that passes on zeros, if every path leads through one, else None.
    """

    doubt: Node | None = None
    zero: Node | None = None


Arrivals = dict[int, Arrival]


class GradientFlow:
    """Where the gradients of some outputs come.

    Attributes:
        arrivals: How a gradient comes to the outputs of each node that one comes to.
        unseen: The nodes whose backward seems to run another one, which the graph does not show.
        stopping: The nodes that pass on no gradient to one of their inputs; True if that is because
            an output is not used.
        backwards: What is known of the backward of each custom function.
    """

    def __init__(
        self, edges: Iterable[_autograd.Edge], graph: Mapping[Node, _autograd.Successors]
    ) -> None:
        """Follow the gradients from some edges; `graph` has each node before those behind it."""
        self.arrivals: dict[Node, Arrivals] = {}
        self.unseen: list[Node] = []
        self.stopping: dict[Node, bool] = {}
        self.backwards: dict[Node, CustomBackward] = {}
        self._parsed: dict[type, CustomBackward] = {}
        self._plain_types: dict[type, bool] = {}
        for node, number in edges:
            self._add(node, number, Arrival())
        for node, successors in graph.items():
            if successors:
                self._propagate(node, successors, self.arrivals.get(node, {}))

    def at(self, edge: _autograd.Edge | None) -> Arrival | None:
        """Return how a gradient comes to an edge, None where none does."""
        return None if edge is None else self.arrivals.get(edge[0], {}).get(edge[1])

    def _add(self, node: Node, number: int, arrival: Arrival) -> None:
        arrived = self.arrivals.setdefault(node, {})
        known = arrived.get(number)
        arrived[number] = arrival if known is None else _either(known, arrival)

    def _propagate(self, node: Node, successors: _autograd.Successors, arrived: Arrivals) -> None:
        """Pass on to its inputs what has come to the outputs of a node.

        The engine runs every node of the graph, also one to which nothing has come.
        """
        is_plain = self._is_plain(node)
        if arrived and _autograd.is_compiled(node):  # its inputs that it does not use get none
            for _, edge in _needed_edges(node, successors):
                self._add(*edge, Arrival(doubt=node))
        elif not is_plain and _autograd.forward_class(node) is not None:
            self._propagate_custom(node, successors, arrived)
        elif arrived and not is_plain and _autograd.lacks_formula(node):
            self.stopping[node] = False
        elif arrived:
            whole = _merged(arrived)
            for place, (after, number) in enumerate(successors):
                makes_zeros = not is_plain and _autograd.gives_zeros(node, place)
                if after is not None:
                    zero = node if makes_zeros else whole.zero
                    self._add(after, number, Arrival(whole.doubt, zero))

    def _is_plain(self, node: Node) -> bool:
        """Return whether a node passes on what arrives: changed, but not None nor always zero."""
        kind = type(node)
        if kind not in self._plain_types:
            is_plain = not (
                _autograd.lacks_formula(node)
                or _autograd.may_give_zeros(node)
                or (_autograd.forward_class(node) and not _is_trusted(node))
            )
            if not _autograd.is_of_its_own_type(node):
                return is_plain
            self._plain_types[kind] = is_plain
        return self._plain_types[kind]

    def _propagate_custom(
        self, node: Any, successors: _autograd.Successors, arrived: Arrivals
    ) -> None:
        """Pass on what the source of a custom function's backward shows."""
        code = self._backward_of(node)
        if not (arrived or code.fills_in):
            return
        wanted = len(node.needs_input_grad)
        if code.runs_another:
            self.unseen.append(node)
        for place, (after, number) in _needed_edges(node, successors):
            returned = code.gradient_of_input(place, wanted)
            arrival = _arrival_at_input(returned, arrived, node, fills_in=code.fills_in)
            if arrival is not None:
                self._add(after, number, arrival)
            else:
                self.stopping[node] = returned is not GradientKind.NONE

    def _backward_of(self, node: Node) -> CustomBackward:
        function: Any = _autograd.forward_class(node)
        if function not in self._parsed:
            self._parsed[function] = parse_backward(function)
        return self.backwards.setdefault(node, self._parsed[function])


def _is_trusted(node: Node) -> bool:
    """Return whether a custom function is leafgrad's own, or one of PyTorch's that hands on."""
    is_known = _autograd.is_compiled(node) or _autograd.handles_dtensor(node)
    module: str = getattr(_autograd.forward_class(node), "__module__", "")
    # A node that refuses raises whatever arrives.
    return is_known or _autograd.refuses(node) or module.startswith("leafgrad.")


def _needed_edges(
    node: Any, successors: _autograd.Successors
) -> Iterator[tuple[int, _autograd.Edge]]:
    """Yield which inputs of a custom function need a gradient, and where it goes on to."""
    needed = (place for place, is_needed in enumerate(node.needs_input_grad) if is_needed)
    edges = ((after, number) for after, number in successors if after is not None)
    return zip(needed, edges, strict=True)


def _either(one: Arrival, other: Arrival) -> Arrival:
    """Return how a gradient comes that is the sum of two."""
    return Arrival(one.doubt and other.doubt, one.zero and other.zero)


def _merged(arrived: Arrivals) -> Arrival:
    """Return how a gradient comes that is the sum of those at all outputs."""
    return reduce(_either, arrived.values())


def _arrival_at_input(
    returned: InputGradient, arrived: Arrivals, node: Node, *, fills_in: bool
) -> Arrival | None:
    """Return what comes to an input of a custom function, None where nothing does.

    Where zeros are filled in, the function is sure to get a gradient.
    """
    if returned is GradientKind.NONE:
        return None
    if returned is GradientKind.UNKNOWN:
        return Arrival(doubt=node)
    if returned is GradientKind.SOME:
        return Arrival() if fills_in else Arrival(doubt=_merged(arrived).doubt)
    if not fills_in:
        return arrived.get(returned)
    return Arrival(zero=arrived[returned].zero if returned in arrived else node)
