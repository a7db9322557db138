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

from leafgrad.claims._executing._kept import Kept
from leafgrad.claims._executing._reporting import RECORDER
from leafgrad.claims._executing._unread import Unread

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


def refuse_silence(kept: Kept, unread: Unread, complain: Complain) -> None:
    """Let lines of a page be complained of that ignore warnings or errors, or throw away stderr.

    So are those of a module beside it, where the page uses it.
    """

    def check(*, silent: bool, cure: str) -> None:
        if silent and (line := kept.line("warnings")) is not None:
            complain(cure, line or None)

    class CatchWarnings(warnings.catch_warnings):
        def __init__(self, *, action: Any = None, **options: Any) -> None:
            check(silent=action == "ignore", cure=_ANNOUNCE)
            super().__init__(action=action, **options)

        def __enter__(self) -> Any:
            caught = super().__enter__()
            return None if caught is None else kept.recorded(caught)

    class RedirectStderr(contextlib.redirect_stderr[Any]):
        def __init__(self, new_target: Any) -> None:
            check(silent=not hasattr(new_target, "getvalue"), cure=_KEEP)
            super().__init__(new_target)

        def __exit__(self, *error: Any) -> None:
            super().__exit__(*error)
            if sys.getrefcount(self._new_target) <= _OWN_REFERENCES:  # nobody else has it
                check(silent=bool(self._new_target.getvalue()), cure=_KEEP)

    class Suppress(contextlib.suppress):
        def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
            is_swallowed = super().__exit__(kind, error, trace)
            if is_swallowed and (line := kept.line("contextlib")) is not None:
                name = sys._getframe(1).f_code.co_name  # noqa: SLF001 - documented
                is_broad = not _BROAD.isdisjoint(self._exceptions)
                unread.swallows(error, line, is_broad=is_broad, function=name)
            return is_swallowed

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
    contextlib.suppress = Suppress  # type: ignore[misc]


_BROAD = frozenset({Exception, BaseException})
_OWN_REFERENCES = 2  # that of the context, and the argument of the call that counts them
_ANNOUNCE = "warnings are ignored from here on: announce them with :warns:, or catch and count them"
_KEEP = "what goes to stderr is thrown away: redirect it to an io.StringIO and look at it"
