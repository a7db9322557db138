"""Failures that Python keeps until somebody asks: a page that made them has to ask.

A command that ended badly, the exception of a future, a failed test, a warning that is recorded.
"""

import dataclasses
import functools
import subprocess
import sys
import unittest
import warnings
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from multiprocessing.pool import ApplyResult
from pathlib import Path
from types import FrameType
from typing import Any

from sphinx_claims._executing.raised import described

_LINE = "claims_line"
_SILENT = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
"""What Python itself keeps silent, unless it is asked for."""

_OURS = __name__.rpartition(".")[0]
_NOBODY = "and nobody asks"


@dataclasses.dataclass(frozen=True)
class _Keeping:
    """A class of `home` whose `method` learns of a failure, of which these names `ask`.

    `tell` says of the method's arguments what failed; nothing, where nothing did.
    """

    kind: Any
    home: str
    method: str
    ask: Collection[str]
    tell: Callable[..., str]


def _of_command(_args: object, returncode: int, *_output: object, **_outputs: object) -> str:
    return f"a command ended with exit code {returncode}, {_NOBODY}" if returncode else ""


def _of_future(error: BaseException | None) -> str:
    return f"a future keeps {described(error)}, {_NOBODY} for its result"


def _of_pool(_index: int, result: tuple[bool, Any]) -> str:
    return "" if result[0] else _of_future(result[1])


def _of_test(test: object, error: Any) -> str:
    return f"{test} fails: {described(error[1])}, {_NOBODY} whether it was successful"


def _of_subtest(_test: object, subtest: object, error: Any) -> str:
    return "" if error is None else _of_test(subtest, error)


_TESTED = {"errors", "failures", "wasSuccessful"}
_CODES = {"returncode", "check_returncode", "stderr"}
_KEEPING = (
    _Keeping(subprocess.CompletedProcess, "subprocess", "__init__", _CODES, _of_command),
    _Keeping(Future, "concurrent.futures", "set_exception", {"exception", "result"}, _of_future),
    _Keeping(ApplyResult, "multiprocessing", "_set", {"get", "successful"}, _of_pool),
    _Keeping(unittest.TestResult, "unittest", "addError", _TESTED, _of_test),
    _Keeping(unittest.TestResult, "unittest", "addFailure", _TESTED, _of_test),
    _Keeping(unittest.TestResult, "unittest", "addSubTest", _TESTED, _of_subtest),
)


class Kept:
    """What failed on lines of the page `path`, and of which of it somebody has asked.

    Of an error that `is_told` something red tells already.
    """

    def __init__(self, path: str, is_told: Callable[[Any], bool]) -> None:
        self._path, self._is_told = path, is_told
        self._here = str(Path.cwd())
        self._failed: dict[int, str] = {}
        self._asked: set[int] = set()
        for keeping in _KEEPING:
            self._attend(keeping)

    def take(self) -> Iterator[tuple[int | None, str]]:
        """Yield line and reason of each failure of which nobody asked, and forget them all."""
        for line, text in self._failed.items():
            if line not in self._asked:
                yield line or None, text
        self._failed.clear()

    def line(self, home: str) -> int | None:
        """Return the line of the page that uses the module `home`, 0 where an example does.

        It is None where another library does so, which has its own reasons.
        """
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - documented
        while frame is not None and _module(frame).startswith((home, _OURS)):
            frame = frame.f_back
        if frame is None or not self.is_own(frame.f_code.co_filename):
            return None
        while frame is not None and frame.f_code.co_filename != self._path:
            frame = frame.f_back
        return 0 if frame is None else frame.f_lineno

    def recorded(self, caught: list[Any]) -> list[Any]:
        """Return the list that takes the place of `caught`, in which warnings are recorded."""
        line = self.line("warnings")
        if line is None or getattr(warnings, "_showwarnmsg_impl", None) != caught.append:
            return caught
        recorded = _Recorded(self, line)
        warnings._showwarnmsg_impl = recorded.append  # type: ignore[attr-defined] # noqa: SLF001 - as catch_warnings does
        return recorded

    def is_own(self, file: str) -> bool:
        """Return whether `file` is the page, stands beside it, or is one of its examples."""
        is_beside = file.startswith(self._here) and "site-packages" not in file
        return file == self._path or is_beside or file.startswith("<doctest ")

    def ask(self, line: int | None) -> None:
        """Note that somebody asks what became of what was made on `line`."""
        if line is not None:
            self._asked.add(line)

    def fail(self, line: int | None, text: str) -> None:
        """Note that something that was made on `line` failed; not where there is no text."""
        if line is not None and text:
            self._failed.setdefault(line, text)

    def _attend(self, keeping: _Keeping) -> None:
        """Let each instance note the line that made it, how it failed, and who asks."""
        kind, getting, made = keeping.kind, keeping.kind.__getattribute__, keeping.kind.__init__

        @functools.wraps(made)
        def init(instance: Any, *arguments: Any, **options: Any) -> None:
            vars(instance)[_LINE] = self.line(keeping.home)
            made(instance, *arguments, **options)

        kind.__init__ = init
        failing = getattr(kind, keeping.method)

        @functools.wraps(failing)
        def fail(instance: Any, *arguments: Any, **options: Any) -> Any:
            result = failing(instance, *arguments, **options)
            if not any(map(self._is_told, _flat(arguments))):
                self.fail(vars(instance).get(_LINE), keeping.tell(*arguments, **options))
            return result

        def get(instance: Any, name: str) -> Any:
            if name in keeping.ask and not _asks_itself(keeping):
                self.ask(getting(instance, "__dict__").get(_LINE))
            return getting(instance, name)

        setattr(kind, keeping.method, fail)
        kind.__getattribute__ = get


class _Recorded(list[Any]):
    """Recorded warnings, and whether somebody looks at them."""

    def __init__(self, kept: Kept, line: int) -> None:
        super().__init__()
        self._kept, self._line = kept, line

    def append(self, warning: Any) -> None:
        super().append(warning)
        if not self._kept.is_own(warning.filename) or issubclass(warning.category, _SILENT):
            return  # what a library's own line gives is about the library
        text = f"{warning.category.__name__} is recorded here, and nobody looks: {warning.message}"
        self._kept.fail(self._line, text)

    def ask(self) -> None:
        """Note that somebody looks."""
        self._kept.ask(self._line)


def _asking(looking: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(looking)
    def looks(recorded: _Recorded, *arguments: Any) -> Any:
        recorded.ask()
        return looking(recorded, *arguments)

    return looks


for _name in ("__eq__", "__getitem__", "__iter__", "__len__", "__repr__"):
    setattr(_Recorded, _name, _asking(getattr(list, _name)))


def _flat(arguments: tuple[Any, ...]) -> Iterator[Any]:
    for argument in arguments:
        yield from argument if isinstance(argument, tuple) else (argument,)


def _asks_itself(keeping: _Keeping) -> bool:
    """Return whether the module that keeps a failure reads it, as a test runner does."""
    caller = sys._getframe(2)  # noqa: SLF001 - documented
    return keeping.home == "unittest" and _module(caller).startswith((keeping.home, _OURS))


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
