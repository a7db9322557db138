"""Capture the output of a step, its warnings, and errors that Python only prints.

A step of a page is a cell, an example or an expression in a sentence.
"""

import builtins
import contextlib
import functools
import gc
import io
import json
import logging
import os
import sys
import threading
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TextIO
from unittest import mock

from sphinx_claims._executing.asserts import RECORDER
from sphinx_claims._executing.raised import line_of
from sphinx_claims._executing.streams import Descriptors, brief, text_stream

LIMIT = 1_000_000
"""How many characters a step may show, because people read the page."""

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
"""Attributes (module, name) that a page must not replace: through them the capture sees errors."""

Complaint = tuple[int | None, str]
"""A message, and the line of the page that caused it, if known."""


class OutputCapture:
    """Collects the outputs of a step, and its complaints.

    A complaint is a message about an error that no exception reports. Capturing lasts as long as
    the process, because threads also run between steps. In a forked process, the copy of this
    object writes to the file descriptors instead.
    """

    def __init__(self, path: str, shown_with: Mapping[str, str]) -> None:
        from IPython.core.formatters import DisplayFormatter  # noqa: PLC0415 - needed only to run pages

        self._path, self._shown_with = path, shown_with
        self._formatter = DisplayFormatter()
        self._listen()
        self._settle()

    @contextlib.contextmanager
    def capturing(self, may_print: str | None = None) -> Iterator[None]:
        """Capture one step, and restore the warning filters after it.

        The step may write lines that match `may_print` directly to the file descriptors; with None,
        it may write none.
        """
        if self.is_copy:
            self._settle()
        with warnings.catch_warnings():
            yield
            gc.collect(1)
        if not self.is_copy:
            self.complaints += [(None, text) for text in self._check_streams(may_print)]

    @property
    def is_copy(self) -> bool:
        """Return whether this object is a copy in a process that the page forked."""
        return os.getpid() != self._process

    def show(self, value: object, output_type: str = "display_data") -> None:
        """Add `value` to the outputs, in every format that a notebook could show."""
        data, metadata = self._formatter.format(value)  # type: ignore[no-untyped-call]
        output = {"output_type": output_type, "data": data, "metadata": metadata}
        if self._shown_with:
            with mock.patch.dict(os.environ, self._shown_with):
                output["shown"] = {"data": self._formatter.format(value)[0]}  # type: ignore[no-untyped-call]
        text = json.dumps(output, default=_as_text)
        if self._count(text):
            self.outputs.append(json.loads(text))

    def complain(self, text: str, line: int | None = None) -> None:
        """Add a complaint about `line` of the page. In a forked process, print it instead.

        If `line` is None, the complaint is about the current step.
        """
        if self.is_copy:
            os.write(2, f"{text}\n".encode())
        else:
            self.complaints.append((line, text))

    def forget(self) -> None:
        """Remove all outputs, warnings and complaints that were collected."""
        self.outputs: list[dict[str, Any]] = []
        self.warnings: list[warnings.WarningMessage] = []
        self.complaints: list[Complaint] = []
        self._errors = ""
        self.shown = 0

    def _settle(self) -> None:
        """Start to capture in this process: redirect its file descriptors to files."""
        self._process = os.getpid()
        self._descriptors = Descriptors(LIMIT)
        self.forget()

    def _listen(self) -> None:
        sys.stdout = self._stdout = text_stream(1, self._add_output)
        sys.stderr = text_stream(2, self._add_error)
        if self._shown_with:
            vars(builtins)["print"] = functools.partial(self._print, print)
        threading.excepthook = self._report_dead_thread
        sys.unraisablehook = self._report_unraisable
        warnings.showwarning = self._add_warning
        warnings.simplefilter("always")
        self._at_ease = threading.local()
        logging.StreamHandler.emit = self._as_output(  # type: ignore[method-assign]
            logging.StreamHandler.emit
        )
        self._listeners = [(module, name, getattr(module, name)) for module, name in _LISTENERS]

    def _check_streams(self, may_print: str | None) -> Iterator[str]:
        for module, name, value in self._listeners:
            if getattr(module, name, None) is not value:
                setattr(module, name, value)
                yield f"{module.__name__}.{name} was replaced: a cell must put it back"
        if errors := self._errors.strip():
            yield f"undeclared output on stderr: {brief(errors)}"
        yield from self._descriptors.take(may_print)

    def _count(self, text: str) -> bool:
        before, self.shown = self.shown, self.shown + len(text)
        if before <= LIMIT < self.shown:
            self.complain(f"a step shows at most {LIMIT:,} characters")
        return self.shown <= LIMIT

    def _print(self, usual: Callable[..., None], *values: object, **options: Any) -> None:
        """Print the values twice: once for the checks, once for readers (with `shown_with`)."""
        if options.get("file") is not None or sys.stdout is not self._stdout:
            return usual(*values, **options)
        checked, shown = io.StringIO(), io.StringIO()
        usual(*values, **options | {"file": checked})
        with mock.patch.dict(os.environ, self._shown_with):
            usual(*values, **options | {"file": shown})
        return self._add_output(checked.getvalue(), shown.getvalue())

    def _add_output(self, text: str, shown: str | None = None) -> None:
        if self.is_copy:
            os.write(1, text.encode())
        elif self._count(text):
            if not (self.outputs and self.outputs[-1]["output_type"] == "stream"):
                stream = {"name": "stdout", "text": "", "shown": {"text": ""}}
                self.outputs.append({"output_type": "stream", **stream})
            self.outputs[-1]["text"] += text
            self.outputs[-1]["shown"]["text"] += text if shown is None else shown

    def _as_output(self, emit: Callable[..., None]) -> Callable[..., None]:
        """Return a wrapper of `emit` under which log messages below WARNING count as output.

        Other messages to standard error count as errors.
        """

        @functools.wraps(emit)
        def emitting(handler: logging.Handler, record: logging.LogRecord) -> None:
            self._at_ease.now = record.levelno < logging.WARNING
            try:
                emit(handler, record)
            finally:
                self._at_ease.now = False

        return emitting

    def _add_error(self, text: str) -> None:
        if getattr(self._at_ease, "now", False):
            self._add_output(text)
        elif self.is_copy:
            os.write(2, text.encode())
        elif self._count(text):
            self._errors += text

    def _add_warning(
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

    def _report_dead_thread(self, died: threading.ExceptHookArgs) -> None:
        kind, line = died.exc_type.__name__, line_of(died.exc_value, self._path)
        self.complain(f"a thread died of {kind}: {died.exc_value}", line)

    def _report_unraisable(self, ignored: "sys.UnraisableHookArgs") -> None:
        kind, line = ignored.exc_type.__name__, line_of(ignored.exc_value, self._path)
        self.complain(f"Python could only ignore {kind}: {ignored.exc_value}", line)


def _as_text(value: object) -> str:
    """Convert a value that JSON cannot represent to text: bytes, such as images, to Base64."""
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)
