"""Evidence that also tells what its checks compare, and what becomes of them with other values.

Each assert `left < abs(right)` is rewritten to `SEEN.test(line, lambda: left < abs(right))` in
which `SEEN` hears of every value that is compared. So the same evidence tells whether a mutant
changes anything that a check looks at, and which checks other values would satisfy as well.
"""

import ast
import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from sphinx_claims._executing.asserts import checked
from sphinx_claims._mutating.edit import Code
from sphinx_claims._mutating.values import SAME, mark, others
from sphinx_claims._page import Cell, Inline, Step
from sphinx_claims._python import CLOSE, EQUAL, called_names, last_name

SEEN = "__claims_seen__"
"""The builtin that hears of what is compared."""

ROUNDED = "~"
"""At the end of the key of what needs to be equal in its first digits only."""

_DIGITS = 5

Kind = Literal["equal", "close", "same", "bound", "truth"]

_CLOSE = CLOSE | {"assert_allclose", "assert_close"}
_EQUAL = EQUAL | {"assertEqual", "assert_equal"}
_SCOPED = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
_OWN_SCOPE = (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp, ast.Lambda)
_NUMERIC = frozenset({"abs", "item", "max", "mean", "min", "norm", "sum"})
_BOTH_SIGNS = frozenset({"abs", "norm"})
_IDENTITIES = frozenset({"data_ptr", "id"})
_MOST = 8
"""How often the values of one assert are changed: it may stand in a loop."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operand:
    """A value that a check compares: on which `side`, and of which of the comparisons there."""

    line: int
    place: int
    comparison: int
    side: int
    kind: Kind
    text: str
    is_absolute: bool = False
    is_required: bool = True

    @property
    def key(self) -> str:
        """Return the name under which its values are kept."""
        return f"{self.line}:{self.place}{ROUNDED if self.kind == 'close' else ''}"


class Listener:
    """Hears of the values that are compared, and tries others in their place."""

    def __init__(self, *, tries: bool) -> None:
        self._tries = tries
        self._values: dict[str, Any] = {}
        self._heard: dict[str, set[str]] = {}
        self._other: tuple[str, int] | None = None
        self._left: dict[int, int] = {}
        self._words: dict[str, dict[str, bool]] = {}
        self._made: list[str] = []
        self._is_quiet = False

    @property
    def heard(self) -> dict[str, list[str]]:
        """What was compared, under the key of each operand: the values, however often they came."""
        return {key: sorted(found) for key, found in self._heard.items()}

    @property
    def tried(self) -> dict[str, dict[str, bool]]:
        """For each operand the other values that were tried, and whether a check was false then."""
        return self._words

    def test(self, line: int, test: Callable[[], Any]) -> Any:
        """Evaluate the test of an assert."""
        if self._is_quiet:  # a test that calls what asserts
            return test()
        self._values, self._other = {}, None
        found = test()
        left = self._left.setdefault(line, _MOST)
        if self._tries and left:
            self._left[line] -= 1
            self._is_quiet = True
            try:
                self._try_others(line, test)
            finally:
                self._is_quiet = False
        return found

    def value(self, key: str, value: Callable[[], Any], peer: str = "") -> Any:
        """Evaluate an operand, once for all the times that its test is evaluated.

        Where it must only be another object than its `peer`, no value but that one makes a
        difference.
        """
        if key not in self._values:
            self._values[key] = value()
            self._hear(key, self._values[key])
        return self._changed(key, self._values[key], peer)

    def each(self, key: str, value: Any) -> Any:
        """Take an operand that is evaluated again and again in its test."""
        self._hear(key, value)
        return self._changed(key, value)

    def note(self, key: str, value: Any) -> Any:
        """Take what was observed beside asserts."""
        self._hear(key, value)
        return value

    def _hear(self, key: str, value: Any) -> None:
        if not self._is_quiet:
            digits = {"digits": _DIGITS} if key.endswith(ROUNDED) else {}
            digest = hashlib.sha256(mark(value, **digits)).hexdigest()[:16]
            self._heard.setdefault(key, set()).add(digest)

    def _changed(self, key: str, value: Any, peer: str = "") -> Any:
        if self._other is None or self._other[0] != key:
            return value
        made = others(value)
        if peer in self._values:
            made.append((SAME, self._values[peer]))
        self._made = [words for words, _ in made]
        index = self._other[1]
        return made[index][1] if index < len(made) else value

    def _try_others(self, line: int, test: Callable[[], Any]) -> None:
        self._other = None
        if not _is_true(test):
            return  # it is not the same each time
        for key in [key for key in self._heard if key.partition(":")[0] == str(line)]:
            index, self._made = 0, [""]
            while index < len(self._made):
                self._made = []
                self._other = key, index
                found = _is_true(test)
                if index < len(self._made):
                    known = self._words.setdefault(key, {})
                    words = self._made[index]
                    if found is not None:
                        known[words] = known.get(words, False) or not found
                index += 1
        self._other = None


def observed(step: Step) -> tuple[Step, tuple[Operand, ...]]:
    """Return a step that tells what its checks compare, and what these are."""
    match step:
        case Cell(source=source):
            rewritten, operands = _of_code(source, step.line)
        case Inline(role="claim", source=source):
            tree = ast.parse(source, mode="eval")
            seeing = _Seeing(step.line)
            rewritten, operands = seeing.rewritten(tree.body), tuple(seeing.operands)
        case _:
            return step, ()
    return dataclasses.replace(step, source=rewritten), operands


def _of_code(source: str, line: int) -> tuple[str, tuple[Operand, ...]]:
    code = Code(source)
    operands: list[Operand] = []
    edits = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert):
            test = node.test
        elif isinstance(node, ast.Expr) and checked(node):
            test = node.value
        else:
            continue
        if any(isinstance(part, _SCOPED) for part in ast.walk(test)):
            continue
        edit = code.edit(test, "", group="check", words="")  # of the test as it is written
        seeing = _Seeing(line + node.lineno - 1)
        is_test = isinstance(node, ast.Assert)
        text = seeing.rewritten(test) if is_test else ast.unparse(seeing.call(test))
        edits.append(dataclasses.replace(edit, text=text))
        operands += seeing.operands
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        source = edit.applied(source)[:-1]
    return f"{source}\n", tuple(operands)


class _Seeing:
    """Rewrites one test, and notes what it compares."""

    def __init__(self, line: int) -> None:
        self._line = line
        self._comparisons = 0
        self._is_required, self._is_inside = True, False
        self.operands: list[Operand] = []

    def rewritten(self, test: ast.expr) -> str:
        """Return the text of a call that evaluates `test`."""
        return f"{SEEN}.test({self._line}, lambda: ({ast.unparse(self._test(test))}))"

    def call(self, call: ast.expr) -> ast.expr:
        """Return a call that raises where what it compares differs, and tells of it."""
        if not isinstance(call, ast.Call):
            return call
        self._comparisons += 1
        kind: Kind = _kind_of(last_name(call)) or "bound"
        sides = [
            argument
            if isinstance(argument, ast.Starred)
            else self._leaf(argument, kind, side, is_noted=True)
            for side, argument in enumerate(call.args)
        ]
        return ast.Call(call.func, sides, call.keywords)

    def _test(self, test: ast.expr) -> ast.expr:
        seen: ast.expr
        match test:
            case ast.BoolOp(op=op, values=values):
                with self._requiring(all_of=isinstance(op, ast.And)):
                    seen = ast.BoolOp(op, [self._test(value) for value in values])
            case ast.UnaryOp(op=ast.Not() as op, operand=operand):
                with self._requiring(all_of=False):
                    seen = ast.UnaryOp(op, self._test(operand))
            case ast.Compare():
                seen = self._compare(test)
            case ast.Call(
                func=ast.Attribute(value=ast.Compare() as value, attr="all" | "item" as name),
                args=[],
                keywords=[],
            ):
                compared = self._test(value)
                seen = ast.Call(ast.Attribute(compared, name, ast.Load()), [], [])
            case ast.Call(func=function, args=[ast.GeneratorExp() as values], keywords=[]) if (
                called := last_name(test)
            ) in {"all", "any"}:
                with self._requiring(all_of=called == "all", inside=True):
                    elt = self._test(values.elt)
                seen = ast.Call(function, [ast.GeneratorExp(elt, values.generators)], [])
            case ast.Call() if known := _kind_of(last_name(test)):
                seen = self._alike(test, known)
            case _:
                self._comparisons += 1
                seen = self._leaf(test, "truth", 0)
        return seen

    @contextlib.contextmanager
    def _requiring(self, *, all_of: bool, inside: bool = False) -> Iterator[None]:
        """Note of what follows whether all of the test is false where it is, and if it repeats."""
        before = self._is_required, self._is_inside
        self._is_required, self._is_inside = before[0] and all_of, before[1] or inside
        yield
        self._is_required, self._is_inside = before

    def _compare(self, test: ast.Compare) -> ast.Compare:
        self._comparisons += 1
        sides = [test.left, *test.comparators]
        is_distance = any(map(_is_distance, sides))
        is_close = is_distance and all(isinstance(sign, ast.Lt | ast.LtE) for sign in test.ops)
        calls = [side for side in sides if isinstance(side, ast.Call)]
        is_close = is_close or any(last_name(call) in _CLOSE for call in calls)
        kind: Kind = "close" if is_close else _kind_of_signs(test.ops)
        if _tells_objects_apart(test) and not self._is_inside:
            left, *others = self._peers(sides)
        else:
            arithmetic = (self._arithmetic(side, kind, index) for index, side in enumerate(sides))
            left, *others = arithmetic
        return ast.Compare(left, test.ops, others)

    def _peers(self, sides: Sequence[ast.expr]) -> list[ast.expr]:
        """Rewrite two sides that must not be the same object, so that each knows the other."""
        seen = [self._leaf(side, "bound", index) for index, side in enumerate(sides)]
        keys = [operand.key for operand in self.operands[-2:]]
        for side, peer in zip(seen, reversed(keys), strict=True):
            if isinstance(side, ast.Call):
                side.args.append(ast.Constant(peer))
        return seen

    def _alike(self, call: ast.Call, kind: Kind) -> ast.expr:
        """Rewrite `close(a, b)` or `a.equal(b)`."""
        self._comparisons += 1
        function, given = call.func, list(call.args)
        if any(isinstance(argument, ast.Starred) for argument in given):
            return call
        if len(given) == 1 and isinstance(function, ast.Attribute):
            seen = self._arithmetic(function.value, kind, 0)
            function = ast.Attribute(seen, function.attr, function.ctx)
            given = [self._arithmetic(given[0], kind, 1)]
        else:
            given[:2] = [
                self._arithmetic(side, kind, index) for index, side in enumerate(given[:2])
            ]
        return ast.Call(function, given, call.keywords)

    def _arithmetic(
        self, side: ast.expr, kind: Kind, index: int, *, is_absolute: bool = False
    ) -> ast.expr:
        def go(part: ast.expr, *, within: bool = is_absolute) -> ast.expr:
            return self._arithmetic(part, kind, index, is_absolute=within)

        match side:
            case ast.Constant():
                return side
            case ast.BinOp(
                left=left, op=(ast.Add() | ast.Sub() | ast.Mult() | ast.Div()) as op, right=right
            ):
                return ast.BinOp(go(left, within=False), op, go(right, within=False))
            case ast.UnaryOp(op=op, operand=operand):
                return ast.UnaryOp(op, go(operand))
            case ast.Call(func=ast.Name(id=name), args=[part], keywords=[]) if (
                name in _NUMERIC and not isinstance(part, ast.Starred | ast.GeneratorExp)
            ):
                within = is_absolute or name in _BOTH_SIGNS
                return ast.Call(side.func, [go(part, within=within)], [])
            case ast.Call(func=ast.Attribute(value=part, attr=name) as func, args=[]) if (
                name in _NUMERIC and _has_arithmetic(part)
            ):
                within = is_absolute or name in _BOTH_SIGNS
                seen = ast.Attribute(go(part, within=within), name, func.ctx)
                return ast.Call(seen, [], side.keywords)
        return self._leaf(side, kind, index, is_absolute=is_absolute)

    def _leaf(
        self,
        value: ast.expr,
        kind: Kind,
        side: int,
        *,
        is_absolute: bool = False,
        is_noted: bool = False,
    ) -> ast.expr:
        if _is_constant(value):
            return value
        operand = Operand(
            line=self._line,
            place=len(self.operands),
            comparison=self._comparisons,
            side=side,
            kind=kind,
            text=ast.unparse(value),
            is_absolute=is_absolute,
            is_required=self._is_required,
        )
        self.operands.append(operand)
        method = "note" if is_noted else "each" if self._is_inside else "value"
        called = ast.Attribute(ast.Name(SEEN, ast.Load()), method, ast.Load())
        given: ast.expr = value
        if method == "value":
            nothing = ast.arguments(
                posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]
            )
            given = ast.Lambda(nothing, value)
        return ast.Call(called, [ast.Constant(operand.key), given], [])


def _is_true(test: Callable[[], Any]) -> bool | None:
    """Evaluate a test with another value; None where it cannot be."""
    try:
        return bool(test())
    except Exception:  # noqa: BLE001 - a value that does not fit tells nothing
        return None


def _kind_of_signs(signs: Sequence[ast.cmpop]) -> Kind:
    if all(isinstance(sign, ast.Is) for sign in signs):
        return "same"
    return "equal" if all(isinstance(sign, ast.Eq) for sign in signs) else "bound"


def _kind_of(name: str) -> Kind | None:
    return "close" if name in _CLOSE else "equal" if name in _EQUAL else None


def _tells_objects_apart(test: ast.Compare) -> bool:
    """Return whether `test` is `a is not b`, `id(a) != id(b)` or the like."""
    sides = [test.left, *test.comparators]
    if len(sides) != 2 or any(_is_constant(side) for side in sides):  # noqa: PLR2004 - a pair
        return False
    named = all(isinstance(side, ast.Call) and last_name(side) in _IDENTITIES for side in sides)
    return isinstance(test.ops[0], ast.IsNot) or (isinstance(test.ops[0], ast.NotEq) and named)


def _is_constant(side: ast.expr) -> bool:
    return isinstance(side, ast.Starred | ast.Constant) or _is_written(side)


def _is_distance(side: ast.expr) -> bool:
    """Return whether `side` is `abs(a - b)` or `(a - b).abs().max()`."""
    has_difference = any(
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) for node in ast.walk(side)
    )
    return has_difference and not _BOTH_SIGNS.isdisjoint(called_names(side))


def _has_arithmetic(part: ast.expr) -> bool:
    return any(isinstance(node, ast.BinOp | ast.UnaryOp) for node in _outside_of_scopes(part))


def _outside_of_scopes(part: ast.AST) -> Iterator[ast.AST]:
    yield part
    if not isinstance(part, _OWN_SCOPE):
        for child in ast.iter_child_nodes(part):
            yield from _outside_of_scopes(child)


def _is_written(value: ast.expr) -> bool:
    """Return whether `value` is expected and written down: its constants are changed."""
    names = (node for node in ast.walk(value) if isinstance(node, ast.Name | ast.Attribute))
    return isinstance(value, ast.List | ast.Tuple | ast.Set | ast.Dict) and not any(names)
