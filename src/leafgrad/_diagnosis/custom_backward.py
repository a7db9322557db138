"""What the backward of a custom function returns for each input, as far as its source shows.

Nothing is run: its source is parsed. An input for which it returns None gets no gradient, nor does
what lies behind. Where the source does not show it, that is said.
"""

import ast
import dis
import inspect
import textwrap
from collections.abc import Iterator
from enum import Enum, auto
from itertools import chain
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch

from leafgrad import _autograd
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
        passes_rest: The first of the outputs whose gradients ``*grads`` returns for the remaining
            inputs as they arrived, None if it does not.
        fills_in: Whether zeros stand in for the gradient of an output that has none.
        runs_another: Whether it speaks of running another backward, or of storing a gradient.
        source: Where it is written.
        counted: How many gradients it returns; None where its source does not show it for sure.
    """

    returned: tuple[InputGradient, ...] | None
    passes_rest: int | None
    fills_in: bool
    runs_another: bool
    source: Source | None
    counted: int | None

    def gradient_of_input(self, number: int, inputs: int) -> InputGradient:
        """Return what the input of this number gets, of so many inputs."""
        if self.returned is None:
            return GradientKind.UNKNOWN
        if self.passes_rest is not None and number >= len(self.returned):
            return self.passes_rest + number - len(self.returned)
        is_whole = self.passes_rest is not None or len(self.returned) >= inputs
        return self.returned[number] if is_whole else GradientKind.UNKNOWN


def parse_backward(function: type[torch.autograd.Function]) -> CustomBackward:
    """Return what the source of a custom function shows of its backward."""
    own: Any = function
    registered = _autograd.registered_backward(function)
    if registered is not None:
        return _parse_registered(registered[0])
    is_renamed = own.vjp is not torch.autograd.Function.vjp
    backward = inspect.unwrap(own.vjp if is_renamed else own.backward)
    code = getattr(backward, "__code__", None)
    forwards = (inspect.unwrap(own.forward), inspect.unwrap(own.setup_context))
    names = {name for one in forwards for name in _names(getattr(one, "__code__", None))}
    returned, passes_rest, counted = _returned(backward)
    return CustomBackward(
        returned=returned,
        passes_rest=passes_rest,
        fills_in="set_materialize_grads" not in names,
        runs_another=_runs_another(backward),
        source=_source_of(code),
        counted=counted,
    )


def _parse_registered(backward: Any) -> CustomBackward:
    """Return the same for an operator of `torch.library`, whose node has one input more."""
    returned, passes_rest, counted = _returned(backward)
    code = getattr(backward, "__code__", None)
    return CustomBackward(
        returned=None if returned is None else (*returned, GradientKind.NONE),
        passes_rest=passes_rest,
        fills_in=True,
        runs_another=backward is not None and _runs_another(backward),
        source=_source_of(code),
        counted=None if counted is None else counted + 1,
    )


def _source_of(code: CodeType | None) -> Source | None:
    if code is None:
        return None
    return Source(file=code.co_filename, line=code.co_firstlineno, function=code.co_qualname)


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


Returned = tuple[tuple[InputGradient, ...] | None, int | None]


def _returned(function: object) -> tuple[*Returned, int | None]:
    """Return what a backward returns for each input, from which output on the rest, how many."""
    definition = _parse(function)
    if definition is None:
        return None, None, None
    body = _Body(definition)
    ways = {body.gradients_of(value) for value in body.returned}
    counts = {body.count_of(value) for value in body.returned}
    counted = counts.pop() if len(counts) == 1 else None
    return (*ways.pop(), counted) if len(ways) == 1 else (None, None, counted)


def _parse(function: Any) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None
    definition = tree.body[0]
    return definition if isinstance(definition, ast.FunctionDef) else None


class _Body:
    """The body of a backward: what it returns, and what its names stand for."""

    def __init__(self, definition: ast.FunctionDef) -> None:
        arguments = definition.args
        self.gradients = [argument.arg for argument in arguments.args[1:]]
        self.rest = arguments.vararg.arg if arguments.vararg else None
        self.returned: list[ast.expr | None] = []
        self.known: dict[str, set[InputGradient]] = {}
        ahead: list[tuple[ast.AST, bool]] = [(one, False) for one in reversed(definition.body)]
        while ahead:
            statement, is_needed = ahead.pop()
            self._note(statement, is_needed=is_needed)
            inside, is_about_need = _inner_statements(statement)
            ahead += [(one, is_needed or is_about_need) for one in reversed(inside)]
        raises = any(isinstance(one, ast.Raise) for one in definition.body)
        self.returned = self.returned or [ast.Starred(ast.Name("raised")) if raises else None]

    def _note(self, statement: ast.AST, *, is_needed: bool) -> None:
        """Note what a statement returns or gives a name to."""
        match statement:
            case ast.Return(value=value):
                self.returned.append(value)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value, is_needed=is_needed)
            case ast.For(target=target) | ast.withitem(optional_vars=ast.expr() as target):
                self._assign(target, None, is_needed=False)

    def _assign(self, target: ast.expr, value: ast.expr | None, *, is_needed: bool) -> None:
        """Note what a name stands for; what is computed only if it is needed, is needed here."""
        for name in ast.walk(target):
            if isinstance(name, ast.Name):
                is_whole = name is target and value is not None
                gradient = self.gradient_of(value) if is_whole else GradientKind.UNKNOWN
                before = set() if is_needed else self.known.get(name.id, set())
                self.known[name.id] = {*before, gradient}

    def gradients_of(self, value: ast.expr | None) -> Returned:
        """Return what one ``return`` gives to the inputs."""
        parts = _elements(value)
        if isinstance(value, ast.Name) and value.id == self.rest:
            parts = [ast.Starred(value)]
        rest = parts[-1].value if parts and isinstance(parts[-1], ast.Starred) else None
        passes_rest = isinstance(rest, ast.Name) and rest.id == self.rest
        parts = parts[:-1] if passes_rest else parts
        if any(isinstance(part, ast.Starred) for part in parts):
            return None, None
        return tuple(map(self.gradient_of, parts)), len(self.gradients) if passes_rest else None

    def count_of(self, value: ast.expr | None) -> int | None:
        """Return how many gradients one ``return`` gives; None where that is not clear."""
        parts = _elements(value)
        if any(isinstance(part, ast.Starred) for part in parts):
            return None
        return len(parts) if isinstance(value, ast.Tuple) or self._is_one(value) else None

    def _is_one(self, value: ast.expr | None) -> bool:
        """Return whether an expression is None or one tensor for sure, and no tuple of several."""
        match value:
            case None | ast.Constant(value=None):
                return True
            case ast.Name(id=name):
                return name in self.gradients and name not in self.known
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return any(self._is_one(one) and one is not None for one in (left, right))
            case ast.BinOp(op=operator):
                return not isinstance(operator, ast.Add)
            case ast.Call(func=ast.Attribute(value=ast.expr() as inner, attr=name)):
                return name in _GIVING_ONE and self._is_one(inner)
        return False

    def gradient_of(self, value: ast.expr | None) -> InputGradient:
        """Return whether an expression is a gradient or None."""
        gradient: InputGradient = GradientKind.UNKNOWN
        match value:
            case None | ast.Constant(value=None):
                gradient = GradientKind.NONE
            case ast.Name(id=name) if name in self.known:
                gradient = _agreed(self.known[name])
            case ast.Name(id=name) if name in self.gradients:
                gradient = self.gradients.index(name)
            case ast.BinOp() | ast.UnaryOp():
                gradient = GradientKind.SOME
            case ast.IfExp(test=test) if _is_about_need(test):
                gradient = self.gradient_of(value.orelse if _is_denied(test) else value.body)
            case ast.IfExp(body=body, orelse=otherwise):
                gradient = _agreed({self.gradient_of(body), self.gradient_of(otherwise)})
            case ast.Call(func=ast.Attribute(attr=name)) if name in _RETURNING_TENSORS:
                gradient = GradientKind.SOME
        return gradient


_GIVING_ONE = {"clamp", "clone", "contiguous", "expand_as", "mul", "neg", "sum", "view", "view_as"}
_RETURNING_TENSORS = {*dir(torch), *dir(torch.Tensor)} - {"grad", "backward"}


def _agreed(ways: set[InputGradient]) -> InputGradient:
    return next(iter(ways)) if len(ways) == 1 else GradientKind.UNKNOWN


def _elements(value: Any) -> list[Any]:
    """Return the elements of a tuple, or of two that are added; anything else is one element."""
    match value:
        case ast.Tuple(elts=elements):
            return elements
        case ast.BinOp(left=ast.Tuple(elts=elements), op=ast.Add(), right=rest):
            return [*elements, *(rest.elts if isinstance(rest, ast.Tuple) else [ast.Starred(rest)])]
        case _:
            return [value]


def _inner_statements(statement: ast.AST) -> tuple[list[ast.AST], bool]:
    """Return the statements in one, and whether they run only for what is needed."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.expr):
        return [], False
    if isinstance(statement, ast.If) and _is_about_need(statement.test):
        return [*(statement.orelse if _is_denied(statement.test) else statement.body)], True
    return [*ast.iter_child_nodes(statement)], False


def _is_about_need(test: ast.expr) -> bool:
    return "needs_input_grad" in ast.unparse(test)


def _is_denied(test: ast.expr) -> bool:
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
