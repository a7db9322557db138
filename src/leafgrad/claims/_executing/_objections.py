"""What cannot fail, whatever happens: asserts and commands, found without executing them."""

import ast
import re
from collections.abc import Iterator

from leafgrad.claims._executing._asserts import RECORDER, statements

WIDEST = 0.1
"""The largest constant tolerance: beyond it hardly anything is told from anything else."""

_TOLERANCES = frozenset({"abs", "abs_tol", "atol", "delta", "rel", "rel_tol", "rtol"})
_COMPARING = re.compile("close|approx|almost|gradcheck|gradgradcheck", re.IGNORECASE)
_TWO_VALUES_FIRST = re.compile("close", re.IGNORECASE)
_SUSPECT = re.compile(f"{_COMPARING.pattern}|{RECORDER}", re.IGNORECASE)
_OPEN = (ast.Name, ast.Call, ast.BinOp)
_COMMANDS = frozenset({"os.system", "subprocess.call", "subprocess.run"})
_DISPLAYS = (ast.Tuple, ast.List, ast.Set)


def objections(tree: ast.AST, source: str) -> Iterator[tuple[int, str]]:
    """Yield line and reason of all in `tree`, parsed from `source`, that cannot fail."""
    for node in ast.walk(tree) if _SUSPECT.search(source) else statements(tree):
        match node:
            case ast.Assert():
                reason = _cannot_fail(node.test)
            case ast.Call():
                reason = _too_wide(node)
            case ast.Expr(ast.Call() as call) if ast.unparse(call.func) in _COMMANDS:
                reason = _unheeded(call)
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
    if not any(isinstance(node, _OPEN) for node in ast.walk(test)) and _is_true(test):
        return f"this assert cannot fail: {ast.unparse(test)} judges constants only"
    return None


def _is_true(constants: ast.expr) -> bool:
    return bool(eval(compile(ast.Expression(constants), "constants", "eval")))


def _too_wide(call: ast.Call) -> str | None:
    name = ast.unparse(call.func).rpartition(".")[2]
    if not _COMPARING.search(name):
        return None
    given = {option.arg: option.value for option in call.keywords if option.arg in _TOLERANCES}
    bare = call.args[2:] if _TWO_VALUES_FIRST.search(name) else []
    for tolerance in (*given.values(), *bare):
        if isinstance(tolerance, ast.Constant) and _is_wide(tolerance.value):
            return f"{name} tells nothing at a tolerance of {tolerance.value!r}: at most {WIDEST}"
    return None


def _unheeded(call: ast.Call) -> str | None:
    if any(option.arg == "check" for option in call.keywords):
        return None
    return "nobody looks at how this command ends: let run() have check=True"


def _is_wide(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > WIDEST
