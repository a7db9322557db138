"""Stories of training gone wrong, and what must be told of each: its cause, its line, its cure."""

import inspect
import re
import warnings
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, NamedTuple

from leafgrad import Report

MARK = "# here"
"""Stands behind each line of a story that must be told."""


Patterns = str | tuple[str, ...]


class Story(NamedTuple):
    """A short program that goes wrong, and patterns that its explanation must match.

    Attributes:
        tell: The program; it returns what explains it.
        source: Where somebody asked for help with it.
        cause: What names the cause.
        name: What names the tensors or the module.
        cure: What names the cure.
        never: What would be false or would lead astray.
        long: What would be said over and over.
    """

    tell: Callable[[], Any]
    source: str
    cause: tuple[str, ...]
    name: tuple[str, ...]
    cure: tuple[str, ...]
    never: tuple[str, ...]
    long: tuple[str, ...]

    @property
    def title(self) -> str:
        """The name of the program."""
        return self.tell.__name__


class Stories(list[Story]):
    """The stories of one file."""

    def __call__(
        self,
        source: str,
        *,
        cause: Patterns,
        cure: Patterns,
        name: Patterns = (),
        never: Patterns = (),
        long: Patterns = (),
    ) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        """Add the program that stands below."""

        def add(tell: Callable[[], Any]) -> Callable[[], Any]:
            patterns = map(_several, (cause, name, cure, never, long))
            self.append(Story(tell, source, *patterns))
            return tell

        return add


def _several(patterns: Patterns) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else patterns


def judge(story: Story) -> dict[str, list[str]]:
    """Return what is missing, what should not be there, and the text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of some, once in a process
        told = story.tell()
    text = f"{' '.join(str(told).split())} {_lines_of(told)}"
    text = text.replace(story.title, "story")  # its own name explains nothing
    code, start = inspect.getsourcelines(story.tell)
    file = PurePath(inspect.getfile(story.tell)).name
    marked = [start + number for number, line in enumerate(code) if MARK in line]
    lines = [rf"\b{re.escape(file)}:{number}\b|\b{number} \| " for number in marked]
    missing = {
        kind: [one for one in patterns if not re.search(one, text)]
        for kind, patterns in [
            ("cause", story.cause),
            ("line", lines),
            ("name", story.name),
            ("cure", story.cure),
        ]
    }
    present = {
        kind: [one for one in patterns if re.search(one, text)]
        for kind, patterns in [("false", story.never), ("long", story.long)]
    }
    return {**missing, **present, "": [text]}


def _lines_of(told: object) -> str:
    """Return the file and line of each place that a report marks."""
    spans = [
        span
        for one in (told if isinstance(told, Report) else ())
        for span in (one.primary, *one.secondary)
        if span is not None
    ]
    return " ".join(f"{PurePath(one.source.file).name}:{one.source.line}" for one in spans)


def verdict(found: dict[str, list[str]]) -> str:
    """Return ``ok``, ``half`` for a cause without its line, name or cure, or ``no``."""
    if found["cause"] or found["false"]:
        return "no"
    return "half" if any(found[kind] for kind in ("line", "name", "cure", "long")) else "ok"


def assert_told(story: Story) -> None:
    """Fail with all that is missing, and the text that lacks it."""
    found = judge(story)
    (text,) = found.pop("")
    assert not any(found.values()), f"{found}\n{text}"
