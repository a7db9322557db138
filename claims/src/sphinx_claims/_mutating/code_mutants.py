"""Python -> every small change of it that ought to make a claim false."""

import ast
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from sphinx_claims._mutating.edit import Code, Edit
from sphinx_claims._mutating.expected import Roles, is_exact
from sphinx_claims._python import SHOWS, called_names, loaded, stored

_MODES = frozenset({"enable_grad", "inference_mode", "no_grad", "set_grad_enabled"})
_DROPPED = frozenset({"clone", "detach", "requires_grad_", "retain_grad"})
_NEUTRAL = {
    ast.With: '__import__("contextlib").nullcontext()',
    ast.FunctionDef: "(lambda same: same)",
}
_BOUND = (ast.Name, ast.Tuple, ast.expr_context)
_WIDTH = 100


def statement_edits(source: str, read: Counter[str], *, shown: bool) -> Iterator[Edit]:
    """Yield the changes of statements; `read` counts the names that the whole evidence reads.

    The last statement is not deleted where what it does is `shown`: that would prove nothing.
    """
    code, tree = Code(source), ast.parse(source)
    kept = tree.body[-1:] if shown else []
    deleted = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node not in kept and _acts(node, read)
    ]
    tests = [node.test for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    yield from _checks(code, tests)
    yield from _constants(code, tree, tests)
    for node in deleted:
        words = f"deleted `{_brief(node)}`"
        makes_members = isinstance(node, ast.AugAssign) and isinstance(node.value, ast.List)
        called = () if makes_members else tuple(called_names(node))
        yield code.edit(node, "pass", group="subject", words=words, names=called)
    yield from _calls(code, tree, {node.value for node in deleted if isinstance(node, ast.Expr)})
    yield from _modes(code, tree)


def expression_edits(source: str) -> Iterator[Edit]:
    """Yield the changes of an expression that is itself a check."""
    code, test = Code(source), ast.parse(source, mode="eval").body
    yield from _checks(code, [test])
    yield from _constants(code, test, [test])
    yield from _calls(code, test, ())


def changed(text: str) -> str:
    """Change the last letter or digit of `text`; add one where there is none."""
    for index in reversed(range(len(text))):
        letter = text[index]
        if letter.isascii() and letter.isalnum():
            after = {"9": "0", "z": "a", "Z": "A"}.get(letter) or chr(ord(letter) + 1)
            return text[:index] + after + text[index + 1 :]
    return f"{text}x"


def _checks(code: Code, tests: Collection[ast.expr]) -> Iterator[Edit]:
    for test in tests:
        words = f"negated `{_brief(test)}`"
        yield code.edit(test, f"not ({code.text(test)})", group="check", words=words)


def _constants(code: Code, tree: ast.AST, tests: Collection[ast.expr]) -> Iterator[Edit]:
    """Yield the changes of constants: those that a test compares with are its own."""
    roles = Roles(tree, tests)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and (role := roles.of(node)) is not None:
            test = roles.test_of(node)
            others = _others(node.value) if role == "subject" else _expected(node.value, test)
            place = "" if test is None else f" in `{_brief(test)}`"
            for other in others:
                words = f"constant {node.value!r} -> {other!r}{place}"
                names = (
                    roles.option_of(node) if isinstance(node.value, bool) else repr(node.value),
                )
                yield code.edit(node, repr(other), group=role, words=words, names=names)


def _others(value: Any) -> Iterator[Any]:
    """Yield what a flag or a number is changed to."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float | complex):
        yield value + 1 if value + 1 != value else value * 2


def _expected(value: Any, test: ast.AST | None) -> Iterator[Any]:
    """Yield what an expected value is changed to, a number also to one that is nearly the same."""
    yield from _others(value)
    if isinstance(value, str):
        yield changed(value)
    elif value is None:
        yield 0
    elif isinstance(value, float) and value and test is not None and is_exact(test):
        yield value * 1.001


def _calls(code: Code, tree: ast.AST, deleted: Collection[ast.AST]) -> Iterator[Edit]:
    """Yield a change for each method call that makes a difference to autograd: without it."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if (
                name in _DROPPED and node not in deleted
            ):
                words = f"dropped `.{name}()` in `{_brief(node)}`"
                text = f"({code.text(value)})"
                yield code.edit(node, text, group="subject", words=words, names=(name,))


def _modes(code: Code, tree: ast.AST) -> Iterator[Edit]:
    """Yield a change for each grad mode that a block or a function is in: without it."""
    for node in ast.walk(tree):
        modes: list[ast.expr] = []
        if isinstance(node, ast.With):
            modes = [item.context_expr for item in node.items]
        elif isinstance(node, ast.FunctionDef):
            modes = node.decorator_list
        for mode in modes:
            text = ast.unparse(mode)
            if (name := text.partition("(")[0].rpartition(".")[2]) in _MODES:
                neutral, words = _NEUTRAL[type(node)], f"removed `{text}`"
                yield code.edit(mode, neutral, group="subject", words=words, names=(name,))


def _acts(statement: ast.stmt, read: Counter[str]) -> bool:
    """Return whether a statement does more than bind names that would be missing without it."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
            return name not in SHOWS
        case ast.Expr(value=value):
            return isinstance(value, ast.Call)
        case ast.Assign(targets=targets, value=value):
            names = stored(targets)
            nodes = (node for target in targets for node in ast.walk(target))
            binds = all(isinstance(node, _BOUND) for node in nodes)
            is_read = any(read[name] for name in names)
            return not binds or not is_read or not names.isdisjoint(loaded([value]))
        case _:
            return isinstance(statement, ast.AugAssign | ast.Delete)


def _brief(node: ast.AST) -> str:
    return textwrap.shorten(ast.unparse(node), _WIDTH)
