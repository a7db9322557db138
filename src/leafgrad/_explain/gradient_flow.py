"""What a backward from some outputs would reach, as far as the graph shows it."""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, NamedTuple

from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._explain.custom_backward import CustomBackward, Flow, Handed, read_backward


class Arrival(NamedTuple):
    """How a gradient comes somewhere.

    Attributes:
        doubt: A node that may hand on none, where every path leads through one; None where a
            gradient arrives for sure.
        zero: A node that hands on zeros, where every path leads through one, else None.
    """

    doubt: str | None = None
    zero: str | None = None


Arrivals = dict[int, Arrival]


class GradientFlow:
    """Where the gradients of some outputs come.

    Attributes:
        arrivals: How a gradient comes to the outputs of each node that one comes to.
        unseen: The nodes whose backward seems to run another one, which the graph does not show,
            and their names.
        stopping: The nodes that hand on no gradient to one of their inputs.
    """

    def __init__(
        self, edges: Iterable[_autograd.Edge], graph: Mapping[Node, _autograd.Successors]
    ) -> None:
        """Follow the gradients from some edges; `graph` has each node before those behind it."""
        self.arrivals: dict[Node, Arrivals] = {}
        self.unseen: dict[Node, str] = {}
        self.stopping: list[str] = []
        self._read: dict[type, CustomBackward] = {}
        self._plain: dict[type, bool] = {}
        for node, number in edges:
            self._add(node, number, Arrival())
        for node, successors in graph.items():
            if successors:
                self._follow(node, successors, self.arrivals.get(node, {}))

    def at(self, edge: _autograd.Edge | None) -> Arrival | None:
        """Tell how a gradient comes to an edge, None where none does."""
        return None if edge is None else self.arrivals.get(edge[0], {}).get(edge[1])

    def _add(self, node: Node, number: int, arrival: Arrival) -> None:
        arrived = self.arrivals.setdefault(node, {})
        known = arrived.get(number)
        arrived[number] = arrival if known is None else _either(known, arrival)

    def _follow(self, node: Node, successors: _autograd.Successors, arrived: Arrivals) -> None:
        """Hand on what has come to the outputs of a node.

        The engine runs every node of the graph, also one to which nothing has come.
        """
        is_plain = self._is_plain(node)
        if arrived and _autograd.is_compiled(node):
            self._hand_on_compiled(node, successors, _sum_of(arrived))
        elif not is_plain and _autograd.forward_class(node) is not None:
            self._ask_code(node, successors, arrived)
        elif arrived and is_plain:
            whole = _sum_of(arrived)
            for after, number in successors:
                if after is not None:
                    self._add(after, number, whole)
        elif arrived:
            self._hand_on(node, successors, _sum_of(arrived))

    def _is_plain(self, node: Node) -> bool:
        """Say whether a node hands on what arrives, changed but neither None nor always zero."""
        kind = type(node)
        if kind not in self._plain:
            is_plain = not (
                _autograd.lacks_formula(node)
                or _autograd.may_give_zeros(node)
                or (_autograd.forward_class(node) and not _is_known(node))
            )
            if not _autograd.is_of_its_own_type(node):
                return is_plain
            self._plain[kind] = is_plain
        return self._plain[kind]

    def _hand_on(self, node: Node, successors: _autograd.Successors, whole: Arrival) -> None:
        """Hand on zeros, or nothing, as PyTorch's formula does."""
        if _autograd.lacks_formula(node):
            self.stopping.append(_autograd.node_name(node))
            return
        for place, (after, number) in enumerate(successors):
            zero = _autograd.node_name(node) if _autograd.gives_zeros(node, place) else whole.zero
            if after is not None:
                self._add(after, number, Arrival(whole.doubt, zero))

    def _hand_on_compiled(
        self, node: Any, successors: _autograd.Successors, whole: Arrival
    ) -> None:
        """Hand on what the code that `torch.compile` made returns, as far as it is kept."""
        given = _autograd.compiled_gradients(node)
        needed = node.needs_input_grad
        given = needed if given is None or len(given) != len(needed) else given
        edges = [(after, number) for after, number in successors if after is not None]
        places = [place for place, is_needed in enumerate(needed) if is_needed]
        for place, (after, number) in zip(places, edges, strict=True):
            if given[place]:
                self._add(after, number, whole)
            else:
                self.stopping.append(_autograd.node_name(node))

    def _ask_code(self, node: Any, successors: _autograd.Successors, arrived: Arrivals) -> None:
        """Hand on what the code of a custom function's backward shows."""
        code = self._code_of(node)
        if not (arrived or code.fills_in):
            return
        name = f"{_autograd.node_name(node)}{code.place}"
        if code.runs_another:
            self.unseen[node] = name
        needed = [place for place, is_needed in enumerate(node.needs_input_grad) if is_needed]
        edges = [(after, number) for after, number in successors if after is not None]
        for place, (after, number) in zip(needed, edges, strict=True):
            handed = code.to_input(place, len(node.needs_input_grad))
            arrival = _handed_on(handed, arrived, name, fills_in=code.fills_in)
            if arrival is not None:
                self._add(after, number, arrival)
            elif handed is Flow.NONE:
                self.stopping.append(name)
            else:
                self.stopping.append(f"{name}, for an output that is not used")

    def _code_of(self, node: Node) -> CustomBackward:
        function: Any = _autograd.forward_class(node)
        if function not in self._read:
            self._read[function] = read_backward(function)
        return self._read[function]


def _is_known(node: Node) -> bool:
    """Say whether a custom function is leafgrad's own, or made by `torch.compile`."""
    module: str = getattr(_autograd.forward_class(node), "__module__", "")
    return _autograd.is_compiled(node) or module.startswith("leafgrad.")


def _either(one: Arrival, other: Arrival) -> Arrival:
    """Tell how a gradient comes that is the sum of two."""
    return Arrival(one.doubt and other.doubt, one.zero and other.zero)


def _sum_of(arrived: Arrivals) -> Arrival:
    """Tell how a gradient comes to any output."""
    return reduce(_either, arrived.values())


def _handed_on(handed: Handed, arrived: Arrivals, name: str, *, fills_in: bool) -> Arrival | None:
    """Tell what comes to an input of a custom function, None where nothing does.

    Where zeros are filled in, the function is sure to get a gradient.
    """
    if handed is Flow.NONE:
        return None
    if handed is Flow.UNKNOWN:
        return Arrival(doubt=name)
    if handed is Flow.SOME:
        return Arrival() if fills_in else Arrival(doubt=_sum_of(arrived).doubt)
    if not fills_in:
        return arrived.get(handed)
    return Arrival(zero=arrived[handed].zero if handed in arrived else name)
