"""What cannot fail, whatever happens: asserts and commands, found without executing them."""

import ast
import re
from collections.abc import Iterator

from sphinx_claims._executing.asserts import checked, statements
from sphinx_claims._executing.reporting import RECORDER
from sphinx_claims._python import CLOSE, EQUAL, TOLERANCES, called_names, last_name

WIDEST = 0.1
"""The largest constant tolerance: beyond it hardly anything is told from anything else."""

_COMPARING = re.compile("close|approx|almost|gradcheck|gradgradcheck", re.IGNORECASE)
_TWO_VALUES_FIRST = re.compile("close", re.IGNORECASE)
_SUSPECT = re.compile(f"{_COMPARING.pattern}|{RECORDER}", re.IGNORECASE)
_FIXED = frozenset({"abs", "float", "id", "int", "len", "list", "max", "min", "set", "sorted"})
"""Functions that give the same each time: of others a page may say that they do."""

_ALIKE = re.compile(r"eq|(?:all|is)_close|assert\w*(?:close|equals?)", re.IGNORECASE)
_SAME = (ast.Eq, ast.GtE, ast.Is, ast.LtE)
_RAISES = frozenset({"assertRaises", "raises"})
_ANY_ERROR = frozenset({"BaseException", "Exception"})
_OPEN = (ast.Name, ast.Call, ast.BinOp)
_COMMANDS = frozenset({"os.system", "subprocess.call", "subprocess.run"})
_DISPLAYS = (ast.Tuple, ast.List, ast.Set)


def vacuous_checks(tree: ast.AST, source: str) -> Iterator[tuple[int, str]]:
    """Yield line and reason of all in `tree`, parsed from `source`, that cannot fail."""
    for node in ast.walk(tree) if _SUSPECT.search(source) else statements(tree):
        match node:
            case ast.Assert():
                reason = _cannot_fail(node.test)
            case ast.Expr(ast.Call() as call) if checked(node) and _compares_alike(call):
                reason = _itself(call)
            case ast.withitem(context_expr=ast.Call() as call) if _passes_for_any(call):
                yield call.lineno, f"any error passes for {ast.unparse(call)}: name its type"
                continue
            case ast.Call():
                reason = _too_wide(node)
            case ast.Expr(ast.Call() as call) if ast.unparse(call.func) in _COMMANDS:
                if any(option.arg == "check" for option in call.keywords):
                    continue
                reason = "nobody looks at how this command ends: let run() have check=True"
            case ast.Name(id=name) | ast.arg(arg=name) if name == RECORDER:
                reason = f"{name} is the prover's own name"
            case _:
                continue
        if reason is not None:
            yield node.lineno, reason


def _cannot_fail(test: ast.expr) -> str | None:
    if (isinstance(test, _DISPLAYS) and test.elts) or (isinstance(test, ast.Dict) and test.keys):
        kind = type(test).__name__.lower()
        return f"this assert cannot fail: a {kind} that holds something is always true"
    is_constant = not any(isinstance(node, _OPEN) for node in ast.walk(test))
    if is_constant and eval(compile(ast.Expression(test), "constants", "eval")):
        return f"this assert cannot fail: {ast.unparse(test)} judges constants only"
    return next(filter(None, map(_always_true, _affirmed(test))), None)


def _affirmed(test: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts of `test` that are not negated and all must hold."""
    waiting = [test]
    while waiting:
        part = waiting.pop()
        yield part
        match part:
            case ast.BoolOp(op=ast.And(), values=values):
                waiting += values
            case ast.Call(func=ast.Attribute(value=value, attr="all" | "item")):
                waiting.append(value)
            case ast.Call(args=[value]) if last_name(part) in {"all", "bool"}:
                waiting.append(value)


def _always_true(part: ast.expr) -> str | None:
    """Return why a part of a test is true of anything; None where it is not."""
    if isinstance(part, ast.Compare) and len(part.ops) == 1:
        return _always_holds(part, part.left, part.ops[0], part.comparators[0])
    why = None
    match part:
        case ast.BoolOp(op=ast.Or(), values=values) if any(map(_is_constant, values)):
            constant = next(filter(_is_constant, values))
            why = f"`or {ast.unparse(constant)}` is always true"
        case ast.Constant(value=str(text)) if text:
            return f"this assert takes {text!r} for a test: a message follows a comma"
        case ast.JoinedStr() | ast.Call(func=ast.Name(id="ascii" | "format" | "repr" | "str")):
            why = f"{ast.unparse(part)} is text, which is true"
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, ast.Name(id="object")]):
            why = f"everything is an object: {ast.unparse(part)}"
        case ast.Call() if _compares_alike(part):
            return _itself(part)
    return why and f"this assert cannot fail: {why}"


def _always_holds(
    part: ast.Compare, left: ast.expr, sign: ast.cmpop, right: ast.expr
) -> str | None:
    """Return why a comparison is true of anything; None where it is not."""
    match left, sign, right:
        case ast.Call(func=ast.Name(id="len")), ast.GtE(), ast.Constant(value=0):
            return f"this assert cannot fail: no length is below 0: {ast.unparse(part)}"
        case ast.Constant(value=""), ast.In(), _:
            return f"this assert cannot fail: all text holds '': {ast.unparse(part)}"
    is_same = isinstance(sign, _SAME) and ast.dump(left) == ast.dump(right)
    is_one = isinstance(left, ast.Name) or not isinstance(sign, ast.Is)  # an attribute may be new
    return _itself(left) if is_same and is_one and _is_fixed(left) else None


def _compares_alike(call: ast.Call) -> bool:
    """Return whether `call` compares something with what is written just as it."""
    given, name = call.args[:2], last_name(call)
    if isinstance(call.func, ast.Attribute) and len(given) == 1 and name in {"allclose", "equal"}:
        given = [call.func.value, *given]
    is_alike = len(given) == 2 and ast.dump(given[0]) == ast.dump(given[1])  # noqa: PLR2004 - two
    compares = name in CLOSE | EQUAL or _ALIKE.fullmatch(name)
    return is_alike and bool(compares) and _is_fixed(given[0])


def _itself(compared: ast.expr) -> str:
    text = ast.unparse(compared)
    return f"this compares something with itself, which tells nothing: {text}"


def _is_fixed(value: ast.expr) -> bool:
    """Return whether `value` is the same each time that it is evaluated."""
    return _FIXED.issuperset(called_names(value))


def _is_constant(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and bool(value.value)


def _passes_for_any(call: ast.Call) -> bool:
    """Return whether `call` expects an error of any type with any message."""
    types = [ast.unparse(argument) for argument in call.args[:1]]
    return last_name(call) in _RAISES and not call.keywords and not _ANY_ERROR.isdisjoint(types)


def _too_wide(call: ast.Call) -> str | None:
    name = last_name(call)
    if not _COMPARING.search(name):
        return None
    given = {option.arg: option.value for option in call.keywords if option.arg in TOLERANCES}
    bare = call.args[2:] if _TWO_VALUES_FIRST.search(name) else []
    for tolerance in (*given.values(), *bare):
        match tolerance:
            case ast.Constant(value=int() | float() as value) if (
                value > WIDEST and value is not True
            ):
                return f"{name} tells nothing at a tolerance of {value!r}: at most {WIDEST}"
    return None
