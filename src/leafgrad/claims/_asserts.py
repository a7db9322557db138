"""Asserts that leave a record, whatever becomes of the exception that they raise."""

import ast
import reprlib
from collections.abc import Callable
from typing import Any

from leafgrad.claims._record import Check

RECORDER = "__leafgrad_check__"
"""The builtin through which a rewritten assert reports."""

_SCOPED = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


def recorded(tree: ast.Module) -> ast.Module:
    """Rewrite `assert test` so that the value of `test` is reported before it is judged."""
    _Reporting().visit(tree)
    return ast.fix_missing_locations(tree)


def asserts(source: str) -> list[tuple[int, str]]:
    """List line and text of every assert in `source`; none where it is no Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    return [(node.lineno, ast.unparse(node.test)) for node in found]


class Recorder:
    """Keeps every evaluation since it was last emptied."""

    def __init__(self) -> None:
        self._checks: list[Check] = []

    def __call__(
        self, line: int, text: str, test: object, operands: Callable[[], dict[str, Any]]
    ) -> bool:
        """Report an assert of `text`; `operands` is asked for its parts if it failed."""
        passed = bool(test)
        found = "" if passed else _shown(operands)
        self._checks.append(Check(line=line, kind="assert", text=text, passed=passed, found=found))
        return passed

    def take(self) -> list[Check]:
        """Return what was reported, and forget it."""
        taken, self._checks = self._checks, []
        return taken


class _Reporting(ast.NodeTransformer):
    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        text = ast.unparse(node.test)
        report = ast.Call(
            func=ast.Name(RECORDER, ast.Load()),
            args=[ast.Constant(node.lineno), ast.Constant(text), node.test, _operands(node.test)],
            keywords=[],
        )
        node.test = ast.copy_location(report, node.test)
        return node


def _operands(test: ast.expr) -> ast.Lambda:
    """Build `lambda: {text: value, ...}` of the parts whose values explain a failure."""
    parts = _parts(test)
    if any(isinstance(node, _SCOPED) for node in ast.walk(test)):
        parts = []
    keys: list[ast.expr | None] = [ast.Constant(ast.unparse(part)) for part in parts]
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(nothing, ast.Dict(keys, parts))


def _parts(test: ast.expr) -> list[ast.expr]:
    parts: list[ast.expr] = []
    if isinstance(test, ast.Compare):
        parts = [test.left, *test.comparators]
    elif isinstance(test, ast.Call):
        parts = list(test.args)
    return [part for part in parts if not isinstance(part, ast.Constant | ast.Starred)]


def _shown(operands: Callable[[], dict[str, Any]]) -> str:
    try:
        values = operands()
    except Exception:  # noqa: BLE001 - the page is red already; its parts are only an explanation
        return ""
    brief = reprlib.Repr()
    brief.maxother = brief.maxstring = brief.maxlong = 80
    return ", ".join(f"{text} is {brief.repr(value)}" for text, value in values.items())
