"""Everything that a step says while it runs: output, warnings, and what Python would only print."""

import builtins
import contextlib
import functools
import gc
import json
import logging
import os
import sys
import threading
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from sphinx_claims._executing.asserts import RECORDER
from sphinx_claims._executing.raised import line_of
from sphinx_claims._executing.streams import Descriptors, brief, text_stream

LIMIT = 1_000_000
"""How many characters a step may show: a page is something to read."""

_LISTENERS = (
    (sys, "stdout"),
    (sys, "stderr"),
    (sys, "unraisablehook"),
    (threading, "excepthook"),
    (warnings, "warn"),
    (warnings, "warn_explicit"),
    (warnings, "showwarning"),
    (builtins, RECORDER),
)
"""What a page must leave in place: everything that goes wrong is heard through it."""

Complaint = tuple[int | None, str]
"""What should not have happened, and the line of the page that did it, where that is known."""


class OutputCapture:
    """Collects what a step shows (notebook outputs) and what it should not have done.

    It watches from the beginning to the end of its process, since threads run between steps too.
    A process that the page forks has a copy of it, which tells what it hears through descriptors.
    """

    def __init__(self, path: str) -> None:
        from IPython.core.formatters import DisplayFormatter  # noqa: PLC0415 - only pages need it

        self._path = path
        self._formatter = DisplayFormatter()
        self._listen()
        self._settle()

    @contextlib.contextmanager
    def capturing(self, may_print: str | None = None) -> Iterator[None]:
        """Capture one step; what it changes in how warnings are treated ends with it.

        Lines that match `may_print` may be written behind Python's back.
        """
        if self.is_copy:
            self._settle()
        with warnings.catch_warnings():
            yield
            gc.collect(1)
        if not self.is_copy:
            self.complaints += [(None, text) for text in self._told_at_the_end(may_print)]

    @property
    def is_copy(self) -> bool:
        """Return whether this is the copy in a process that was forked since the step began."""
        return os.getpid() != self._process

    def show(self, value: object, output_type: str = "display_data") -> None:
        """Add `value` to the outputs in every form that a notebook could show it in."""
        data, metadata = self._formatter.format(value)  # type: ignore[no-untyped-call]
        output = {"output_type": output_type, "data": data, "metadata": metadata}
        text = json.dumps(output, default=_as_text)
        if self._affords(text):
            self.outputs.append(json.loads(text))

    def complain(self, text: str, line: int | None = None) -> None:
        """Note something that should not have happened."""
        if self.is_copy:
            os.write(2, f"{text}\n".encode())
        else:
            self.complaints.append((line, text))

    def forget(self) -> None:
        """Begin anew, once what was collected is in a record."""
        self.outputs: list[dict[str, Any]] = []
        self.warnings: list[warnings.WarningMessage] = []
        self.complaints: list[Complaint] = []
        self._errors = ""
        self.shown = 0

    def _settle(self) -> None:
        """Take this process as the page's own, with files of its own beneath its streams."""
        self._process = os.getpid()
        self._descriptors = Descriptors(LIMIT)
        self.forget()

    def _listen(self) -> None:
        sys.stdout, sys.stderr = text_stream(1, self._printed), text_stream(2, self._complained)
        threading.excepthook = self._thread_died
        sys.unraisablehook = self._unraisable
        warnings.showwarning = self._warned
        warnings.simplefilter("always")
        self._at_ease = threading.local()
        logging.StreamHandler.emit = self._calmly(  # type: ignore[method-assign]
            logging.StreamHandler.emit
        )
        self._listeners = [(module, name, getattr(module, name)) for module, name in _LISTENERS]

    def _told_at_the_end(self, may_print: str | None) -> Iterator[str]:
        for module, name, value in self._listeners:
            if getattr(module, name, None) is not value:
                setattr(module, name, value)
                yield f"{module.__name__}.{name} was replaced: a cell must put it back"
        if errors := self._errors.strip():
            yield f"undeclared output on stderr: {brief(errors)}"
        yield from self._descriptors.take(may_print)

    def _affords(self, text: str) -> bool:
        before, self.shown = self.shown, self.shown + len(text)
        if before <= LIMIT < self.shown:
            self.complain(f"a step shows at most {LIMIT:,} characters")
        return self.shown <= LIMIT

    def _printed(self, text: str) -> None:
        if self.is_copy:
            os.write(1, text.encode())
        elif self._affords(text):
            if not (self.outputs and self.outputs[-1]["output_type"] == "stream"):
                self.outputs.append({"output_type": "stream", "name": "stdout", "text": ""})
            self.outputs[-1]["text"] += text

    def _calmly(self, emit: Callable[..., None]) -> Callable[..., None]:
        """Show log messages below the level of a warning as output, wherever they are written."""

        @functools.wraps(emit)
        def emitting(handler: logging.Handler, record: logging.LogRecord) -> None:
            self._at_ease.now = record.levelno < logging.WARNING
            try:
                emit(handler, record)
            finally:
                self._at_ease.now = False

        return emitting

    def _complained(self, text: str) -> None:
        if getattr(self._at_ease, "now", False):
            self._printed(text)
        elif self.is_copy:
            os.write(2, text.encode())
        elif self._affords(text):
            self._errors += text

    def _warned(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if self.is_copy:
            self.complain(warnings.formatwarning(message, category, filename, lineno, line))
        else:
            caught = warnings.WarningMessage(message, category, filename, lineno, file, line)
            self.warnings.append(caught)

    def _thread_died(self, died: threading.ExceptHookArgs) -> None:
        kind, line = died.exc_type.__name__, line_of(died.exc_value, self._path)
        self.complain(f"a thread died of {kind}: {died.exc_value}", line)

    def _unraisable(self, ignored: "sys.UnraisableHookArgs") -> None:
        kind, line = ignored.exc_type.__name__, line_of(ignored.exc_value, self._path)
        self.complain(f"Python could only ignore {kind}: {ignored.exc_value}", line)


def _as_text(value: object) -> str:
    """Return what JSON cannot hold as text: an image as notebooks hold it."""
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)
