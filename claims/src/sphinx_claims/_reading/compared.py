"""Comparisons in inline code that anyone could evaluate, and nobody does."""

import ast
import builtins
import re
from collections.abc import Iterator, Sequence

from markdown_it.token import Token

from sphinx_claims._python import parsed
from sphinx_claims._reading.typed_results import is_literal
from sphinx_claims._vocabulary import known

_VERB = r"\s*(?:is|equals|gives|returns|prints|shows|yields|evaluates to|=|==|→|->)\s*(?:not\s*)?"
_GIVES = re.compile(_VERB)
_GIVES_NUMBER = re.compile(rf"{_VERB}([-+]?\d[\d.]*)(?![\w-])")


def compared(children: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    """Yield each span of code that says what something comes to, and what it says.

    It is a comparison of values, as `1 + 1 == 3`, or `1 + 1` is followed by words and by `3`.
    What depends on a name may be a condition, or true of another page's name.
    """
    for index, child in enumerate(children):
        if child.type != "code_inline":
            continue
        expression = _expression(child.content)
        if _is_comparison(expression) and _is_closed(expression):
            yield child, child.content
        elif _is_computed(expression) and (value := _given(children[index + 1 : index + 3])):
            yield child, f"{child.content} == {value}"


def _expression(source: str) -> ast.AST | None:
    """Return the expression that `source` is, where `=` may be meant as `==`."""
    tree = parsed(source.strip()) or parsed(re.sub(r"(?<![=!<>])=(?!=)", "==", source.strip()))
    match tree.body if tree is not None else ():
        case [ast.Expr(value=expression)]:
            return expression
    return None


def _is_comparison(expression: ast.AST | None) -> bool:
    if not isinstance(expression, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Call):
        return False
    return any(isinstance(node, ast.Compare) for node in ast.walk(expression))


def _is_closed(expression: ast.AST | None) -> bool:
    """Return whether `expression` holds but values, builtins and functions of known modules."""
    nodes = list(ast.walk(expression or ast.Pass()))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    modules = {"math", *known().names}
    is_known = all(name in modules or hasattr(builtins, name) for name in names)
    is_placeholder = any(isinstance(node, ast.Constant) and node.value is ... for node in nodes)
    return is_known and not is_placeholder and (not names or bool(calls))


def _is_computed(expression: ast.AST | None) -> bool:
    is_operation = isinstance(expression, ast.BinOp | ast.Call | ast.Subscript)
    return is_operation and _is_closed(expression)


def _given(following: Sequence[Token]) -> str | None:
    """Return the value that the words behind a span of code give to it."""
    match following:
        case [Token(type="text") as text, Token(type="code_inline") as value]:
            is_given = _GIVES.fullmatch(text.content) and is_literal(value.content)
            return value.content if is_given else None
        case [Token(type="text") as text, *_]:
            found = _GIVES_NUMBER.match(text.content)
            return found[1] if found else None
    return None
