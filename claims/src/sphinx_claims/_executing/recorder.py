"""Collect the checks of a page, in the page's process and in forked ones."""

import contextlib
import io
import os
import pickle
import reprlib
import sys
import tempfile
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sphinx_claims._executing.raised import line_of, line_on_page
from sphinx_claims._record import Check

_ALWAYS_TRUE = frozenset(
    "async_generator builtin_function_or_method coroutine function generator method method-wrapper"
    " method_descriptor module type wrapper_descriptor".split()
)
"""The names of types whose values are always true."""


class Recorder:
    """Collects the results of checks, also from forked processes, until `take` returns them.

    A check in a function is evidence for the cell that calls the function. In a forked process, the
    copy of the recorder writes the checks to a shared file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.settle()

    def settle(self) -> None:
        """Discard all recorded checks, and treat the current process as the page's own.

        Processes that are forked later write their checks to a temporary file, from which this
        process reads them.
        """
        self._process = os.getpid()
        self._checks: deque[Check] = deque()
        self._elsewhere = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        self._read = 0
        self._false: set[int] = set()

    def close(self) -> None:
        """Close the temporary file, which removes it."""
        self._elsewhere.close()

    def asserting(
        self, line: int, text: str, test: object, operands: Callable[[], dict[str, Any]]
    ) -> bool:
        """Record an assert and return whether it passed.

        `line` and `text` are its line and its code, and `test` is the value that must be true. If
        it failed, call `operands` for the values of its parts.
        """
        passed = bool(test)
        found = "" if passed else _format_operands(operands)
        kind = type(test).__name__
        if kind in _ALWAYS_TRUE:
            found = f"it is a {kind}, which is always true: call it, or compare it"
        self._note(line, text, passed=not found and passed, found=found)
        return passed

    @contextlib.contextmanager
    def calling(self, line: int, text: str) -> Iterator[None]:
        """Record a call that raises an error if its check fails, such as `assert_allclose`.

        `line` and `text` are the line and the code of the call, which runs within the context.
        """
        try:
            yield
        except BaseException:
            self._note(line, text, kind="caught", passed=True)  # the cell reports its error
            raise
        self._note(line, text, passed=True)

    @contextlib.contextmanager
    def expecting(self) -> Iterator[None]:
        """Return a context for code whose AssertionError the page handles.

        The assert that raises it is not reported as false.
        """
        try:
            yield
        except AssertionError as error:
            self.excuse(error)
            raise

    def excuse(self, error: BaseException) -> None:
        """Mark the assert that raised `error` as evaluated only, because the page expects it."""
        line = line_of(error, self._path) if self.has_told(error) else None
        false = [check for check in [*self._checks] if check.line == line and not check.passed]
        for check in false[-1:]:
            self._checks[self._checks.index(check)] = check.as_caught()
            self._false.discard(check.line)

    def has_told(self, error: BaseException | None) -> bool:
        """Return whether `error` comes from an assert that was recorded as false.

        Return False if `error` is None.
        """
        return isinstance(error, AssertionError) and line_of(error, self._path) in self._false

    def take(self) -> list[Check]:
        """Return all recorded checks and remove them from the recorder."""
        taken = [*self._read_forked()]
        while self._checks:
            taken.append(self._checks.popleft())
        return taken

    def restore(self, checks: Iterable[Check]) -> None:
        """Put back checks that `take` returned."""
        self._checks.extend(checks)

    def note_rule(self, text: str, found: str) -> None:
        """Record the result of a rule. `found` says for what it is false; "" means true."""
        line = self._asking() or 1
        self._note(line, text, kind="rule", passed=not found, found=found)

    def _note(
        self, line: int, text: str, *, passed: bool, kind: str = "assert", found: str = ""
    ) -> None:
        if not passed:
            self._false.add(line)
        asked = self._asking()
        self._keep(Check(line=line, kind=kind, text=text, passed=passed, found=found, asked=asked))

    def _asking(self) -> int | None:
        """Return the line of the page that is running at the top level, outside functions.

        Return None in a thread, because no such line is on its stack.
        """
        frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001 - Python documents it
        while frame is not None:
            line = line_on_page(self._path, frame.f_code.co_filename, frame.f_lineno)
            if line is not None and frame.f_code.co_name == "<module>":
                return line
            frame = frame.f_back
        return None

    def _keep(self, check: Check) -> None:
        if os.getpid() == self._process:
            self._checks.append(check)
        else:
            os.write(self._elsewhere.fileno(), pickle.dumps(check))

    def _read_forked(self) -> Iterator[Check]:
        if not hasattr(os, "fork"):
            return
        file = self._elsewhere.fileno()
        written = os.pread(file, os.fstat(file).st_size - self._read, self._read)
        self._read += len(written)
        stream = io.BytesIO(written)
        while stream.tell() < len(written):
            yield pickle.load(stream)  # noqa: S301 - written by a copy of this process


def _format_operands(operands: Callable[[], dict[str, Any]]) -> str:
    brief = reprlib.Repr()
    brief.maxother = brief.maxstring = brief.maxlong = 80
    try:
        return ", ".join(f"{text} is {brief.repr(value)}" for text, value in operands().items())
    except Exception:  # noqa: BLE001 - the check has failed; this only explains it
        return ""
