"""Execute the steps of a page in the process of that page.

A step is a cell, an example or an expression in a sentence.
"""

import atexit
import builtins
import dataclasses
import gc
import importlib
import importlib.machinery
import linecache
import multiprocessing
import os
import sys
import textwrap
import threading
import types
from collections.abc import Iterator, Mapping
from pathlib import Path

from sphinx_claims._executing.asserts import RECORDER
from sphinx_claims._executing.capture import OutputCapture
from sphinx_claims._executing.cell import (
    check_cell,
    declared_outputs,
    execute_cell,
    undeclared_warnings,
    unexpected_error,
)
from sphinx_claims._executing.example import ExampleRunner
from sphinx_claims._executing.raised import Causes, describe, line_on_page
from sphinx_claims._executing.recorder import Recorder
from sphinx_claims._executing.rules import FOR_ALL, ForAll
from sphinx_claims._page import Cell, Doctest, Inline, Page, Problem, Step
from sphinx_claims._record import Check, Record


def begin() -> None:
    """Unregister the exit functions of modules that were imported before the page ran."""
    atexit._clear()  # noqa: SLF001 - as multiprocessing does after a fork


def end() -> None:
    """Wait for threads and child processes to end, and call the exit functions."""
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 - it ends idle executors too
    for process in multiprocessing.active_children():
        if not process.daemon:
            process.join()
    atexit._run_exitfuncs()  # noqa: SLF001 - as multiprocessing does at exit


_LONGEST = 500


def execute_page(page: Page, directory: Path, shown_with: Mapping[str, str]) -> Iterator[Record]:
    """Execute the steps of `page` in the folder `directory`. Yield the record of each step.

    `shown_with` contains environment variables for the outputs that readers see.
    """
    os.chdir(directory)
    sys.argv = [""]  # A page is not a script, so this is as in an interactive session.
    remember_lines(page)
    page_run = PageRun(page, shown_with)
    *steps, last = page.steps
    for step in steps:
        yield page_run.run(step)
    yield dataclasses.replace(page_run.run(last), after=page_run.closing())


class PageRun:
    """Runs the steps of a page in one namespace and records what they do."""

    def __init__(self, page: Page, shown_with: Mapping[str, str]) -> None:
        begin()
        path, self._setup = page.path, page.setup
        if path.endswith(".md"):  # A page imports from its own folder, a docstring does not.
            sys.path.insert(0, str(Path.cwd()))
        self._path = path
        self._recorder = Recorder(path)
        vars(builtins)[RECORDER] = self._recorder
        self._capture = OutputCapture(path, shown_with)
        vars(builtins)["display"] = self._capture.show
        self._page = page
        vars(builtins)[FOR_ALL] = self._for_all = ForAll(page.zoo, self._recorder)
        self._namespace = _as_main(path, page.module)
        self._causes = Causes(self._namespace)
        self._examples = ExampleRunner(
            path, self._namespace, page.flags, self._recorder, self._causes
        )
        self._line = 1

    def run(self, step: Step) -> Record:
        """Run one step and return its outputs, checks and problems."""
        self._line = step.line
        self._for_all.claim = self._page.claim_about(step)
        if self._capture.is_copy:
            self._recorder.settle()
        with self._capture.capturing(step.may_print if isinstance(step, Cell) else None):
            try:
                record = self._step(step)
            except Exception as error:  # noqa: BLE001 - the other steps are still judged
                message = f"the prover failed here: {describe(error)}"
                record = Record(problems=(Problem(step.line, message),))
        return self._complete_record(record, step)

    def closing(self) -> Record:
        """Run exit functions and finalizers, and return a record with their problems."""
        with self._capture.capturing():
            end()
            self._namespace = _as_main(self._path)
            del self._examples, self._causes  # They hold the namespace too.
            vars(builtins).pop("_", None)  # `_` is the last value of an example.
            gc.collect()
        record = self._complete_record(Record(), None)
        self._recorder.close()
        return record

    def _step(self, step: Step) -> Record:
        match step:
            case Cell():
                return self._cell(step)
            case Doctest():
                return self._doctest(step)
            case Inline():
                return self._inline(step)

    def _cell(self, step: Cell) -> Record:
        error = execute_cell(step, self._namespace, self._path, self._capture)
        checks = tuple(check_cell(step, error, self._capture))
        if error and any(check.kind == "raises" and check.passed for check in checks):
            self._recorder.excuse(error)
        asserted = self._take_asserts(step)
        problems = tuple(unexpected_error(step, error, asserted, self._path))
        self._capture.outputs.extend(declared_outputs(step, error, self._capture, self._path))
        broke = error is not None and step.raises is None
        if error is not None and broke:
            line = problems[0].line if problems else step.line
            cause = self._causes.of(error, step.source, line)
            problems = tuple(dataclasses.replace(problem, cause=cause) for problem in problems)
        return Record(checks=(*asserted, *checks), problems=problems, broke=broke)

    def _doctest(self, step: Doctest) -> Record:
        found: list[Check | Problem] = []
        try:
            step.examples()
        except ValueError as error:
            return Record(problems=(Problem(step.line, f"examples cannot be read: {error}"),))
        setup, self._setup = self._setup, ""
        try:
            exec(compile(setup, "doctest_global_setup", "exec"), self._namespace)
        except BaseException as error:  # noqa: BLE001 - any exception is reported
            message = f"doctest_global_setup cannot be executed: {describe(error)}"
            found.append(Problem(step.line, message))
        found.extend(self._examples.run(step))
        return Record(
            checks=tuple(one for one in found if isinstance(one, Check)),
            problems=tuple(one for one in found if isinstance(one, Problem)),
        )

    def _inline(self, step: Inline) -> Record:
        try:
            value = eval(compile(step.source, self._path, "eval"), self._namespace)
            shown = str(value) if step.role == "value" else repr(value)
        except BaseException as error:  # noqa: BLE001 - after any exception, the sentence is not proven
            cause = self._causes.of(error, "", step.line)
            message = f"{describe(error)}, in `{step.source}`"
            return Record(problems=(Problem(step.line, message, cause),))
        if step.role == "value":
            return Record(value=shown)
        found, passed = f"it is {shown}", value is True
        check = Check(line=step.line, kind="inline", text=step.source, passed=passed, found=found)
        return Record(checks=(check,))

    def _take_asserts(self, step: Step | None) -> tuple[Check, ...]:
        """Return the asserts that were evaluated since the last step, as checks of `step`."""
        return tuple(_assign_to_step(step, check) for check in self._recorder.take())

    def _complete_record(self, record: Record, step: Step | None) -> Record:
        if self._capture.is_copy:  # a forked child must not run the rest of the page
            for problem in record.problems:
                os.write(2, f"{problem.message}\n".encode())
            os._exit(bool(record.problems))
        gathered = dataclasses.replace(
            record,
            outputs=tuple(self._capture.outputs),
            checks=(*self._take_asserts(step), *record.checks),
            problems=tuple(map(_brief, (*record.problems, *self._find_undeclared(step)))),
        )
        self._capture.forget()
        return gathered

    def _find_undeclared(self, step: Step | None) -> Iterator[Problem]:
        declared = step.warns if isinstance(step, Cell) else None
        for warning in undeclared_warnings(self._capture.warnings, declared):
            line = line_on_page(self._path, warning.filename, warning.lineno) or self._line
            kind = warning.category.__name__
            message = textwrap.shorten(str(warning.message), 160)
            yield Problem(line, f"undeclared warning: {kind}: {message}")
        for line_of_page, complaint in self._capture.complaints:
            yield Problem(line_of_page or self._line, complaint)


def _as_main(path: str, module: str | None = None) -> dict[str, object]:
    """Replace `__main__` by a new module with the names of `module`, or without names.

    `path` becomes its `__file__`.

    Returns:
        The namespace of the new module.
    """
    main = types.ModuleType("__main__")
    names = vars(importlib.import_module(module)) if module else {}
    main.__dict__.update({name: names[name] for name in names if name[:2] != "__"})
    main.__file__ = path
    # Without a spec, a spawned process would execute the Markdown file.
    main.__spec__ = importlib.machinery.ModuleSpec("__main__", None)
    sys.modules["__main__"] = main
    return main.__dict__


def _assign_to_step(step: Step | None, check: Check) -> Check:
    """Return `check` with `asked` set, so that it counts as evidence for the right step.

    `step` has just run. If the line of the check is in this step, `asked` is None. Otherwise the
    check is in a function or thread of an earlier step, and `asked` is the line that called the
    function. For an example or expression, it is always a line of this step.
    """
    if step is None or check.line in range(step.line, step.line + len(step.source.splitlines())):
        return dataclasses.replace(check, asked=None)
    if isinstance(step, Cell) or check.asked in range(
        step.line, step.line + len(step.source.splitlines())
    ):
        return check  # It may be from a thread of an earlier cell, so keep its `asked`.
    return dataclasses.replace(check, asked=step.line)


def _brief(problem: Problem) -> Problem:
    if len(problem.message) <= _LONGEST:
        return problem
    return dataclasses.replace(problem, message=f"{problem.message[:_LONGEST]} ...")


def remember_lines(page: Page) -> None:
    """Store the code of the cells in `linecache`, so that tracebacks and `inspect` find it."""
    lines: list[str] = []
    for cell in (step for step in page.steps if isinstance(step, Cell)):
        lines += ["\n"] * (cell.line - 1 - len(lines))
        lines += [f"{line}\n" for line in cell.source.splitlines()]
    linecache.cache[page.path] = (sum(map(len, lines)), None, lines, page.path)
