"""Values that {value} inserts and that nothing has computed: somebody typed them."""

import ast
from collections.abc import Iterator, Sequence

from sphinx_claims._judging.numbers import python_of
from sphinx_claims._page import Inline, Page, Problem
from sphinx_claims._python import parsed, parts

_SAME = frozenset({"bool", "float", "format", "int", "repr", "round", "str"})
"""What gives back what it is given, or nearly."""

_SHOWING = (
    *(ast.Expression, ast.Module, ast.Expr, ast.Name, ast.Constant, ast.Call, ast.Subscript),
    *(ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.JoinedStr, ast.FormattedValue),
    *(ast.expr_context, ast.unaryop),
)
"""What an expression may hold that only shows what there is."""


def typed_values(page: Page) -> Iterator[Problem]:
    """Yield the values on `page` that are literals, or names of literals that nothing else uses.

    A literal that other code uses is an input, and a page may say what its inputs are.
    """
    inserted = [step for step in page.steps if isinstance(step, Inline) and step.role == "value"]
    code = [python_of(step) for step in page.steps if step not in inserted]
    nodes = [node for source in code for node in parts(source)] if inserted else []
    typed = _typed_names(nodes)
    for step in inserted:
        tree = parsed(step.source.strip())
        if tree is not None and _is_typed(tree, typed):
            message = (
                f"a value must be computed, and {step.source!r} is one that was typed: "
                "let code compute it, or write it as plain words"
            )
            yield Problem(step.line, message)


def _typed_names(nodes: Sequence[ast.AST]) -> frozenset[str]:
    """Return the names that are given literals and are not used."""
    by_hand = [name for node in nodes for name in _given_literals(node)]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    shown = [name for node in nodes for name in _only_shown(node)]
    known = {*map(id, (*by_hand, *shown))}
    others = {name.id for name in names if id(name) not in known}
    return frozenset(name.id for name in by_hand) - others


def _given_literals(node: ast.AST) -> list[ast.Name]:
    """Return the names that a statement gives literals to."""
    match node:
        case ast.Assign(targets=targets, value=value) if _is_literal(value):
            parts = (part for target in targets for part in ast.walk(target))
            return [part for part in parts if isinstance(part, ast.Name)]
        case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
            return [target] if _is_literal(value) else []
    return []


def _only_shown(node: ast.AST) -> list[ast.Name]:
    """Return the names that a statement prints or displays, which is no use of them."""
    match node:
        case ast.Expr(value=ast.Name() as name):
            return [name]
        case ast.Call(func=ast.Name(id="print" | "display" | "str" | "repr"), args=args):
            return [name for name in args if isinstance(name, ast.Name)]
    return []


def _is_literal(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Name(id=name), args=[only]) if name in _SAME:
            return _is_literal(only)
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return False
    return True


def _is_typed(tree: ast.Module, typed: frozenset[str]) -> bool:
    nodes = list(ast.walk(tree))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return all(isinstance(node, _SHOWING) for node in nodes) and names <= typed | _SAME
