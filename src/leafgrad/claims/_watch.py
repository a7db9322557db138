"""Everything that a step says while it runs: output, warnings, and what Python would only print."""

import contextlib
import gc
import io
import json
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import IO, Any

from IPython.core.formatters import DisplayFormatter

STREAMS = {1: "standard output", 2: "standard error"}


class Watch:
    """Collects what a step shows (notebook outputs) and what it should not have done."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self.warnings: list[warnings.WarningMessage] = []
        self.complaints: list[str] = []
        self._formatter = DisplayFormatter()
        self._beneath = {number: _redirected(number) for number in STREAMS}

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Collect from here on, forgetting what was collected before."""
        self.outputs, self.complaints = [], []
        stdout, stderr = _Stream(self._printed), _Stream(self._complained)
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
            self._hooks(),
        ):
            warnings.simplefilter("always")
            self.warnings = caught
            yield
            gc.collect()
        self.complaints.extend(self._bypassed())

    def show(self, value: object, output_type: str = "display_data") -> None:
        """Add `value` to the outputs in every form that a notebook could show it in."""
        data, metadata = self._formatter.format(value)  # type: ignore[no-untyped-call]
        output = {"output_type": output_type, "data": data, "metadata": metadata}
        self.outputs.append(json.loads(json.dumps(output, default=str)))

    def text(self) -> list[str]:
        """List the lines of text that were printed or shown."""
        texts = (out.get("text", out.get("data", {}).get("text/plain")) for out in self.outputs)
        return [line for text in texts if text for line in text.rstrip("\n").split("\n")]

    def _printed(self, text: str) -> None:
        if not (self.outputs and self.outputs[-1]["output_type"] == "stream"):
            self.outputs.append({"output_type": "stream", "name": "stdout", "text": ""})
        self.outputs[-1]["text"] += text

    def _complained(self, text: str) -> None:
        if text.strip():
            self.complaints.append(f"undeclared output on stderr: {text.strip()}")

    @contextlib.contextmanager
    def _hooks(self) -> Iterator[None]:
        before = threading.excepthook, sys.unraisablehook
        threading.excepthook = self._thread_died
        sys.unraisablehook = self._unraisable
        try:
            yield
        finally:
            threading.excepthook, sys.unraisablehook = before

    def _thread_died(self, died: threading.ExceptHookArgs) -> None:
        kind = died.exc_type.__name__
        self.complaints.append(f"a thread died of {kind}: {died.exc_value}")

    def _unraisable(self, ignored: "sys.UnraisableHookArgs") -> None:
        kind = ignored.exc_type.__name__
        self.complaints.append(f"Python could only ignore {kind}: {ignored.exc_value}")

    def _bypassed(self) -> Iterator[str]:
        for number, file in self._beneath.items():
            file.seek(0)
            text = file.read().decode(errors="replace").strip()
            file.truncate(0)
            if text:
                yield f"written to {STREAMS[number]} behind Python's back: {text}"


class _Stream(io.TextIOBase):
    """A text file that hands on what is written to it."""

    def __init__(self, receive: Callable[[str], None]) -> None:
        self._receive = receive

    def write(self, text: str) -> int:
        if text:
            self._receive(text)
        return len(text)


def _redirected(number: int) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
    os.dup2(file.fileno(), number)
    return file
