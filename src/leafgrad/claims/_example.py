"""Execute `>>>` examples: the standard library's doctest, its findings as checks."""

import doctest
import traceback
from types import TracebackType
from typing import Any

from leafgrad.claims._record import Check


def execute_examples(test: doctest.DocTest) -> list[Check]:
    """Run the examples of `test` in its own `globs`; return a check for each that can fail."""
    runner = _Runner(verbose=False)
    for example in test.examples:
        if example.options.pop(doctest.SKIP, False):
            runner.report(test, example, found="it asks to be skipped", passed=False)
    runner.run(test, out=lambda _: None, clear_globs=False)
    return runner.checks


class _Runner(doctest.DocTestRunner):
    def __init__(self, *, verbose: bool) -> None:
        super().__init__(verbose=verbose)
        self.checks: list[Check] = []

    def report_success(self, _out: Any, test: doctest.DocTest, example: Any, _got: str) -> None:
        if example.want or example.source.startswith("assert"):
            self.report(test, example, found="", passed=True)

    def report_failure(self, _out: Any, test: doctest.DocTest, example: Any, got: str) -> None:
        self.report(test, example, found=f"it gives {got.strip()!r}", passed=False)

    def report_unexpected_exception(
        self,
        _out: Any,
        test: doctest.DocTest,
        example: Any,
        exc_info: tuple[type[BaseException], BaseException, TracebackType],
    ) -> None:
        raised = traceback.format_exception_only(exc_info[1])[-1].strip()
        self.report(test, example, found=f"it raises {raised}", passed=False)

    def report(
        self, test: doctest.DocTest, example: doctest.Example, *, found: str, passed: bool
    ) -> None:
        """Note what became of one example."""
        line = (test.lineno or 0) + example.lineno + 1
        wanted = f" -> {example.want.strip()}" if example.want else ""
        text = example.source.strip() + wanted
        self.checks.append(Check(line=line, kind="example", text=text, passed=passed, found=found))
