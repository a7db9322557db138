"""Execute examples with doctest's comparison and option flags.

doctest's runner finds the source of an example only while the block of that example runs. A
traceback through a function from another block therefore ends in an IndexError. Here every example
is a separate file in `linecache`, whose first line is line 1, as in doctest.
"""

import __future__

import ast
import contextlib
import doctest
import functools
import io
import linecache
import re
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from sphinx_claims._executing.asserts import report_checks
from sphinx_claims._executing.itself import useless_checks
from sphinx_claims._executing.raised import Causes
from sphinx_claims._executing.recorder import Recorder
from sphinx_claims._page import Doctest, Problem
from sphinx_claims._python import parse_python
from sphinx_claims._record import Check

_FEATURES: dict[str, Any] = {n: vars(__future__)[n] for n in __future__.all_feature_names}
_MESSAGES = re.compile(r"^[ |]*\| (\S.*\n)", re.MULTILINE)


class ExampleRunner:
    """Runs the examples of a page in its `namespace`, under the page's own option flags."""

    def __init__(
        self,
        path: str,
        namespace: dict[str, Any],
        flags: Iterable[str],
        recorder: Recorder,
        causes: Causes,
    ) -> None:
        self._path, self._namespace, self._recorder = path, namespace, recorder
        self._flags = _combine_flags(doctest.DONT_ACCEPT_TRUE_FOR_1, flags)
        self._causes = causes

    def run(self, step: Doctest) -> Iterator[Check | Problem]:
        """Run the examples in `step`. Yield a check for each example with output, and problems."""
        if step.skip_if and eval(step.skip_if, self._namespace):
            return
        flags = _combine_flags(self._flags, step.options)
        for line, example in step.examples():
            own = flags
            for flag, is_on in example.options.items():
                own = own | flag if is_on else own & ~flag
            tree = parse_python("\n" * (line - 1) + example.source)
            for place, objection in useless_checks(tree) if tree is not None else ():
                yield Problem(place, objection)
            if not own & doctest.SKIP:
                yield from self._compare(line, example, own, "exec" if step.is_code else "single")

    def _compare(
        self, line: int, example: doctest.Example, flags: int, mode: str
    ) -> Iterator[Check]:
        """Execute an example. Yield a check if it has an expected output, or if it fails.

        `line` is the line of the example on the page.
        """
        shown, error = self._execute(line, example, mode)
        message = "" if error is None else _last_lines(error)
        if isinstance(error, BaseExceptionGroup) and (wanted := _group_messages(example.want)):
            example = doctest.Example(example.source, example.want, wanted)
            message = _group_messages("".join(traceback.format_exception(error)))
        if _is_as_wanted(example, shown, message, flags):
            if error is not None:
                self._recorder.excuse(error)
            if example.want:
                yield _check(line, example, "", passed=True)
        elif error is None:
            cause = "" if example.exc_msg is None else f"line {line}"
            yield _check(line, example, shown, passed=False, cause=cause)
        elif example.exc_msg is not None:
            yield _check(line, example, message, passed=False)
        elif not self._recorder.has_told(error):
            cause = self._causes.of(error, example.source, line)
            yield _check(line, example, f"{message.strip()}\n", passed=False, cause=cause)

    def _execute(
        self, line: int, example: doctest.Example, mode: str
    ) -> tuple[str, BaseException | None]:
        """Execute an example on `line` of its page.

        Return its output, and its exception or None.
        """
        shown = io.StringIO()
        imported = {
            feature.compiler_flag
            for name, feature in _FEATURES.items()
            if name in self._namespace and self._namespace[name] is feature
        }
        file, source = f"<doctest {self._path}[{line}]>", example.source
        lines = source.splitlines(keepends=True)
        linecache.cache[file] = (len(source), None, lines, file)
        try:
            tree = ast.parse("\n" * (line - 1) + source, file)
            body = ast.increment_lineno(report_checks(tree), 1 - line).body
            whole = ast.Module(body, []) if mode == "exec" else ast.Interactive(body)
            code = compile(whole, file, mode, sum(imported), dont_inherit=True)
            with contextlib.redirect_stdout(shown):
                exec(code, self._namespace)
        except BaseException as error:  # noqa: BLE001 - any exception of an example is compared
            return shown.getvalue(), error
        return shown.getvalue(), None


def _combine_flags(flags: int, options: Iterable[str]) -> int:
    """Return `flags` with each option applied: `NAME` or `+NAME` switches on, `-NAME` off."""
    for option in options:
        flag = doctest.OPTIONFLAGS_BY_NAME[option.lstrip("+-")]
        flags = flags & ~flag if option.startswith("-") else flags | flag
    return flags


def _last_lines(error: BaseException) -> str:
    """Return the part of a traceback below its frames. For a SyntaxError, omit the source line."""
    lines = traceback.format_exception_only(error)
    if isinstance(error, SyntaxError):
        name = type(error).__qualname__
        first = next((i for i, line in enumerate(lines) if line.startswith(f"{name}:")), -1)
        lines = lines[first:]
    return "".join(lines)


def _group_messages(text: str) -> str:
    """Return the messages in `text` if it is the traceback of an exception group, else "".

    doctest cannot read such a traceback.
    """
    is_group = text.lstrip().startswith("+ Exception Group Traceback")
    return "".join(_MESSAGES.findall(text)) if is_group else ""


def _is_as_wanted(example: doctest.Example, shown: str, message: str, flags: int) -> bool:
    if message and example.exc_msg is None:
        return False
    wanted, actual = (str(example.exc_msg), message) if message else (example.want, shown)
    # Sphinx runs examples outside a module, so its pages lack the prefix.
    check = functools.partial(doctest.OutputChecker().check_output, optionflags=flags)
    if check(wanted, actual) or check(wanted, actual.replace("__main__.", "")):
        return True
    is_type_enough = bool(message and flags & doctest.IGNORE_EXCEPTION_DETAIL)
    return is_type_enough and _type_of(wanted) == _type_of(message)


def _type_of(message: str) -> str:
    return message.partition(":")[0].strip().rpartition(".")[2]


def _check(
    line: int, example: doctest.Example, found: str, *, passed: bool, cause: str = ""
) -> Check:
    expected = example.want if example.exc_msg is None else example.exc_msg
    return Check(
        line=line,
        kind="example",
        text=example.source.strip(),
        expected=expected,
        found=found,
        passed=passed,
        cause=cause,
    )
