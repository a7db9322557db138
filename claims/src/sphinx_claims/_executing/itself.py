"""Find checks that prove nothing: a value compared with itself, or two constants."""

import ast
import re
from collections.abc import Iterator

from sphinx_claims._executing.asserts import statements, text_of_check
from sphinx_claims._python import last_name

_ITSELF = "it compares a thing with itself"
_CHANGING = ast.Call | ast.Attribute | ast.Subscript | ast.Await | ast.NamedExpr
_TRUE_OF_ITSELF = {ast.Eq, ast.Is, ast.LtE, ast.GtE}
_EQUAL = re.compile(r"(?!\w*(?:not|unequal))(?:\w*(?:equals?|close)|assertIs)", re.IGNORECASE)
"""The names of functions and methods that return whether two things are equal, or check it."""


def useless_checks(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and an objection for each assert in `tree` that cannot fail."""
    for node in statements(tree):
        test, text = getattr(node, "test", getattr(node, "value", None)), text_of_check(node)
        if test and text and isinstance(node, ast.stmt) and (reason := _reason(test)):
            yield node.lineno, f"this check is not evidence: {reason}: {text}"


def _reason(test: ast.expr) -> str | None:
    if not any(isinstance(node, ast.Name | ast.Call | ast.BinOp) for node in ast.walk(test)):
        code = compile(ast.Expression(test), "constants", "eval")
        return "it contains only constants" if eval(code) else None
    match test:
        case ast.Tuple() | ast.List():
            return "a list or tuple that is not empty is always true"
        case ast.BoolOp(op=ast.Or(), values=values):
            return next(filter(None, map(_reason, values)), None)
        case ast.Compare(ast.Call(ast.Name("len")), [ast.GtE()], [ast.Constant(0)]):
            return "a length is never negative"
    pairs = _compared(test)
    return _ITSELF if pairs and all(_is_same(*pair) for pair in pairs) else None


def _compared(test: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return the pairs that a test requires to be equal or, with `<=`, not to differ."""
    match test:
        case ast.Compare(left, ops, others) if {*map(type, ops)} <= _TRUE_OF_ITSELF:
            return [(left, other) for other in others]
        case ast.UnaryOp(ast.Not(), ast.Compare(left, [ast.NotEq() | ast.IsNot()], [other])):
            return [(left, other)]
        case ast.Call(ast.Attribute(inner, "all"), []) | ast.Call(ast.Name("bool"), [inner]):
            return _compared(inner)
        case ast.Call(_, [left, other], []) | ast.Call(ast.Attribute(left), [other], []):
            return [(left, other)] if _EQUAL.fullmatch(last_name(test)) else []
    return []


def _is_same(left: ast.expr, other: ast.expr) -> bool:
    """Return whether two expressions are equal and contain nothing that may change in between.

    The expressions are `left` and `other`.
    """
    return ast.unparse(left) == ast.unparse(other) and not any(
        isinstance(node, _CHANGING) for node in ast.walk(left)
    )
