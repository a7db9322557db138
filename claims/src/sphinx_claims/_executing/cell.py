"""Execute a `{code-cell}` and compare it with its options and `#>` lines."""

import ast
import builtins
import contextlib
import dataclasses
import io
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sphinx_claims._executing.asserts import RECORDER, report_checks, text_of_check
from sphinx_claims._executing.capture import OutputCapture
from sphinx_claims._executing.itself import useless_checks
from sphinx_claims._executing.raised import describe, line_of
from sphinx_claims._page import Cell, Problem
from sphinx_claims._record import Check

_MAGIC = re.compile(r"\s*[!%?]|.*\?\s*$")
_FRAME = re.compile(r'^ +File "([^"\n]*)", line .*(?:\n    .*)*\n?', re.MULTILINE)
"""A frame of a traceback inside a warning. Only frames of the page are shown."""
_READ_FILE = re.compile(r"unclosed file <_io\.(?:BufferedReader |TextIOWrapper .*mode='rt?')")


def execute_cell(
    cell: Cell, namespace: dict[str, Any], path: str, capture: OutputCapture
) -> BaseException | None:
    """Execute `cell` and show the value of its last expression. Return its exception, or None.

    Tracebacks contain the line numbers of the page `path`.
    """
    try:
        tree = ast.parse("\n" * (cell.line - 1) + cell.source, filename=path)
        for line, objection in useless_checks(tree):
            capture.complain(objection, line)
        last = tree.body.pop() if _shows_last(tree, cell.source) else None
        code = compile(report_checks(tree), path, "exec", dont_inherit=True, optimize=0)
        exec(code, namespace)
        if isinstance(last, ast.Expr):
            text = text_of_check(last)
            expression = compile(ast.Expression(last.value), path, "eval", dont_inherit=True)
            # The last expression, which a notebook shows, is not rewritten to call it.
            recorder = vars(builtins)[RECORDER]
            with recorder.calling(last.lineno, text) if text else contextlib.nullcontext():
                value = eval(expression, namespace)
            if value is not None:
                capture.show(value, "execute_result")
    except BaseException as error:  # noqa: BLE001 - any exception of a cell is reported
        return error
    return None


def check_cell(cell: Cell, error: BaseException | None, capture: OutputCapture) -> Iterator[Check]:
    """Yield a check for each declaration of `cell`: its exception, warnings and `#>` lines.

    `error` is the exception that the cell raised, or None.
    """
    if cell.raises is not None:
        yield _check_declared("raises", cell.raises, [] if error is None else [error], cell.fence)
    if cell.warns is not None:
        warned = [warning.message for warning in capture.warnings]
        yield _check_declared("warns", cell.warns, warned, cell.fence)
    yield from _check_pins(cell, shown_lines(capture.outputs))


def declared_outputs(
    cell: Cell, error: BaseException | None, capture: OutputCapture, path: str
) -> Iterator[dict[str, Any]]:
    """Yield the outputs to show for declared warnings and for a declared exception of `cell`.

    `error` is the exception that the cell raised, if any. `path` is the path of the page.
    """
    if cell.warns is not None:
        for warning in capture.warnings:
            text = describe(warning.message).partition(" (Triggered internally at ")[0]
            own = _FRAME.sub(lambda frame: frame[0] if frame[1] == path else "", text)
            yield {"output_type": "stream", "name": "stderr", "text": f"{own}\n"}
    if cell.raises is not None and error is not None:
        name, message, text = type(error).__name__, str(error), describe(error)
        yield {"output_type": "error", "ename": name, "evalue": message, "traceback": [text]}


def unexpected_error(
    cell: Cell, error: BaseException | None, asserted: Sequence[Check], path: str
) -> Iterator[Problem]:
    """Yield a problem for an exception that `cell` does not declare.

    `error` is the exception that the cell raised, if any. Yield nothing if a false assert raised
    it, because `asserted` reports that already. `path` is the path of the page.
    """
    if error is None or cell.raises is not None:
        return
    line = line_of(error, path) or cell.line
    told = {check.line for check in asserted if not check.passed}
    if not (isinstance(error, AssertionError) and line in told):
        is_magic = isinstance(error, SyntaxError) and _MAGIC.match(error.text or "")
        cure = ": a cell is plain Python, without IPython's !, % and ?" if is_magic else ""
        yield Problem(line, describe(error) + cure)


def undeclared_warnings(
    caught: list[warnings.WarningMessage], declared: str | None
) -> Iterator[warnings.WarningMessage]:
    """Yield the warnings in `caught` that do not match `declared`.

    The ResourceWarning about an unclosed file in `open("data.txt").read()` is left out, because
    Python hides it by default.
    """
    for warning in caught:
        if warning.category is ResourceWarning and _READ_FILE.match(str(warning.message)):
            continue
        if declared is None or not _matches(declared, warning.message):
            yield warning


def pins(source: str) -> list[tuple[int, int, str]]:
    """Return the line and the column (both from 0) and the text of each `#> text` comment."""
    found: list[tuple[int, int, str]] = []
    if "#>" not in source:
        return found
    with contextlib.suppress(SyntaxError, tokenize.TokenError):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and token.string.startswith("#>"):
                line, column = token.start
                text = token.string[2:].removeprefix(" ").rstrip()
                found.append((line - 1, column, text))
    return found


def remove_pins(source: str) -> str:
    """Return the code of a cell without `#>` comments, because the page shows the actual output."""
    lines: list[str | None] = list(source.splitlines())
    for index, column, _ in pins(source):
        kept = (lines[index] or "")[:column].rstrip()
        lines[index] = kept or None
    return "\n".join(line for line in lines if line is not None)


def shown_lines(outputs: Iterable[dict[str, Any]]) -> list[str]:
    """Return the lines of text in the outputs of a cell."""
    texts = (out.get("text", out.get("data", {}).get("text/plain")) for out in outputs)
    return [line for text in texts if text for line in text.rstrip("\n").split("\n")]


def _shows_last(tree: ast.Module, source: str) -> bool:
    ends_in_expression = bool(tree.body) and isinstance(tree.body[-1], ast.Expr)
    return ends_in_expression and not source.rstrip().endswith(";")


def _check_pins(cell: Cell, shown: list[str]) -> Iterator[Check]:
    pinned = pins(cell.source)
    if not pinned:
        return
    for position, (index, _, text) in enumerate(pinned):
        found = shown[position].rstrip() if position < len(shown) else None
        yield Check(
            line=cell.line + index,
            kind="output",
            text=text,
            passed=found == text,
            expected=text,
            found="(no output)" if found is None else found,
        )
    last, nothing = cell.line + pinned[-1][0], "(no more output)"
    more = Check(line=last, kind="output", text="", passed=False, expected=nothing)
    for extra in shown[len(pinned) :]:
        yield dataclasses.replace(more, text=extra, found=extra)


def _check_declared(kind: str, declared: str, happened: Sequence[object], line: int) -> Check:
    passed = any(_matches(declared, thing) for thing in happened)
    found = "; ".join(map(describe, happened)) or "nothing"
    return Check(line=line, kind=kind, text=declared, expected=declared, passed=passed, found=found)


def _matches(declared: str, happened: object) -> bool:
    (name, _, pattern), kind = declared.partition(":"), type(happened)
    names = {kind.__name__, f"{kind.__module__}.{kind.__qualname__}"}
    return name.strip() in names and re.search(pattern.strip(), str(happened)) is not None
