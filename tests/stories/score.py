"""Count the stories that a report explains: ``python -m tests.stories.score``."""

import importlib
import inspect
import pkgutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from leafgrad import Report, diagnose
from leafgrad.types import Diagnosis, Edit, Severity
from tests import stories
from tests.stories import diagnosing, trackers
from tests.stories.training import (
    Story,
    Training,
    compile_program,
    run,
    run_recorded,
    symptoms,
    undisturbed,
)

CODES = {
    "accumulation-not-averaged": "accumulation-not-averaged",
    "acos-at-one": "nan-gradient",
    "argmax": "no-derivative no-graph",
    "autograd-in-vmap": "create-graph no-graph",
    "broadcast": "broadcast-loss",
    "clamp": "zero-gradient",
    "collective": "collective no-graph",
    "constant-objective": "zero-gradient",
    "constant-term": "dead-term",
    "create-graph": "create-graph missing-create-graph no-graph dead-term",
    "data-write": "silent-write copied other-tensor",
    "detach": "detached no-graph dead-term",
    "half-overflow": "nan-value nan-gradient",
    "hook": "zero-gradient gradients-not-checked",
    "in-place-leaf": "leaf-in-place",
    "inference-mode": "no-grad no-graph",
    "infinity-scaled": "nan-value nan-gradient",
    "integer": "no-derivative no-graph",
    "learning-rate-zero": "zero-learning-rate",
    "mean-of-nothing": "nan-value nan-input",
    "nan-in-data": "nan-input",
    "negative-variance": "nan-value nan-gradient",
    "normalize-zero": "nan-value nan-gradient",
    "not-frozen": "unexpected-gradient",
    "not-registered": "unregistered not-a-leaf",
    "numpy": "converted no-graph",
    "optimizer-lacks": "not-in-optimizer",
    "optimizer-stale": "not-in-optimizer idle-in-optimizer",
    "pow-at-zero": "nan-gradient",
    "pow-of-negative": "nan-value nan-gradient",
    "sample": "no-derivative no-graph",
    "second-backward": "freed",
    "softmax-of-nothing": "nan-value nan-gradient",
    "softmax-twice": "softmax-twice",
    "sqrt-at-zero": "nan-gradient",
    "std-of-one": "nan-value nan-gradient",
    "straight-through": "detached zero-derivative no-derivative no-graph zero-gradient",
    "target-not-detached": "unexpected-gradient",
    "threshold": "no-derivative no-graph zero-gradient",
    "unused": "unused",
    "unused-result": "unused not-reached unused-result",
    "where-branch": "nan-gradient",
    "zero-by-zero": "nan-value nan-gradient",
    "zero-grad-missing": "missing-zero-grad",
    "zero-init-twice": "zero-gradient starts-at-zero",
    "gradient-left-over": "missing-zero-grad",
}
"""The codes that name a cause of the stories in `trackers`; the others have the code's own name."""

VERDICTS = ("whole", "half", "no", "false")


class Score(NamedTuple):
    """How well a report explains a story, and what is missing."""

    title: str
    code: str
    verdict: str
    lacks: tuple[str, ...]


def score_of_tracker(story: Story) -> Score:
    """Return the score of the report on a story from a public tracker."""
    codes = CODES.get(story.cause, story.cause).split() + ["dead-term"] * (story.term is not None)
    report, error = report_on(story)
    if report is None:
        return Score(story.title, codes[0], "no", (f"raises before there is a loss: {error}",))
    found = next((one for one in report if one.code in codes), None)
    weighty = [one for one in report if one.severity is not Severity.NOTE]
    if found is None:
        said = tuple(one.code for one in weighty)
        return Score(story.title, codes[0], "false" if said else "no", said)
    lacks = tuple(_lacks(story, found, report))
    return Score(story.title, codes[0], "half" if lacks else "whole", lacks)


def report_on(story: Story) -> tuple[Report | None, Exception | None]:
    """Return the report on a story before its last backward pass, or the error it raised."""
    with undisturbed():
        try:
            training, recording = run_recorded(story.broken)
        except Exception as error:  # noqa: BLE001 # the story's own
            return None, error
        names: Any = training.model
        if names is None or not {*story.names}.isdisjoint(training.tensors):
            named = training.named.items()
            names = {name: one for name, one in named if _is_parameter(name, one, training)}
        expect = None
        if story.symptom == "leak" and training.model is not None:
            leaked = {name.rpartition(".")[0] or name for name in story.names}
            own = [name for name, _ in training.model.named_parameters()]
            expect = [name for name in own if name.rpartition(".")[0] not in leaked]
        report = diagnose(
            training.loss,
            names,
            training.optimizer,
            recording=recording,
            gradients=not training.done,
            expect=expect,
        )
        return report, None


def _is_parameter(name: str, tensor: Tensor, training: Training) -> bool:
    is_term = isinstance(training.loss, Mapping) and name in training.loss
    return not is_term and tensor is not training.loss


def _lacks(story: Story, found: Diagnosis, report: Report) -> Iterator[str]:
    """Yield what a finding is missing: the line, the column, a name, or an edit that works.

    `story` contains what the finding `found` should report.
    """
    spans = [one.source for one in (found.primary, *found.secondary) if one is not None]
    lines = [one for one in spans if any(s.line <= one.line <= s.end_line for s in story.spans)]
    if not lines:
        yield f"line: {[one.line for one in spans]}, not {story.spans[0].line}"
    elif not any(_overlaps(one, span) for one in lines for span in story.spans):
        yield "column"
    said = {name for one in report if one.code == found.code for name in one.subject}
    said |= {name for one in found.consequences for name in one.subject} | {"loss"}
    text = str(report)
    if found.code != "dead-term":  # The subject of this finding is the term.
        missing = [name for name in story.names if name not in said and f"`{name}`" not in text]
    else:
        missing = [] if story.term in said else [f"{story.term}"]
    if missing:
        yield f"name: {missing}"
    edits = [edit for one in found.help for edit in one.edits]
    if edits and not _cures(story, edits):
        yield "cure"


def _overlaps(source: Any, span: Any) -> bool:
    """Return whether the expressions at `source` and `span` overlap."""
    if source.column is None:
        return False
    start, end = (source.line, source.column + 1), (source.end_line, source.end_column + 1)
    return bool(start < span[2:] and span[:2] < end)


def _cures(story: Story, edits: Sequence[Edit]) -> bool:
    """Return whether the program of a story has no symptom once the edits are applied."""
    text, _, first = story.source
    lines: list[tuple[str, ...]] = [(line,) for line in text.splitlines()]
    for edit in edits:
        place = edit.line - first
        if not 0 <= place < len(lines) or lines[place] != (edit.before,):
            return False
        lines[place] = edit.after
    body = "\n".join(line for part in lines for line in part) + "\n"
    body = body[body.index("def ") :]
    try:
        program = compile_program(body, story.title, story.broken.__globals__)
    except SyntaxError:
        return False
    outcome = run(program, story.names)
    return outcome.error is None and set(symptoms(story, outcome)) == {""}


# --- Stories that their own tests hold


def score_of_diagnosed(story: diagnosing.Story) -> Score:
    """Return the score of a story whose own test checks code, lines, names and edits."""
    return _by(story.program.__name__, story.code, lambda: diagnosing.check(story))


def _by(title: str, code: str, check: Callable[[], object]) -> Score:
    try:
        check()
    except AssertionError as error:
        return Score(title, code or "healthy", "half", (str(error).splitlines()[0],))
    return Score(title, code or "healthy", "whole", ())


def all_scores() -> Iterator[Score]:
    """Yield the score of each story."""
    for module in pkgutil.iter_modules(trackers.__path__):
        for story in importlib.import_module(f"{trackers.__name__}.{module.name}").stories:
            yield score_of_tracker(story)
    for file in sorted(Path(inspect.getfile(diagnosing)).parent.glob("test_*.py")):
        held: Any = getattr(
            importlib.import_module(f"{stories.__name__}.{file.stem}"), "stories", []
        )
        for one in held:
            yield score_of_diagnosed(one)


def table(scores: Sequence[Score]) -> str:
    """Return a table: how many stories of each code are explained fully, half, not or falsely."""
    counts = Counter((one.code, one.verdict) for one in scores)
    codes = sorted({one.code for one in scores})
    rows = [[code, *(str(counts[code, verdict] or "") for verdict in VERDICTS)] for code in codes]
    total = Counter(one.verdict for one in scores)
    rows.append([f"{len(scores)} stories", *(str(total[verdict]) for verdict in VERDICTS)])
    return "\n".join(
        f"{code:28}{''.join(f'{one:>7}' for one in cells)}"
        for code, *cells in [["code", *VERDICTS], *rows]
    )


def main() -> None:
    """Print the table and the stories that are not fully explained."""
    warnings.simplefilter("ignore")
    scores = [*all_scores()]
    print(table(scores))  # noqa: T201
    for one in scores:
        if one.verdict != "whole":
            print(f"{one.verdict}: {one.title} ({one.code}): {'; '.join(one.lacks)}")  # noqa: T201


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
