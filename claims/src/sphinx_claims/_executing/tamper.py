"""What a page must leave alone, since it would hear nothing bad of itself any more."""

import builtins
import contextlib
import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType, TracebackType
from typing import Any, Protocol

from sphinx_claims._executing.kept import Kept
from sphinx_claims._executing.reporting import RECORDER
from sphinx_claims._executing.unread import Unread

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


class Check(Protocol):
    """What complains of a line of the page that is `silent`, and names the `cure`."""

    def __call__(self, *, silent: bool, cure: str) -> None: ...


class TamperGuard:
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

    def checked(function: Callable[..., None]) -> Any:
        @functools.wraps(function)
        def call(action: Any, *arguments: Any, **options: Any) -> None:
            check(silent=action == "ignore", cure=_ANNOUNCE)
            function(action, *arguments, **options)

        return call

    warnings.simplefilter = checked(warnings.simplefilter)
    warnings.filterwarnings = checked(warnings.filterwarnings)
    warnings.catch_warnings = _catching(kept, check)  # type: ignore[misc]
    contextlib.redirect_stderr = _redirecting(check)  # type: ignore[misc]
    contextlib.suppress = _suppressing(kept, unread)  # type: ignore[misc]


def _catching(kept: Kept, check: Check) -> Any:
    class CatchWarnings(warnings.catch_warnings):
        def __init__(self, *, action: Any = None, **options: Any) -> None:
            check(silent=action == "ignore", cure=_ANNOUNCE)
            super().__init__(action=action, **options)

        def __enter__(self) -> Any:
            caught = super().__enter__()
            return None if caught is None else kept.recorded(caught)

    return CatchWarnings


def _redirecting(check: Check) -> Any:
    class RedirectStderr(contextlib.redirect_stderr[Any]):
        def __init__(self, new_target: Any) -> None:
            check(silent=not hasattr(new_target, "getvalue"), cure=_KEEP)
            super().__init__(new_target)

        def __exit__(self, *error: object) -> None:
            super().__exit__(*error)  # type: ignore[arg-type]
            target = vars(self)["_new_target"]
            if sys.getrefcount(target) <= _OWN_REFERENCES:  # nobody else has it
                check(silent=bool(target.getvalue()), cure=_KEEP)

    return RedirectStderr


def _suppressing(kept: Kept, unread: Unread) -> Any:
    class Suppress(contextlib.suppress):
        def __init__(self, *exceptions: type[BaseException]) -> None:
            super().__init__(*exceptions)
            self._is_broad = not _BROAD.isdisjoint(exceptions)

        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> bool:
            is_swallowed = super().__exit__(kind, error, trace)
            if is_swallowed and (line := kept.line("contextlib")) is not None:
                name = sys._getframe(1).f_code.co_name  # noqa: SLF001 - documented
                unread.swallows(error, line, is_broad=self._is_broad, function=name)
            return is_swallowed

    return Suppress


_BROAD = frozenset({Exception, BaseException})
_OWN_REFERENCES = 3  # that of the context, the name here, the argument of the call that counts
_ANNOUNCE = "warnings are ignored from here on: announce them with :warns:, or catch and count them"
_KEEP = "what goes to stderr is thrown away: redirect it to an io.StringIO and look at it"
