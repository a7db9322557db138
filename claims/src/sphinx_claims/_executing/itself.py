"""Find checks that prove nothing: a value compared with itself, or two constants."""

import ast
from collections.abc import Iterator

from sphinx_claims._executing.asserts import statements


def useless_checks(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and an objection for each assert in `tree` that cannot fail."""
    for node in statements(tree):
        if isinstance(node, ast.Assert) and (reason := _reason(node.test)):
            yield node.lineno, f"this check is no evidence: {reason}: {ast.unparse(node.test)}"


def _reason(test: ast.expr) -> str | None:
    if not any(isinstance(node, ast.Name | ast.Call | ast.BinOp) for node in ast.walk(test)):
        code = compile(ast.Expression(test), "constants", "eval")
        return "it contains only constants" if eval(code) else None
    match test:
        case ast.Tuple() | ast.List():
            return "a list or tuple that is not empty is always true"
        case ast.Compare(ast.Name(first), [ast.Eq() | ast.Is()], [ast.Name(second)]):
            return "it compares a thing with itself" if first == second else None
        case ast.Call(args=[ast.Name(first), ast.Name(second)], func=ast.Attribute(attr="equal")):
            return "it compares a thing with itself" if first == second else None
    return None
