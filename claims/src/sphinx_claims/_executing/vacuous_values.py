"""Asserts that are true of nothing, or of anything: told from the values of one run."""

import ast
import copy
import re
import threading
from collections.abc import Iterator
from typing import Any

from sphinx_claims._executing.arrays import count, is_mask
from sphinx_claims._executing.reporting import report
from sphinx_claims._python import CLOSE, EQUAL, last_name

_MASKS = (ast.Attribute, ast.Call, ast.Compare, ast.Name, ast.UnaryOp)
_MOST = 1_000_000
"""Of how many numbers one asks at most whether they are NaN."""


def attended(test: ast.expr, text: str, line: int, *, asks_nan: bool) -> ast.expr:
    """Rewrite a copy of an assert's `test` such that `Vacuous` sees what it is about.

    It reads `text`; where the asserts beside it ask for NaN, a mask may leave that out.
    """
    rewritten = copy.deepcopy(test)
    texts = zip(ast.walk(rewritten), ast.walk(test), strict=True)
    attending = _Attending(line, dict(texts), asks_nan=asks_nan)
    attending.is_about_nan = speaks_of_nan(text)
    attended_test: ast.expr = attending.visit(rewritten)
    return attended_test


class Vacuous:
    """Why the assert on a line, which is being evaluated, would not notice if it were false."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[int, int], str] = {}

    def take(self, line: int) -> str:
        """Return what was found since the assert on `line` began; nothing if nothing was."""
        return self._reasons.pop((threading.get_ident(), line), "")

    def some(self, line: int, text: str, value: Any) -> Any:
        """Look whether `value`, all of which must be so, gives anything at all."""
        if isinstance(value, Iterator):
            return self._counted(line, text, value)
        return self.held(line, text, value)

    def held(self, line: int, text: str, value: Any) -> Any:
        """Look whether `value` holds anything at all."""
        if count(value) == 0:
            self._note(line, f"{text} is empty, and of nothing anything is true")
        return value

    def number(self, line: int, text: str, value: Any) -> Any:
        """Look whether `value`, which must be unequal to something, is NaN."""
        if _is_nan(value, at_all=True):
            self._note(line, f"{text} is NaN, which is unequal to everything: assert that it is")
        return value

    def known(self, line: int, text: str, value: Any) -> Any:
        """Look whether all of `value`, for which NaN may equal NaN, is NaN."""
        if _is_nan(value, at_all=False):
            self._note(line, f"{text} is NaN throughout, as anything may be that went wrong")
        return value

    def masked(self, line: int, text: str, value: Any, mask: Any) -> Any:
        """Return `value[mask]`, and look whether the mask hides NaN."""
        shown = value[mask]
        if is_mask(mask) and _is_nan(value, at_all=True) and not _is_nan(shown, at_all=True):
            self._note(line, f"{text} leaves out NaN: assert how much of it is NaN as well")
        return shown

    def ratio(self, line: int, text: str, value: Any) -> Any:
        """Look whether a ratio that must be small is negative, which is small in any case."""
        try:
            is_negative = bool(value < 0)
        except Exception:  # noqa: BLE001 - whatever it is, it is no ratio
            is_negative = False
        if is_negative:
            self._note(line, f"{text} is negative, and so below any bound: compare absolute values")
        return value

    def _counted(self, line: int, text: str, values: Iterator[Any]) -> Iterator[Any]:
        is_empty = True
        for value in values:
            is_empty = False
            yield value
        if is_empty:
            self._note(line, f"({text}) gives nothing, and of nothing anything is true")

    def _note(self, line: int, reason: str) -> None:
        self._reasons[threading.get_ident(), line] = reason


class _Attending(ast.NodeTransformer):
    def __init__(self, line: int, written: dict[ast.AST, ast.AST], *, asks_nan: bool) -> None:
        self._line, self._written, self._asks_nan = line, written, asks_nan
        self.is_about_nan = self._is_negated = False

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        before = self._is_negated
        self._is_negated = before != isinstance(node.op, ast.Not)
        self.generic_visit(node)
        self._is_negated = before
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        sides = [node.left, *node.comparators]
        is_same = len({ast.dump(side) for side in sides}) == 1
        is_unequal = self._is_negated or any(isinstance(sign, ast.NotEq) for sign in node.ops)
        is_ratio = isinstance(node.ops[0], ast.Lt | ast.LtE) and _is_ratio(node.left)
        self.generic_visit(node)
        if is_unequal and not is_same and not self.is_about_nan:
            node.left, *node.comparators = [self._look("number", side) for side in sides]
        elif is_ratio:
            node.left = self._look("ratio", node.left)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name, given = last_name(node), [ast.dump(argument) for argument in node.args]
        has_equal_nan = any(option.arg == "equal_nan" for option in node.keywords)
        self.generic_visit(node)
        if name == "all" and not self._is_negated:
            self._all(node)
        elif name in CLOSE | EQUAL and node.args:
            if self._is_negated and len(set(given)) == len(given) and not self.is_about_nan:
                node.args[:2] = [self._look("number", one) for one in node.args[:2]]
            elif has_equal_nan:
                node.args[0] = self._look("known", node.args[0])
            elif name in CLOSE:
                node.args[0] = self._look("held", node.args[0])
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.slice, _MASKS) and not self._asks_nan:
            text = ast.unparse(self._written[node])
            made = report("vacuous.masked", self._line, text, node.value, node.slice)
            self._written[made] = self._written[node]
            return ast.copy_location(made, node)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node  # what it says is said whenever it is called

    def _all(self, node: ast.Call) -> None:
        """Look at what `all(values)`, `numpy.all(values)` or `values.all()` is about."""
        if node.args:
            if not isinstance(node.args[0], ast.List | ast.Tuple | ast.Starred):
                node.args[0] = self._look("some", node.args[0])
        elif isinstance(node.func, ast.Attribute):
            node.func.value = self._look("held", node.func.value)

    def _look(self, method: str, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Constant | ast.Starred | ast.NamedExpr):
            return node
        text = ast.unparse(self._written[node])
        return ast.copy_location(report(f"vacuous.{method}", self._line, text, node), node)


def speaks_of_nan(text: str) -> bool:
    """Return whether the test that reads `text` asks for NaN."""
    return re.search("nan|isfinite", text, re.IGNORECASE) is not None


def _is_ratio(node: ast.expr) -> bool:
    """Return whether `node` divides the largest by the smallest."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)):
        return False
    return "max" in ast.unparse(node.left) and "min" in ast.unparse(node.right)


def _is_nan(value: Any, *, at_all: bool) -> bool:
    """Return whether a number is NaN, or any of an array's is, or all are."""
    if isinstance(value, float):
        return value != value  # noqa: PLR0124 - so NaN is told, whatever made it
    try:
        is_float = re.search("float|complex", str(getattr(value, "dtype", "")))
        if not is_float or not 0 < (count(value) or 0) <= _MOST:
            return False
        found = value != value  # noqa: PLR0124 - as above
        return bool(found.any() if at_all else found.all())
    except Exception:  # noqa: BLE001 - whatever a value of the page cannot do
        return False
