"""What a cell finds out and nobody looks at: values thrown away, and exceptions swallowed."""

import ast
import sys
from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import Any

from sphinx_claims._executing.arrays import is_mask
from sphinx_claims._executing.asserts import checked, statements
from sphinx_claims._executing.raised import FAILED
from sphinx_claims._executing.reporting import report
from sphinx_claims._python import CLOSE, EQUAL, last_name

_ASKS = (
    CLOSE
    | EQUAL
    | set("all any callable eq ge gt hasattr is_close isinstance issubclass le lt ne".split())
)
"""The names of functions that do nothing but tell whether something is so."""

_ACTS = frozenset(
    "acquire cancel get next poll pop popitem popleft recv send set setdefault wait"
    " wait_for".split()
)
"""The names of functions that do something and may give False without meaning it."""

_COMMANDS = frozenset({"call", "system"})
_LAZY = (GeneratorType, filter, map)
_BROAD = frozenset({"", "Exception", "BaseException"})
_PLAIN = (
    *(ArithmeticError, ZeroDivisionError, AttributeError, NameError),
    *(RuntimeError, SyntaxError, TypeError, ValueError),
)
"""What is raised where something is wrong; the others may be how a program is told something."""


def unread(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and reason of each statement in `tree` that is a question and nothing else."""
    for node in statements(tree):
        if isinstance(node, ast.Expr) and _asks(node.value):
            text = ast.unparse(node.value)
            yield node.lineno, f"nobody looks at what this says: assert it, or print it: {text}"


def watched(tree: ast.Module) -> ast.Module:
    """Rewrite `tree` such that what nobody looks at is told to `Unread`."""
    _Telling().visit(tree)
    return ast.fix_missing_locations(tree)


class Unread:
    """Complains of values that are thrown away and of exceptions that are swallowed.

    An exception `is_told` where something red tells of it already.
    """

    def __init__(
        self, complain: Callable[[str, int | None], None], is_told: Callable[[Any], bool]
    ) -> None:
        self.complain, self._is_told = complain, is_told

    def value(self, line: int, name: str, value: object) -> object:
        """Complain if `value`, which `name` gave and nobody takes, has something to say."""
        if value is not None and (what := _told(name, value)):
            self.complain(f"nobody looks at what {name}() gives here: {what}", line)
        return value

    def passes(self, line: int, is_broad: bool) -> None:  # noqa: FBT001 - as code is built
        """Complain if the exception that is being handled must not be passed over."""
        name = sys._getframe(1).f_code.co_name  # noqa: SLF001 - documented
        self.swallows(sys.exception(), line, is_broad=is_broad, function=name)

    def swallows(
        self, error: BaseException | None, line: int, *, is_broad: bool, function: str
    ) -> None:
        """Complain if `error` tells that something is wrong, or was caught without its name.

        What a `function` catches by name it may have been made for: its result tells.
        """
        is_wrong = is_broad or (function == "<module>" and type(error) in _PLAIN)
        if (is_wrong or hasattr(error, FAILED)) and not self._is_told(error):
            cure = "expect it by :raises: or pytest.raises, or look at what it says"
            told = f"{type(error).__name__} is caught here, and nobody looks at it"
            self.complain(f"{told}: {cure}: {error}", line or None)


def _asks(value: ast.expr) -> bool:
    match value:
        case ast.Compare() | ast.GeneratorExp() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Call():
            return last_name(value) in _ASKS
    return False


def _told(name: str, value: Any) -> str:
    """Return what a value has to say that is thrown away; nothing where it has nothing."""
    if isinstance(value, _LAZY):
        return f"a {type(value).__name__}, which does nothing until it is asked"
    if isinstance(value, list | tuple) and any(isinstance(one, BaseException) for one in value):
        return f"{next(one for one in value if isinstance(one, BaseException))!r}"
    if name in _COMMANDS and isinstance(value, int) and value:
        return f"exit code {value}"
    return "False: assert it" if name not in _ACTS and _is_false(value) else ""


def _is_false(value: Any) -> bool:
    if isinstance(value, bool):
        return not value
    try:
        return is_mask(value) and not bool(value.all())
    except Exception:  # noqa: BLE001 - whatever an array of the page cannot do
        return False


class _Telling(ast.NodeTransformer):
    def visit(self, node: ast.AST) -> Any:
        """Visit statements only."""
        return node if isinstance(node, ast.expr) else super().visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        called = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(called, ast.Call) and not _asks(called) and checked(node) is None:
            told = report("unread.value", node.lineno, last_name(called), node.value)
            node.value = ast.copy_location(told, node.value)
        return node

    def visit_Try(self, node: ast.Try | ast.TryStar) -> ast.AST:
        is_expected = any(isinstance(part, ast.Raise | ast.Assert) for part in node.orelse)
        for handler in () if is_expected else node.handlers:
            is_broad = _broad(handler.type)
            if _is_silent(handler.body, is_broad=is_broad):
                told = ast.Expr(report("unread.passes", handler.lineno, is_broad))
                handler.body.insert(0, ast.copy_location(told, handler.body[0]))
        return self.generic_visit(node)

    visit_TryStar = visit_Try  # noqa: N815 - so ast calls it


def _broad(kind: ast.expr | None) -> bool:
    if kind is None:
        return True
    named = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(last_name(name) in _BROAD for name in named)


def _is_silent(body: list[ast.stmt], *, is_broad: bool) -> bool:
    """Return whether a handler does nothing; to go on with a loop is something, if it is named."""
    silent = (ast.Pass, ast.Continue) if is_broad else (ast.Pass,)
    return all(
        isinstance(line, silent)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        for line in body
    )
