"""Programs with a mistake, the code and the lines of its finding, and a test of its fix."""

import inspect
import linecache
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from leafgrad import Recording, Report, diagnose
from leafgrad.types import Edit

MARK = "# here"
"""Stands behind each line of a program that a report must mark."""

Diagnosed = tuple[Any, Any, Recording | None]
"""What `diagnose` gets: the loss, the names and the recording."""
Program = Callable[[], Diagnosed]
MOST_REPAIRS = 5


class Story(NamedTuple):
    """A program with a mistake.

    Attributes:
        program: The program.
        source: The address at which somebody asked for help with it.
        code: The code of the first finding.
        names: The tensors that the report must name.
        help: Words that the report must contain: the fix, or the cause if a code has several.
    """

    program: Program
    source: str
    code: str
    names: tuple[str, ...]
    help: str


class Stories(list[Story]):
    """The stories of one file. As a decorator, it adds the program below."""

    def __call__(
        self,
        source: str,
        code: str,
        *names: str,
        help: str = "",  # noqa: A002
    ) -> Callable[[Program], Program]:
        """Return a decorator that adds a program."""

        def add(program: Program) -> Program:
            self.append(Story(program, source, code, names, help))
            return program

        return add


def report_on(program: Program) -> Report:
    """Run a program and return the report on it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns about some of them, once per process.
        loss, names, recording = program()
        return diagnose(loss, names, recording=recording, gradients=True)


def check(story: Story) -> None:
    """Fail unless the report has the code, lines and tensors of a story, and a fix that works."""
    report = report_on(story.program)
    assert report.codes[:1] == (story.code,), report
    found = report.diagnoses[0]
    code, start = inspect.getsourcelines(story.program)
    marked = {start + number for number, line in enumerate(code) if MARK in line}
    spans = [span for span in (found.primary, *found.secondary) if span is not None]
    assert marked <= {span.source.line for span in spans}, report
    assert {*story.names} <= {*found.subject}, report
    assert story.help in " ".join(str(report).split()), report
    program = story.program
    for _ in range(MOST_REPAIRS):
        edits = [edit for one in found.help for edit in one.edits]
        if not edits:
            break
        program = _repaired(program, edits)
        report = report_on(program)
        if all((one.code, one.severity) != (found.code, found.severity) for one in report):
            return
        found = report.diagnoses[0]
    assert program is story.program, f"its fix is no cure: {report}"


def _repaired(program: Program, edits: list[Edit]) -> Program:
    """Return a program with the edits of a report applied, without its decorator."""
    code, start = inspect.getsourcelines(program)
    after = {edit.line - start: edit for edit in edits}
    assert all(code[at].rstrip("\n") == edit.before for at, edit in after.items())
    lines = [
        "".join(f"{one}\n" for one in after[at].after) if at in after else line
        for at, line in enumerate(code)
    ]
    body = "".join(lines)
    body = body[body.index("def ") :]
    file = f"<repaired {program.__name__} {hash(body)}>"
    linecache.cache[file] = len(body), None, body.splitlines(keepends=True), file
    scope = dict(program.__globals__)
    exec(compile(body, file, "exec"), scope)
    repaired: Program = scope[program.__name__]
    return repaired
