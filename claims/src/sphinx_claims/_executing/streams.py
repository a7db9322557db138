"""Capture standard output and standard error, also text that bypasses Python's streams."""

import io
import os
import re
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from typing import IO

NAMES = {1: "standard output", 2: "standard error"}


def text_stream(number: int, receive: Callable[[str], None]) -> io.TextIOWrapper:
    """Return a text stream for descriptor `number`. It calls `receive` with each text."""
    raw = _Receiving(number, receive)
    return io.TextIOWrapper(raw, "utf-8", newline="\n", write_through=True)


class _Receiving(io.RawIOBase):
    """A byte stream that decodes what is written to it and calls `receive` with the text."""

    def __init__(self, number: int, receive: Callable[[str], None]) -> None:
        super().__init__()
        self.name = f"<{NAMES[number]}>"
        self._number, self._receive = number, receive

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._receive(bytes(data).decode(errors="replace"))
        return len(data)


def brief(text: str) -> str:
    """Return the first and the last line of `text` as one line, shortened to 200 characters."""
    first, *_, last = text.splitlines() * 2
    return textwrap.shorten(first if first == last else f"{first} ... {last}", 200)


class Descriptors:
    """Temporary files in place of descriptors 1 and 2, for output that bypasses Python's streams.

    Only the first `limit` bytes of each are read.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._beneath = {number: _redirect(number) for number in NAMES}

    def take(self, may_print: str | None) -> Iterator[str]:
        """Yield a complaint for each descriptor that was written to or replaced, and restore it.

        Lines that match `may_print` are allowed. If it is None, no line is allowed.
        """
        for number, file in self._beneath.items():
            file.seek(0)
            lines = file.read(self._limit).decode(errors="replace").splitlines()
            file.truncate(0)
            if may_print is not None:
                lines = [line for line in lines if not re.search(may_print, line)]
            text = "\n".join(lines).strip()
            if text:
                yield f"written to {NAMES[number]} behind Python's back: {brief(text)}"
            if not _is_open(number, file):
                os.dup2(file.fileno(), number)
                yield f"descriptor {number}, {NAMES[number]}, was closed or led elsewhere"


def _redirect(number: int) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
    os.dup2(file.fileno(), number)
    return file


def _is_open(number: int, file: IO[bytes]) -> bool:
    try:
        return os.path.sameopenfile(number, file.fileno())
    except OSError:
        return False
