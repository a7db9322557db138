"""What a page must leave alone, since it would hear nothing bad of itself any more."""

import builtins
import contextlib
import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from leafgrad.claims._executing._asserts import RECORDER

_HEARD: tuple[tuple[ModuleType, str], ...] = (
    (sys, "stdout"),
    (sys, "stderr"),
    (sys, "unraisablehook"),
    (threading, "excepthook"),
    (warnings, "warn"),
    (warnings, "warn_explicit"),
    (warnings, "showwarning"),
    (builtins, RECORDER),
)

Complain = Callable[[str, int | None], None]


class Untouched:
    """The functions and streams through which everything bad is heard."""

    def __init__(self) -> None:
        self._values = [(module, name, getattr(module, name)) for module, name in _HEARD]

    def put_right(self) -> Iterator[str]:
        """Yield a complaint about each that was replaced, and put it back."""
        for module, name, value in self._values:
            if getattr(module, name, None) is not value:
                setattr(module, name, value)
                yield f"{module.__name__}.{name} was replaced: a cell must put it back"


def refuse_silence(path: str, complain: Complain) -> None:
    """Let lines of the page `path` that ignore warnings, or throw away stderr, be complained of."""

    def check(*, silent: bool, cure: str) -> None:
        caller = sys._getframe(2)  # noqa: SLF001 - documented: who calls is the question
        file = caller.f_code.co_filename
        if silent and (file == path or file.startswith("<doctest ")):
            complain(cure, caller.f_lineno if file == path else None)

    class CatchWarnings(warnings.catch_warnings):
        def __init__(self, *, action: Any = None, **options: Any) -> None:
            check(silent=action == "ignore", cure=_ANNOUNCE)
            super().__init__(action=action, **options)

    class RedirectStderr(contextlib.redirect_stderr[Any]):
        def __init__(self, new_target: Any) -> None:
            check(silent=not hasattr(new_target, "getvalue"), cure=_KEEP)
            super().__init__(new_target)

    def checked(function: Callable[..., None]) -> Any:
        @functools.wraps(function)
        def call(action: Any, *arguments: Any, **options: Any) -> None:
            check(silent=action == "ignore", cure=_ANNOUNCE)
            function(action, *arguments, **options)

        return call

    warnings.simplefilter = checked(warnings.simplefilter)
    warnings.filterwarnings = checked(warnings.filterwarnings)
    warnings.catch_warnings = CatchWarnings  # type: ignore[assignment,misc]
    contextlib.redirect_stderr = RedirectStderr  # type: ignore[misc]


_ANNOUNCE = "warnings are ignored from here on: announce them with :warns:, or catch and count them"
_KEEP = "what goes to stderr is thrown away: redirect it to an io.StringIO and look at it"
