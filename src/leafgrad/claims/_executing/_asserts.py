"""Asserts that leave a record, whatever becomes of the exception that they raise."""

import ast
import contextlib
import doctest
import functools
import io
import os
import pickle
import reprlib
import tempfile
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from leafgrad.claims._page import Cell, Doctest, Step
from leafgrad.claims._record import Check

RECORDER = "__leafgrad_check__"
"""The builtin through which a rewritten assert reports."""

_SCOPED = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


def recorded(tree: ast.Module) -> ast.Module:
    """Rewrite `assert test` so that the value of `test` is reported before it is judged."""
    _Reporting().visit(tree)
    return tree


@functools.lru_cache(maxsize=4096)  # each mutant of a claim is judged with all that stands above it
def asserts(step: Step) -> tuple[tuple[int, str], ...]:
    """List line and text of every assert in a step of a page; none where it is no Python."""
    return tuple(
        (node.lineno, ast.unparse(node.test))
        for line, source in _sources(step)
        if "assert" in source
        for node in statements(_parsed(source, line))
        if isinstance(node, ast.Assert)
    )


def statements(tree: ast.AST) -> list[ast.AST]:
    """List what stands in `tree`, the outer before the inner, and leave out all expressions."""
    nodes = [tree]
    for node in nodes:
        children = ast.iter_child_nodes(node)
        nodes += [child for child in children if not isinstance(child, ast.expr)]
    return nodes


def _sources(step: Step) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of all Python in `step` that consists of statements."""
    match step:
        case Cell():
            yield step.line, step.source
        case Doctest():
            with contextlib.suppress(ValueError):  # what cannot be read is red already
                for example in doctest.DocTestParser().get_examples(step.source):
                    yield step.line + example.lineno, example.source


def _parsed(source: str, line: int) -> ast.Module:
    try:
        return ast.parse("\n" * (line - 1) + source)
    except SyntaxError:
        return ast.Module([], [])


_ALWAYS_TRUE = (
    type,
    types.AsyncGeneratorType,
    types.BuiltinFunctionType,
    types.CoroutineType,
    types.FunctionType,
    types.GeneratorType,
    types.MethodDescriptorType,
    types.MethodType,
    types.MethodWrapperType,
    types.ModuleType,
    types.WrapperDescriptorType,
)


class Recorder:
    """Keeps every evaluation since it was last emptied, also those in processes forked since."""

    def __init__(self) -> None:
        self.settle()

    def settle(self) -> None:
        """Take this process as the one that empties it."""
        self._process = os.getpid()
        self._checks: deque[Check] = deque()
        self._elsewhere = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        self._read = 0

    def __call__(
        self, line: int, text: str, test: object, operands: Callable[[], dict[str, Any]]
    ) -> bool:
        """Report an assert of `text`; `operands` is asked for its parts if it failed."""
        passed = bool(test)
        found = "" if passed else _shown(operands)
        self._keep(Check(line=line, kind="assert", text=text, passed=passed, found=found))
        if isinstance(test, _ALWAYS_TRUE):
            kind = type(test).__name__
            found = f"it is a {kind}, which is always true: call it, or compare it"
            self._keep(Check(line=line, kind="assert", text=text, passed=False, found=found))
        return passed

    def take(self) -> list[Check]:
        """Return what was reported, and forget it."""
        taken = list(self._from_elsewhere())
        while self._checks:
            taken.append(self._checks.popleft())
        return taken

    def _keep(self, check: Check) -> None:
        if os.getpid() == self._process:
            self._checks.append(check)
        else:
            os.write(self._elsewhere.fileno(), pickle.dumps(check))

    def _from_elsewhere(self) -> Iterator[Check]:
        file = self._elsewhere.fileno()
        written = os.pread(file, os.fstat(file).st_size - self._read, self._read)
        self._read += len(written)
        stream = io.BytesIO(written)
        while stream.tell() < len(written):
            yield pickle.load(stream)  # noqa: S301 - written by a copy of this process


class _Reporting(ast.NodeTransformer):
    def visit(self, node: ast.AST) -> Any:
        """Visit statements only: no expression holds an assert."""
        return node if isinstance(node, ast.expr) else super().visit(node)

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        test, text = node.test, ast.unparse(node.test)
        arguments = [ast.Constant(node.lineno), ast.Constant(text), test, _operands(test)]
        node.test = ast.Call(ast.Name(RECORDER, ast.Load()), arguments, [])
        for made in (node.test, node.test.func, *arguments[:2], arguments[3]):
            ast.copy_location(made, test)
        return node


def _operands(test: ast.expr) -> ast.Lambda:
    """Build `lambda: {text: value, ...}` of the parts whose values explain a failure."""
    parts = _parts(test)
    if any(isinstance(node, _SCOPED) for node in ast.walk(test)):
        parts = []
    keys: list[ast.expr | None] = [ast.Constant(ast.unparse(part)) for part in parts]
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    values = ast.Dict(keys, parts)
    for made in (values, *filter(None, keys)):
        ast.copy_location(made, test)
    return ast.Lambda(nothing, values)


def _parts(test: ast.expr) -> list[ast.expr]:
    parts: list[ast.expr] = []
    if isinstance(test, ast.Compare):
        parts = [test.left, *test.comparators]
    elif isinstance(test, ast.Call):
        parts = list(test.args)
    return [part for part in parts if not isinstance(part, ast.Constant | ast.Starred)]


def _shown(operands: Callable[[], dict[str, Any]]) -> str:
    brief = reprlib.Repr()
    brief.maxother = brief.maxstring = brief.maxlong = 80
    try:
        return ", ".join(f"{text} is {brief.repr(value)}" for text, value in operands().items())
    except Exception:  # noqa: BLE001 - the page is red already; its parts are only an explanation
        return ""
