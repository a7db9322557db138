"""Rewrite checks in Python code so that failures are reported even if the code catches the error.

A check is an assert, or a call or `with` block that raises an error if its condition fails, such as
`assert_allclose` or `pytest.raises`.
"""

import ast
import re
from collections.abc import Iterator
from typing import Any

from sphinx_claims._page import Cell, Doctest, Step
from sphinx_claims._python import last_name, parse_python

RECORDER = "__claims_check__"
"""The name of the builtin object to which rewritten code reports its checks."""


def report(method: str, *arguments: ast.expr | bool | int | str) -> ast.Call:
    """Build the syntax tree of the call `RECORDER.method(arguments)`.

    Arguments that are not expressions become constants.
    """
    called: ast.expr = ast.Name(RECORDER, ast.Load())
    for name in method.split("."):
        called = ast.Attribute(called, name, ast.Load())
    given = [one if isinstance(one, ast.expr) else ast.Constant(one) for one in arguments]
    return ast.Call(called, given, [])


_SCOPED = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
_ASSERTING = re.compile(r"assert\w*|gradcheck|gradgradcheck")
"""The names of functions that raise an error if a check fails."""

_EXPECTING = re.compile(r"raises|warns|deprecated_call|assert\w*")
"""The names of contexts that raise an error unless the code in them raises or warns."""

_CHECKS = re.compile(rf"{_ASSERTING.pattern}|{_EXPECTING.pattern}")
_OF_A_MACHINE = re.compile(
    r"cuda|gpu|\bmps\b|_mps|xpu|rocm|is_available|platform|win32|\bos\.name\b"
    r"|__version__|version_info|\bversion\.hip\b|\bVersion\(",
    re.IGNORECASE,
)
"""A pattern for conditions that depend on the machine."""


def has_checks(source: str) -> bool:
    """Return whether the Python code in `source` may contain a check, such as an assert."""
    return _CHECKS.search(source) is not None


def report_checks(tree: ast.Module) -> ast.Module:
    """Rewrite the asserts and other checks in `tree` so that a recorder sees their results.

    A failing check still raises its error, after it has reported its result. The tree is modified
    in place and returned.
    """
    _Reporting().visit(tree)
    return ast.fix_missing_locations(tree)


def asserts(step: Step) -> tuple[tuple[int, str], ...]:
    """Return the line and the text of every check in a step of a page.

    A check below a condition on the machine, as in `if sys.platform == "linux"`, is left out.
    """
    return tuple(
        (node.lineno, text)
        for line, source in _sources(step)
        if has_checks(source)
        for node in _unconditional(parse_python("\n" * (line - 1) + source) or ast.Module([], []))
        if isinstance(node, ast.stmt) and (text := text_of_check(node)) is not None
    )


def text_of_check(node: ast.AST) -> str | None:
    """Return the text of the check in a statement, or None if it is not a check."""
    match node:
        case ast.Assert(test=test):
            return ast.unparse(test)
        case ast.Expr(value=(ast.Call() as call) | ast.Await(value=ast.Call() as call)):
            is_check = _ASSERTING.fullmatch(last_name(call)) or _expects(call, at_least=2)
            return ast.unparse(call) if is_check else None
        case ast.With(items=items) | ast.AsyncWith(items=items):
            expecting = (item.context_expr for item in items if _expects(item.context_expr))
            return next(map(ast.unparse, expecting), None)
    return None


def _expects(call: ast.expr, at_least: int = 1) -> bool:
    return (
        isinstance(call, ast.Call)
        and len(call.args) + len(call.keywords) >= at_least
        and _EXPECTING.fullmatch(last_name(call)) is not None
    )


def _expects_false(node: ast.AST) -> bool:
    """Return whether a statement expects an assert to fail, because it names AssertionError.

    Examples are `pytest.raises(AssertionError)` and `except AssertionError`. A handler that only
    contains `pass` does not count: it hides the failure.
    """
    expected: list[ast.expr] = []
    match node:
        case ast.Try(handlers=handlers) | ast.TryStar(handlers=handlers):
            active = (one for one in handlers if {*map(ast.unparse, one.body)} - {"pass", "..."})
            expected = [one.type for one in active if one.type]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            expected = [item.context_expr for item in items if _expects(item.context_expr)]
    parts = (part for one in expected for part in ast.walk(one))
    return any(last_name(part) == "AssertionError" for part in parts if isinstance(part, ast.expr))


def _unconditional(tree: ast.AST) -> list[ast.AST]:
    """Return all nodes of `tree`, except expressions and those below conditions on the machine."""
    nodes = [tree]
    for node in nodes:
        if not (isinstance(node, ast.If) and _OF_A_MACHINE.search(ast.unparse(node.test))):
            nodes += _below(node)
    return nodes


def statements(tree: ast.AST) -> list[ast.AST]:
    """Return all nodes of `tree` except expressions. Outer nodes come before inner ones."""
    nodes = [tree]
    for node in nodes:
        nodes += _below(node)
    return nodes


def _below(node: ast.AST) -> list[ast.AST]:
    return [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]


def _sources(step: Step) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of each piece of Python code in `step`."""
    match step:
        case Cell():
            yield step.line, step.source
        case Doctest():
            yield from step.python()


class _Reporting(ast.NodeTransformer):
    def visit(self, node: ast.AST) -> Any:
        """Rewrite the checks in a statement, and return the statement.

        Expressions are returned unchanged, because they contain no assert.
        """
        if isinstance(node, ast.expr):
            return node
        if isinstance(node, ast.Assert):
            return self.visit_Assert(node)
        # Read the text before the assert is rewritten.
        text, expects_false = text_of_check(node), _expects_false(node)
        rewritten = super().visit(node)
        if expects_false:
            rewritten.body = [ast.With([ast.withitem(report("expecting"))], rewritten.body)]
        if text is None:
            return rewritten
        around = ast.withitem(report("calling", rewritten.lineno, text))
        return ast.copy_location(ast.With([around], [rewritten]), rewritten)

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        test = node.test
        made = report("asserting", node.lineno, ast.unparse(test), test, _operands(test))
        node.test = ast.copy_location(made, test)
        return node


def _operands(test: ast.expr) -> ast.Lambda:
    """Build `lambda: {text: value, ...}` for the parts of `test` whose values explain a failure."""
    parts: list[ast.expr] = []
    if isinstance(test, ast.Compare):
        parts = [test.left, *test.comparators]
    elif isinstance(test, ast.Call):
        parts = test.args
    parts = [part for part in parts if not isinstance(part, ast.Constant | ast.Starred)]
    if any(isinstance(node, _SCOPED) for node in ast.walk(test)):
        parts = []
    keys: list[ast.expr | None] = [ast.Constant(ast.unparse(part)) for part in parts]
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    values = ast.Dict(keys, parts)
    for made in (values, *filter(None, keys)):
        ast.copy_location(made, test)
    return ast.Lambda(nothing, values)
