"""Checks that are no evidence: they compare a thing with itself, or constants with constants."""

import ast
import copy
from collections.abc import Iterator
from typing import Any

from sphinx_claims._executing.asserts import statements, text_of_check
from sphinx_claims._python import last_name

_SAME = (ast.Eq, ast.GtE, ast.Is, ast.LtE)
_DIFFERENT = (ast.NotEq, ast.Gt, ast.IsNot, ast.Lt)
_OPEN = (ast.Name, ast.Call, ast.BinOp)
_PURE = frozenset({"abs", "float", "getattr", "int", "len", "list", "max", "min", "set", "sorted"})
"""Functions that return the same value each time."""


def useless_checks(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and reason of each check in `tree` that no fault could turn false."""
    for node in statements(tree):
        test: ast.expr | None = None
        if isinstance(node, ast.Assert):
            test = node.test
        elif isinstance(node, ast.Expr) and text_of_check(node):
            test = node.value
        if test is not None and (reason := _reason(test)):
            yield test.lineno, f"this check is no evidence: {reason}: {ast.unparse(test)}"


def _reason(test: ast.expr) -> str | None:
    if not any(isinstance(node, _OPEN) for node in ast.walk(test)):
        is_true = eval(compile(ast.Expression(test), "constants", "eval"))
        return "it contains only constants" if is_true else None
    if isinstance(test, ast.Tuple | ast.List) and test.elts:
        return "a list or tuple that is not empty is always true"
    return next(filter(None, (_reason_of_part(*part) for part in _parts(test))), None)


def _parts(test: ast.expr, *, is_negated: bool = False) -> Iterator[tuple[ast.expr, bool]]:
    """Yield each part that must hold, and whether it is negated: of `not (a or b)` both."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _parts(operand, is_negated=not is_negated)
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.Or) == is_negated:
            for value in values:
                yield from _parts(value, is_negated=is_negated)
        case ast.Call(func=ast.Attribute(value=value, attr="all" | "item" | "any"), args=[]):
            yield from _parts(value, is_negated=is_negated)
        case ast.Call(args=[value, *_]) if last_name(test) in {"all", "any", "bool", "assert_"}:
            yield from _parts(value, is_negated=is_negated)
        case _:
            yield test, is_negated


def _reason_of_part(part: ast.expr, is_negated: bool) -> str | None:  # noqa: FBT001 - a pair
    match part:
        case ast.BoolOp(op=ast.Or(), values=values):
            is_true = any(isinstance(value, ast.Constant) and value.value for value in values)
            return "`or` makes it always true" if is_true and not is_negated else None
        case ast.Compare(left=left, ops=ops, comparators=others):
            terms = [left, *others]
            kinds = _DIFFERENT if is_negated else _SAME
            pairs = zip(terms, ops, others, strict=False)
            is_itself = any(isinstance(op, kinds) and _is_same(a, b) for a, op, b in pairs)
            if not is_itself and isinstance(ops[0], ast.IsNot) and ast.unparse(others[0]) == "None":
                is_question = isinstance(left, ast.Call) and _compares(last_name(left))
                return "a truth value is never None" if is_question else None
        case ast.Call(func=function, args=args) if not is_negated and _compares(last_name(part)):
            is_method = isinstance(function, ast.Attribute) and len(args) == 1
            terms = [function.value, *args] if is_method else args  # type: ignore[attr-defined]
            is_itself = len(terms) > 1 and _is_same(*terms[:2])
        case _:
            is_itself = False
    return "it compares a thing with itself" if is_itself else None


def _compares(name: str) -> bool:
    """Return whether a function compares its first two arguments."""
    plain = name.lower().strip("_")
    return plain in {"eq", "is", "is_", "assertis"} or plain.endswith(
        ("equal", "equals", "equiv", "close", "isclose", "approx")
    )


def _is_same(first: ast.expr, second: ast.expr) -> bool:
    """Return whether two expressions are the same in any spelling, and of a stable value."""
    if isinstance(first, ast.Starred):
        return False
    plain = [_Plain().visit(copy.deepcopy(term)) for term in (first, second)]
    calls = (node for node in ast.walk(plain[0]) if isinstance(node, ast.Call))
    is_stable = all(last_name(call) in _PURE for call in calls)
    return is_stable and ast.dump(plain[0]) == ast.dump(plain[1])


class _Plain(ast.NodeTransformer):
    """Removes what changes the spelling and not the value."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.UAdd):
            return operand
        same = isinstance(operand, ast.UnaryOp) and type(operand.op) is type(node.op)
        return operand.operand if same else ast.UnaryOp(node.op, operand)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        return self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(name))]):
                return ast.Attribute(self.visit(value), name, ast.Load())
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        node = ast.BinOp(self.visit(node.left), node.op, self.visit(node.right))
        if isinstance(node.op, ast.Add | ast.Mult) and ast.dump(node.left) > ast.dump(node.right):
            node.left, node.right = node.right, node.left
        return node
