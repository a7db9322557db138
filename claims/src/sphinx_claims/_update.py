"""Rewrite outdated outputs on pages: below examples, in `#>` lines and in `{testoutput}`.

If an example raises instead of printing, or the other way round, its output is not rewritten.
"""

import dataclasses
import difflib
import doctest
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from sphinx_claims._executing.cell import pins, shown_lines
from sphinx_claims._judging.site import SiteVerdict
from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._page import Cell, Doctest
from sphinx_claims._record import Check, Record

Place = tuple[str, int]
"""The path of a page, and the line of a check on it."""


@dataclasses.dataclass(frozen=True)
class _Edit:
    """A change of a file: the lines from `first` to before `end`, counted from 0, become `new`.

    The change updates the checks on `lines`.
    """

    first: int
    end: int
    new: tuple[str, ...]
    lines: frozenset[int]


def update_outputs(site: SiteVerdict, root: Path) -> tuple[list[str], set[Place]]:
    """Rewrite outdated outputs in the files of `site`.

    Return the diffs, and the places of the checks that are now true.
    """
    found: dict[Path, list[tuple[str, _Edit]]] = defaultdict(list)
    texts: dict[Path, list[str]] = {}
    for verdict in site.pages:
        file, path = root / verdict.page.path, verdict.page.path
        if not any(check.kind in {"example", "output"} for check in _failed_checks(verdict)):
            continue
        texts.setdefault(file, file.read_text(encoding="utf-8").split("\n"))
        found[file] += [(path, edit) for edit in _edits(verdict, texts[file])]
    diffs, places = [], set()
    for file, edits in found.items():
        before, after = texts[file], [*texts[file]]
        for path, edit in sorted(edits, key=lambda pair: -pair[1].first):
            after[edit.first : edit.end] = edit.new
            places |= {(path, line) for line in edit.lines}
        if edits:
            file.write_text("\n".join(after), encoding="utf-8")
            path = edits[0][0]
            diff = difflib.unified_diff(before, after, path, path, lineterm="")
            diffs.append("\n".join(diff))
    return diffs, places


def _failed_checks(verdict: PageVerdict) -> list[Check]:
    return [check for check in verdict.checks if not check.passed and not check.cause]


def _edits(verdict: PageVerdict, text: Sequence[str]) -> Iterator[_Edit]:
    failed = {(check.kind, check.line): check for check in _failed_checks(verdict)}
    for step, record in verdict.executed:
        if isinstance(step, Doctest):
            for line, example in step.examples():
                if check := failed.get(("example", line)):
                    yield from _of_example(step, line, example, check, text)
        elif isinstance(step, Cell) and not record.broke:
            pinned = pins(step.source)
            lines = {step.line + index for index, _, _ in pinned}
            if any(("output", line) in failed for line in lines):
                yield from _of_pins(step, record, text)


def _of_example(
    step: Doctest, line: int, example: doctest.Example, check: Check, text: Sequence[str]
) -> Iterator[_Edit]:
    """Yield the edit of the output below an example, unless the file has changed since.

    `line` is the line of the example, and `text` contains the lines of the page.
    """
    if step.is_code:
        if not step.output_line:
            return
        fence = text[step.output_line - 2]
        prefix, first = fence[: len(fence) - len(fence.lstrip("> \t"))], step.output_line - 1
        old = step.output.splitlines()
    else:
        prefix, mark, _ = text[line - 1].partition(">>>")
        first, old = line - 1 + example.source.count("\n"), example.want.splitlines()
        if not mark:
            return
    new = check.found.rstrip("\n").split("\n") if check.found else []
    if example.exc_msg is not None:  # keep the frames above the message
        kept = len(old) - example.exc_msg.count("\n")
        first, old = first + kept, old[kept:]
    if not step.is_code:
        new = [part or "<BLANKLINE>" for part in new]
    end = first + len(old)
    if [part.strip("> \t") for part in text[first:end]] == [part.strip("> \t") for part in old]:
        yield _Edit(first, end, tuple(f"{prefix}{part}" for part in new), frozenset({line}))


def _of_pins(step: Cell, record: Record, text: Sequence[str]) -> Iterator[_Edit]:
    """Yield an edit for each `#>` line of a cell. The last one gets all remaining lines."""
    pinned, shown = pins(step.source), shown_lines(record.outputs)
    for number, (index, _, _) in enumerate(pinned):
        place = step.line + index - 1
        code, mark, _ = text[place].rpartition("#>")
        if not mark:
            return
        rest = shown[number:] if number == len(pinned) - 1 else shown[number : number + 1]
        indent = code[: len(code) - len(code.lstrip())]
        starts = [code, *[indent] * len(rest)]
        new = [f"{start}#> {line}".rstrip() for start, line in zip(starts, rest, strict=False)]
        if not new and code.strip():
            new = [code.rstrip()]
        yield _Edit(place, place + 1, tuple(new), frozenset({place + 1}))
