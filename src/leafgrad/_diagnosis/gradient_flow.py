"""Predict from the graph which tensors a backward pass gives a gradient, without running it.

Each node is visited once, in the order of the backward pass. What is tracked is not the gradient
but two facts about it: whether it is certain to arrive, and whether it is zero. What a custom
function returns is read from the source of its backward.
"""

import ast
import dis
import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from functools import reduce
from itertools import chain
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._graph.nodes import Source


class GradientKind(Enum):
    """What a custom backward returns for an input: a gradient, None, or unknown."""

    SOME = auto()
    NONE = auto()
    UNKNOWN = auto()


InputGradient = GradientKind | int
"""What an input gets: a kind of gradient, or the gradient of the output with this number."""


class CustomBackward(NamedTuple):
    """What the source of a custom function's backward shows.

    Attributes:
        returned: What it returns for each input; None if the source does not show it.
        fills_in: Whether autograd passes zeros for outputs without a gradient.
        runs_another: Whether the source runs another backward pass or stores a gradient.
        source: Where the backward is defined.
        counted: How many gradients it returns; None if the source does not show it.
    """

    returned: tuple[InputGradient, ...] | None
    fills_in: bool
    runs_another: bool
    source: Source | None
    counted: int | None

    def gradient_of_input(self, number: int, inputs: int) -> InputGradient:
        """Return what the backward returns for the input `number` of `inputs` inputs."""
        is_known = self.returned is not None and len(self.returned) >= inputs
        return self.returned[number] if is_known and self.returned else GradientKind.UNKNOWN

    def lacks_gradients(self, node: Any) -> bool:
        """Return whether the backward is certain to return too few gradients."""
        return self.counted is not None and self.counted < wanted_gradients(node)


def wanted_gradients(node: Any) -> int:
    """Return how many gradients the backward of a custom function's node must return."""
    return len(getattr(node, "needs_input_grad", ()))


def parse_backward(function: type[torch.autograd.Function]) -> CustomBackward:
    """Read the source of a custom function's backward; nothing is run."""
    own: Any = function
    registered = _autograd.registered_backward(function)
    is_renamed = own.vjp is not torch.autograd.Function.vjp
    backward = inspect.unwrap(own.vjp if is_renamed else own.backward)
    backward = registered[0] if registered else backward
    forwards = (inspect.unwrap(own.forward), inspect.unwrap(own.setup_context))
    names = {name for one in forwards for name in _names(getattr(one, "__code__", None))}
    is_filling, is_running = "set_materialize_grads" not in names, _runs_another(backward)
    returned, counted = _returned_gradients(backward)
    if registered:  # The node of a `torch.library` operator has an extra input.
        returned = returned and (*returned, GradientKind.NONE)
        counted = counted and counted + 1
    code: CodeType | None = getattr(backward, "__code__", None)
    if code is None:
        return CustomBackward(returned, is_filling, is_running, None, counted)
    source = Source(file=code.co_filename, line=code.co_firstlineno, function=code.co_qualname)
    return CustomBackward(returned, is_filling, is_running, source, counted)


def _runs_another(function: Any) -> bool:
    """Return whether a function runs a backward pass or stores a gradient.

    The functions of the same module that it calls are read too.
    """
    ahead, seen = [function], set[CodeType]()
    while ahead:
        called = ahead.pop()
        if not isinstance(called, FunctionType) or called.__code__ in seen:
            continue
        seen.add(called.__code__)
        names = {*_names(called.__code__)}
        steps = chain.from_iterable(map(dis.get_instructions, _codes(called.__code__)))
        stores = any(step.opname == "STORE_ATTR" and step.argval == "grad" for step in steps)
        if stores or names & _RUNNING_BACKWARD:
            return True
        known = [called.__globals__.get(name) for name in names]
        ahead += [one for one in known if getattr(one, "__module__", "") == called.__module__]
    return False


_RUNNING_BACKWARD = {"backward", "backward_pass"}


def _names(code: CodeType | None) -> Iterator[str]:
    """Yield the names of globals and attributes that a code object uses."""
    for one in _codes(code):
        yield from one.co_names


def _codes(code: CodeType | None) -> Iterator[CodeType]:
    """Yield a code object and those of the functions defined in it."""
    ahead: list[object] = [code]
    while ahead:
        one = ahead.pop()
        if isinstance(one, CodeType):
            yield one
            ahead += one.co_consts


Returned = tuple[InputGradient, ...] | None


def _returned_gradients(function: Any) -> tuple[Returned, int | None]:
    """Return what the source of a backward returns for each input, and how many gradients.

    Both are None if the source does not show them for certain.
    """
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError):
        return None, None
    if not isinstance(definition, ast.FunctionDef):
        return None, None
    nodes = [*_nodes_of(definition)]
    values = [node.value for node in nodes if isinstance(node, ast.Return)]
    if not values and any(isinstance(node, ast.Raise) for node in nodes):
        return None, None
    stored = [node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store)]
    names = {*map(ast.unparse, stored)}
    gradients = [one.arg for one in definition.args.args[1:]]
    given = {one: number for number, one in enumerate(gradients) if one not in names}
    rest = definition.args.vararg
    ways = {_gradients_of(value, given, rest.arg if rest else "") for value in values or [None]}
    counts = {_count_of(value, given) for value in values or [None]}
    return *(ways if len(ways) == 1 else (None,)), *(counts if len(counts) == 1 else (None,))


def _nodes_of(definition: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the syntax nodes of a function, without those of functions defined in it."""
    ahead: list[ast.AST] = [*definition.body]
    for node in ahead:  # the loop extends the list
        yield node
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            ahead += ast.iter_child_nodes(node)


def _gradients_of(value: ast.expr | None, given: Mapping[str, int], rest: str = "") -> Returned:
    """Return what one ``return`` statement returns for each input; None if unknown.

    Args:
        value: The returned expression.
        given: The number of the output that each gradient argument belongs to.
        rest: The name of the ``*gradients`` argument.
    """
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    others: Iterable[int] = ()
    match parts:
        case [*first, ast.Starred(value=ast.Name(id=name))] if name == rest:
            parts, others = first, range(len(given), MOST_INPUTS)
    is_sure = not any(isinstance(part, ast.Starred) for part in parts)
    return (*(_kind_of(part, given) for part in parts), *others) if is_sure else None


MOST_INPUTS = 256


def _kind_of(value: ast.expr | None, given: Mapping[str, int]) -> InputGradient:
    """Return the number of the output whose gradient an expression is, or another kind.

    `value` is the expression; None stands for ``return`` without one. The other kinds are SOME for
    another tensor, NONE and UNKNOWN. `given` maps argument names to output numbers.
    """
    match value:
        case None | ast.Constant(value=None):
            return GradientKind.NONE
        case ast.Name(id=name) if name in given:
            return given[name]
        case ast.BinOp(op=ast.Mult()) | ast.UnaryOp():
            return GradientKind.SOME
        case ast.Call(func=ast.Attribute(attr=name)) if name in _RETURNING_TENSORS:
            return GradientKind.SOME
    return GradientKind.UNKNOWN


def _count_of(value: ast.expr | None, given: Mapping[str, int]) -> int | None:
    """Return how many gradients one ``return`` statement returns; None if unknown.

    `value` is the expression that it returns, and `given` maps argument names to output numbers.
    """
    match value:
        case ast.Tuple():
            gradients = _gradients_of(value, given)
            return None if gradients is None else len(gradients)
        case None | ast.Constant(value=None):
            return 1
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            kinds = [_kind_of(one, given) for one in (left, right)]
            return 1 if any(isinstance(kind, int) for kind in kinds) else None
        case ast.Name(id=name) if name in given:
            return 1
    return None


_RETURNING_TENSORS = {*dir(torch), *dir(torch.Tensor)} - {"grad", "backward"}


class Arrival(NamedTuple):
    """Whether a gradient is certain to arrive at an output of a node, and whether it is zero.

    Attributes:
        doubt: A node that may pass on no gradient, if every path has such a node. None if the
            gradient is certain to arrive.
        zero: A node that passes on zeros, if every path has such a node; else None.
    """

    doubt: Node | None = None
    zero: Node | None = None


Arrivals = dict[int, Arrival]


class GradientFlow:
    """The outputs of nodes at which a backward pass makes gradients arrive.

    Attributes:
        arrivals: What is known about the gradient at each output of each node.
        unseen: The nodes whose backward may run another backward pass, which the graph does not
            show.
        stopping: The nodes that pass on no gradient to one of their inputs. True if the reason is
            that an output is not used.
        backwards: What the source of each custom function's backward shows.
    """

    def __init__(
        self, edges: Iterable[_autograd.Edge], graph: Mapping[Node, _autograd.Successors]
    ) -> None:
        """Follow the gradients from `edges`; `graph` lists each node before its successors."""
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
        """Return whether the gradient at a graph edge is certain to arrive, and whether it is zero.

        Return None if no gradient arrives.
        """
        return None if edge is None else self.arrivals.get(edge[0], {}).get(edge[1])

    def _add(self, node: Node, number: int, arrival: Arrival) -> None:
        """Add a gradient to the sum that arrives at the output `number` of a node."""
        arrived = self.arrivals.setdefault(node, {})
        known = arrived.get(number)
        arrived[number] = arrival if known is None else _sum_of_two(known, arrival)

    def _propagate(self, node: Node, successors: _autograd.Successors, arrived: Arrivals) -> None:
        """Pass the gradients at the outputs of a node on to its inputs.

        The engine runs every node of the graph, even one at which no gradient arrives.
        """
        is_plain = self._is_plain(node)
        # A compiled backward may return no gradient for an input that the result does not use.
        if arrived and _autograd.is_compiled(node):
            for _, edge in _needed_edges(node, successors):
                self._add(*edge, Arrival(doubt=node))
        elif not is_plain and _autograd.forward_class(node) is not None:
            self._propagate_custom(node, successors, arrived)
        elif arrived and not is_plain and _autograd.lacks_formula(node):
            self.stopping[node] = False
        elif arrived:
            whole = _sum_of_all(arrived)
            for place, (after, number) in enumerate(successors):
                makes_zeros = not is_plain and _autograd.gives_zeros(node, place)
                if after is not None:
                    zero = node if makes_zeros else whole.zero
                    self._add(after, number, Arrival(whole.doubt, zero))

    def _is_plain(self, node: Node) -> bool:
        """Return whether a node is certain to pass on a gradient that is not always zero."""
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
        """Pass gradients on as the source of a custom backward shows."""
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
        """Return which gradients a custom function's backward returns, as its source code shows."""
        function: Any = _autograd.forward_class(node)
        if function not in self._parsed:
            self._parsed[function] = parse_backward(function)
        return self.backwards.setdefault(node, self._parsed[function])


def _is_trusted(node: Node) -> bool:
    """Return whether a custom function of PyTorch or leafgrad always passes gradients on."""
    is_known = _autograd.is_compiled(node) or _autograd.handles_dtensor(node)
    module: str = getattr(_autograd.forward_class(node), "__module__", "")
    # A node that refuses always raises, so no gradient is lost silently.
    return is_known or _autograd.refuses(node) or module.startswith("leafgrad.")


def _needed_edges(
    node: Any, successors: _autograd.Successors
) -> Iterator[tuple[int, _autograd.Edge]]:
    """Yield the number and the edge of each input of a custom function that needs a gradient."""
    needed = (place for place, is_needed in enumerate(node.needs_input_grad) if is_needed)
    edges = ((after, number) for after, number in successors if after is not None)
    return zip(needed, edges, strict=True)


def _sum_of_two(one: Arrival, other: Arrival) -> Arrival:
    """Return whether the sum of two gradients arrives and is zero.

    It is zero or missing only if both gradients are. `one` and `other` are the arrivals of the two.
    """
    return Arrival(one.doubt and other.doubt, one.zero and other.zero)


def _sum_of_all(arrived: Arrivals) -> Arrival:
    """Return whether the sum of the gradients at all outputs of a node arrives and is zero."""
    return reduce(_sum_of_two, arrived.values())


def _arrival_at_input(
    returned: InputGradient, arrived: Arrivals, node: Node, *, fills_in: bool
) -> Arrival | None:
    """Return what arrives at an input of a custom function; None if no gradient does.

    If autograd fills in zeros, the backward is certain to receive a gradient.
    """
    if returned is GradientKind.NONE:
        return None
    if returned is GradientKind.UNKNOWN:
        return Arrival(doubt=node)
    if returned is GradientKind.SOME:
        return Arrival() if fills_in else Arrival(doubt=_sum_of_all(arrived).doubt)
    if not fills_in:
        return arrived.get(returned)
    return Arrival(zero=arrived[returned].zero if returned in arrived else node)
