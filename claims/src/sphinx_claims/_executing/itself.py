"""Checks that are no evidence: they compare a thing with itself, or constants with constants."""

import ast
from collections.abc import Iterator

from sphinx_claims._executing.asserts import statements
from sphinx_claims._python import last_name

_OPEN = (ast.Name, ast.Call, ast.BinOp)


def useless_checks(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and reason of each check in `tree` that no fault could turn false."""
    for node in statements(tree):
        if isinstance(node, ast.Assert) and (reason := _reason(node.test)):
            yield node.lineno, f"this check is no evidence: {reason}: {ast.unparse(node.test)}"


def _reason(test: ast.expr) -> str | None:
    if not any(isinstance(node, _OPEN) for node in ast.walk(test)):
        is_true = eval(compile(ast.Expression(test), "constants", "eval"))
        return "it contains only constants" if is_true else None
    match test:
        case ast.Tuple() | ast.List():
            return "a list or tuple that is not empty is always true"
        case ast.BoolOp(op=ast.Or(), values=values):
            is_true = any(isinstance(value, ast.Constant) and value.value for value in values)
            return "`or` makes it always true" if is_true else None
        case ast.Compare(left=left, ops=[ast.Eq() | ast.GtE() | ast.Is() | ast.LtE()]):
            right = test.comparators[0]
        case ast.Call(args=[left, right, *_]) if last_name(test).endswith(("equal", "close")):
            pass
        case _:
            return None
    is_call = any(isinstance(node, ast.Call) for node in ast.walk(left))
    is_same = ast.dump(left) == ast.dump(right) and not is_call
    return "it compares a thing with itself" if is_same else None
