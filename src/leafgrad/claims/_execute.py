"""Execute the steps of a page, in a process that does nothing else afterwards."""

import builtins
import dataclasses
import doctest
import linecache
import os
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path

from leafgrad.claims._asserts import RECORDER, Recorder
from leafgrad.claims._cell import (
    check_cell,
    declared_outputs,
    described,
    execute_cell,
    undeclared,
    unexpected,
)
from leafgrad.claims._example import execute_examples
from leafgrad.claims._page import Cell, Doctest, Inline, Page, Problem, Step
from leafgrad.claims._record import Check, Record
from leafgrad.claims._watch import Watch


def execute_page(page: Page, directory: Path) -> Iterator[Record]:
    """Execute the steps of `page` in `directory`; yield the record of each when it has run."""
    os.chdir(directory)
    _remember_lines(page)
    room = _Room(page.path)
    for step in page.steps:
        yield room.run(step)


class _Room:
    """The namespace in which the steps of a page run, and all that watches them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._watch = Watch()
        self._recorder = Recorder()
        main = types.ModuleType("__main__")
        main.__dict__["__file__"] = path
        sys.modules["__main__"] = main
        self._namespace = main.__dict__
        vars(builtins).update({RECORDER: self._recorder, "display": self._watch.show})

    def run(self, step: Step) -> Record:
        """Run one step and gather what it showed, checked and did wrong."""
        with self._watch.watching():
            match step:
                case Cell():
                    record = self._cell(step)
                case Doctest():
                    record = self._examples(step)
                case Inline():
                    record = self._inline(step)
        return dataclasses.replace(
            record,
            outputs=tuple(self._watch.outputs),
            checks=(*self._recorder.take(), *record.checks),
            problems=(*record.problems, *self._unasked(step)),
        )

    def _cell(self, step: Cell) -> Record:
        error = execute_cell(step, self._namespace, self._path, self._watch)
        asserted = self._recorder.take()
        problems = tuple(unexpected(step, error, asserted, self._path))
        checks = tuple(check_cell(step, error, self._watch))
        self._watch.outputs.extend(declared_outputs(step, error, self._watch))
        return Record(
            checks=(*asserted, *checks),
            problems=problems,
            broke=error is not None and step.raises is None,
        )

    def _examples(self, step: Doctest) -> Record:
        try:
            test = doctest.DocTestParser().get_doctest(
                step.source, {}, self._path, self._path, step.line - 1
            )
        except ValueError as error:
            return Record(problems=(Problem(step.line, f"examples cannot be read: {error}"),))
        test.globs = self._namespace
        return Record(checks=tuple(execute_examples(test)))

    def _inline(self, step: Inline) -> Record:
        try:
            value = eval(compile(step.source, self._path, "eval"), self._namespace)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the sentence is not proven
            return Record(problems=(Problem(step.line, f"{described(error)}, in `{step.source}`"),))
        if step.role == "value":
            return Record(value=str(value))
        found, passed = f"it is {value!r}", value is True
        check = Check(line=step.line, kind="inline", text=step.source, passed=passed, found=found)
        return Record(checks=(check,))

    def _unasked(self, step: Step) -> Iterator[Problem]:
        declared = step.warns if isinstance(step, Cell) else None
        for warning in undeclared(self._watch.warnings, declared):
            line = warning.lineno if warning.filename == self._path else step.line
            kind = warning.category.__name__
            message = textwrap.shorten(str(warning.message), 160)
            yield Problem(line, f"undeclared warning: {kind}: {message}")
        for complaint in self._watch.complaints:
            yield Problem(step.line, complaint)


def _remember_lines(page: Page) -> None:
    """Let tracebacks and `inspect` find the cells' lines, and nothing but Python, in the page."""
    cells = [step for step in page.steps if isinstance(step, Cell)]
    lines: list[str] = []
    for cell in cells:
        lines += ["\n"] * (cell.line - 1 - len(lines))
        lines += cell.source.splitlines(keepends=True)
        lines[-1:] = [line.rstrip("\n") + "\n" for line in lines[-1:]]
    linecache.cache[page.path] = (sum(map(len, lines)), None, lines, page.path)
