"""What the backward of a custom function returns for each input, as far as its source shows.

Nothing is run: its source is parsed. An input for which it returns None gets no gradient, nor does
what lies behind. Where the source does not show it, that is said.
"""

import ast
import dis
import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from itertools import chain
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch

from leafgrad._graph.nodes import Source


class GradientKind(Enum):
    """What a backward returns for an input: a gradient, None, or what its source does not show."""

    SOME = auto()
    NONE = auto()
    UNKNOWN = auto()


InputGradient = GradientKind | int
"""What an input gets: a kind, or whatever arrived at the output of this number."""


class CustomBackward(NamedTuple):
    """What is known of a custom function's backward.

    Attributes:
        returned: What the inputs get, in order; None where the source does not show it.
        fills_in: Whether zeros stand in for the gradient of an output that has none.
        runs_another: Whether it speaks of running another backward, or of storing a gradient.
        source: Where it is written.
        counted: How many gradients it returns; None where its source does not show it for sure.
    """

    returned: tuple[InputGradient, ...] | None
    fills_in: bool
    runs_another: bool
    source: Source | None
    counted: int | None

    def gradient_of_input(self, number: int, inputs: int) -> InputGradient:
        """Return what the input of this number gets, of so many inputs."""
        is_known = self.returned is not None and len(self.returned) >= inputs
        return self.returned[number] if is_known and self.returned else GradientKind.UNKNOWN

    def lacks_gradients(self, node: Any) -> bool:
        """Return whether it is sure to return fewer gradients than a node has inputs."""
        return self.counted is not None and self.counted < wanted_gradients(node)


def wanted_gradients(node: Any) -> int:
    """Return how many inputs a custom function has: its backward returns as many gradients."""
    return len(getattr(node, "needs_input_grad", ()))


def parse_backward(function: type[torch.autograd.Function]) -> CustomBackward:
    """Return what the source of a custom function shows of its backward."""
    own: Any = function
    is_renamed = own.vjp is not torch.autograd.Function.vjp
    backward = inspect.unwrap(own.vjp if is_renamed else own.backward)
    forwards = (inspect.unwrap(own.forward), inspect.unwrap(own.setup_context))
    names = {name for one in forwards for name in _names(getattr(one, "__code__", None))}
    is_filling, is_running = "set_materialize_grads" not in names, _runs_another(backward)
    returned, counted = _returned(backward)
    code: CodeType | None = getattr(backward, "__code__", None)
    if code is None:
        return CustomBackward(returned, is_filling, is_running, None, counted)
    source = Source(file=code.co_filename, line=code.co_firstlineno, function=code.co_qualname)
    return CustomBackward(returned, is_filling, is_running, source, counted)


def _runs_another(function: Any) -> bool:
    """Return whether a function, or one of its file that it calls, speaks of a backward."""
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
    """Yield the names of globals and attributes in some code."""
    for one in _codes(code):
        yield from one.co_names


def _codes(code: CodeType | None) -> Iterator[CodeType]:
    """Yield some code, and that of the functions in it."""
    ahead: list[object] = [code]
    while ahead:
        one = ahead.pop()
        if isinstance(one, CodeType):
            yield one
            ahead += one.co_consts


Returned = tuple[InputGradient, ...] | None


def _returned(function: Any) -> tuple[Returned, int | None]:
    """Return what a backward returns for each input, and how many gradients, if that is sure."""
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
    """Yield what is in a function, but not in the functions in it."""
    ahead: list[ast.AST] = [*definition.body]
    for node in ahead:  # which grows
        yield node
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            ahead += ast.iter_child_nodes(node)


def _gradients_of(value: ast.expr | None, given: Mapping[str, int], rest: str = "") -> Returned:
    """Return what one ``return`` gives to the inputs; ``*rest`` stands for all further outputs."""
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    others: Iterable[int] = ()
    match parts:
        case [*first, ast.Starred(value=ast.Name(id=name))] if name == rest:
            parts, others = first, range(len(given), MOST_INPUTS)
    is_sure = not any(isinstance(part, ast.Starred) for part in parts)
    return (*(_kind_of(part, given) for part in parts), *others) if is_sure else None


MOST_INPUTS = 256


def _kind_of(value: ast.expr | None, given: Mapping[str, int]) -> InputGradient:
    """Return whether an expression is a gradient or None."""
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
    """Return how many gradients one ``return`` gives; None where that is not clear."""
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
