"""Execute `>>>` examples: the standard library's doctest, its findings as checks."""

import ast
import doctest
import re
from collections.abc import Iterator
from typing import Any

from sphinx_claims._executing.asserts import has_checks, recorded
from sphinx_claims._executing.raised import described
from sphinx_claims._executing.reporting import RECORDER
from sphinx_claims._executing.vacuous_checks import vacuous_checks
from sphinx_claims._page import Problem
from sphinx_claims._record import Check

_ELIDED = re.compile(r"[\w.]+:\s*\.\.\.\s*")
"""The last line of a traceback, without what the message holds."""


def execute_examples(test: doctest.DocTest) -> tuple[tuple[Check, ...], tuple[Problem, ...]]:
    """Run the examples of `test` in its own `globs`; return their checks and what is wrong."""
    runner = _Runner({example.lineno: example.source.strip() for example in test.examples})
    problems = tuple(problem for example in test.examples for problem in _prepared(test, example))
    for example in test.examples:
        if example.options.pop(doctest.SKIP, False):
            runner.report(test, example, found="it asks to be skipped", passed=False)
    runner.run(test, out=lambda _: None, clear_globs=False)
    return tuple(runner.checks), problems


def _prepared(test: doctest.DocTest, example: doctest.Example) -> Iterator[Problem]:
    """Let the asserts of `example` be recorded; yield what keeps it from being false."""
    line = _line(test, example)
    if doctest.IGNORE_EXCEPTION_DETAIL in example.options:
        yield Problem(line, "this example asks to ignore what the error says")
    error = example.exc_msg or ""
    if doctest.ELLIPSIS in example.options and _ELIDED.fullmatch(error):
        yield Problem(line, f"any error of its type passes for {error.strip()!r}")
    try:
        tree = ast.parse(example.source)
    except SyntaxError:
        return
    ast.increment_lineno(tree, line - 1)
    for place, objection in vacuous_checks(tree, example.source):
        yield Problem(place, objection)
    if has_checks(example.source):
        example.source = ast.unparse(recorded(tree)) + "\n"


class _Runner(doctest.DocTestRunner):
    def __init__(self, texts: dict[int, str]) -> None:
        super().__init__(verbose=False, optionflags=doctest.DONT_ACCEPT_TRUE_FOR_1)
        self._texts = texts
        self.checks: list[Check] = []

    def report_success(self, _out: Any, test: doctest.DocTest, example: Any, _got: str) -> None:
        if example.want:
            self.report(test, example, found="", passed=True)

    def report_failure(self, _out: Any, test: doctest.DocTest, example: Any, got: str) -> None:
        self.report(test, example, found=f"it gives {got.strip()!r}", passed=False)

    def report_unexpected_exception(
        self, _out: Any, test: doctest.DocTest, example: Any, exc_info: Any
    ) -> None:
        if not (RECORDER in example.source and isinstance(exc_info[1], AssertionError)):
            found = f"it raises {described(exc_info[1])}"
            self.report(test, example, found=found, passed=False)

    def report(
        self, test: doctest.DocTest, example: doctest.Example, *, found: str, passed: bool
    ) -> None:
        """Note what became of one example."""
        wanted = f" -> {example.want.strip()}" if example.want else ""
        text = self._texts[example.lineno] + wanted
        line = _line(test, example)
        self.checks.append(Check(line=line, kind="example", text=text, passed=passed, found=found))


def _line(test: doctest.DocTest, example: doctest.Example) -> int:
    return (test.lineno or 0) + example.lineno + 1
