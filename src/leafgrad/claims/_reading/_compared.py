"""Comparisons in inline code that anyone could evaluate, and nobody does."""

import ast
import builtins
import re
from collections.abc import Iterator, Sequence

from markdown_it.token import Token

from leafgrad.claims._reading._census import parsed
from leafgrad.claims._reading._stated import is_literal

_GIVES = re.compile(
    r"\s*(?:is|equals|gives|returns|prints|shows|yields|evaluates to|=|==|→|->)\s*(?:not\s*)?$"
)
_MODULES = frozenset({"math", "np", "numpy", "torch"})


def compared(children: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    """Yield each span of code that says what something comes to, and what it says.

    It is a comparison of values, as `1 + 1 == 3`, or `1 + 1` is followed by words and by `3`.
    What depends on a name may be a condition, or true of another page's name.
    """
    for index, child in enumerate(children):
        if child.type != "code_inline":
            continue
        expression = _expression(child.content)
        if isinstance(expression, ast.Compare) and _is_closed(expression):
            yield child, child.content
        elif _is_computed(expression) and _is_followed_by_value(children[index + 1 : index + 3]):
            yield child, f"{child.content} == {children[index + 2].content}"


def _expression(source: str) -> ast.expr | None:
    tree = parsed(source.strip())
    match tree.body if tree is not None else ():
        case [ast.Expr(value=expression)]:
            return expression
    return None


def _is_closed(expression: ast.expr) -> bool:
    """Tell whether `expression` holds values, builtins and functions of well-known modules only."""
    names = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}
    calls = (node for node in ast.walk(expression) if isinstance(node, ast.Call))
    is_known = all(name in _MODULES or hasattr(builtins, name) for name in names)
    is_placeholder = any(
        isinstance(node, ast.Constant) and node.value is ... for node in ast.walk(expression)
    )
    return is_known and not is_placeholder and (not names or any(calls))


def _is_computed(expression: ast.expr | None) -> bool:
    if not isinstance(expression, ast.BinOp | ast.Call | ast.Subscript):
        return False
    return _is_closed(expression)


def _is_followed_by_value(following: Sequence[Token]) -> bool:
    match following:
        case [Token(type="text") as text, Token(type="code_inline") as value]:
            return _GIVES.match(text.content) is not None and is_literal(value.content)
    return False
