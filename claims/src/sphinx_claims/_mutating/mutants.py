"""The evidence of a claim -> the changed copies of it that must not prove the claim."""

import ast
import dataclasses
import doctest
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from sphinx_claims._executing.cell import pins
from sphinx_claims._mutating.code_mutants import (
    changed,
    expression_edits,
    statement_edits,
)
from sphinx_claims._mutating.edit import Edit, Group
from sphinx_claims._page import Cell, Doctest, Inline, Step
from sphinx_claims._python import examples, loaded, stored

_STRETCH = re.compile(r"(?<!\\)[A-Za-z0-9](?:[\w ,'=-]*\w)?")
"""What a regular expression holds that stands for itself."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change, on a line of the page: there is `step` in the place of another."""

    line: int
    group: Group
    words: str
    step: Step
    names: tuple[str, ...] = ()


def mutants(steps: Sequence[Step]) -> Iterator[list[Mutant]]:
    """Yield the mutants of each step of a claim's evidence."""
    read = Counter(loaded(tree for step in steps for tree in _trees(step)))
    for step in steps:
        match step:
            case Cell():
                yield [*_of_code(step, read), *_of_pins(step), *_of_declarations(step)]
            case Doctest():
                yield [*_of_examples(step, read)]
            case Inline(role="claim"):
                edits = expression_edits(step.source)
                yield [_edited(step, edit, edit.applied(step.source).rstrip()) for edit in edits]
            case _:
                yield []


def names_needed(steps: Sequence[Step]) -> list[str]:
    """List the names that must be bound before `steps` are executed."""
    bound: set[str] = set()
    needed: dict[str, None] = {}
    for step in steps:
        for tree in _trees(step):
            for part in ast.iter_child_nodes(tree):
                needed |= dict.fromkeys(name for name in loaded([part]) if name not in bound)
                bound |= stored([part])
    return list(needed)


def _trees(step: Step) -> list[ast.AST]:
    match step:
        case Doctest():
            return [ast.parse(example.source) for example in examples(step.source)]
        case _:
            return [ast.parse(step.source)]


def _edited(step: Step, edit: Edit, source: str, above: int = 0) -> Mutant:
    line = step.line + above + edit.line
    found = _mutant(step, line=line, group=edit.group, words=edit.words, source=source)
    return dataclasses.replace(found, names=edit.names)


def _mutant(step: Step, *, line: int, group: Group, words: str, **changes: Any) -> Mutant:
    return Mutant(line=line, group=group, words=words, step=dataclasses.replace(step, **changes))


def _of_code(cell: Cell, read: Counter[str]) -> Iterator[Mutant]:
    # Without its last statement, a cell that must raise or show something does not, of course.
    shown = cell.raises is not None or bool(pins(cell.source))
    for edit in statement_edits(cell.source, read, shown=shown):
        yield _edited(cell, edit, edit.applied(cell.source))


def _of_pins(cell: Cell) -> Iterator[Mutant]:
    lines = cell.source.split("\n")
    for index, column, text in pins(cell.source):
        other = changed(text)
        line = f"{lines[index][:column]}#> {other}"
        source = "\n".join([*lines[:index], line, *lines[index + 1 :]])
        words = f"output {text!r} -> {other!r}"
        yield _mutant(cell, line=cell.line + index, group="check", words=words, source=source)


def _of_declarations(cell: Cell) -> Iterator[Mutant]:
    for option in ("raises", "warns"):
        for declared in _declarations(getattr(cell, option) or ""):
            words = f':{option}: "{declared}"'
            changes = {option: declared}
            yield _mutant(cell, line=cell.fence, group="check", words=words, **changes)


def _declarations(declared: str) -> Iterator[str]:
    """Yield `Type: pattern` with another type, and with each literal stretch of it changed.

    Of alternatives one is enough: they are changed together.
    """
    name, colon, pattern = declared.partition(":")
    if name:
        yield f"{changed(name)}{colon}{pattern}"
    if "|" in pattern:
        yield f"{name}:{_STRETCH.sub(lambda stretch: changed(stretch[0]), pattern)}"
        return
    for stretch in _STRETCH.finditer(pattern):
        start, end = stretch.span()
        yield f"{name}:{pattern[:start]}{changed(stretch[0])}{pattern[end:]}"


def _of_examples(step: Doctest, read: Counter[str]) -> Iterator[Mutant]:
    for example in examples(step.source):
        for edit in statement_edits(example.source, read, shown=bool(example.want)):
            source = _with_example(step, example, edit.applied(example.source), example.want)
            yield _edited(step, edit, source, above=example.lineno)
        if example.want:
            want = changed(example.want.rstrip())
            source = _with_example(step, example, example.source, want)
            line = step.line + example.lineno
            words = f"output {example.want.strip()!r} -> {want.strip()!r}"
            yield _mutant(step, line=line, group="check", words=words, source=source)


def _with_example(step: Doctest, example: doctest.Example, source: str, want: str) -> str:
    """Return the source of `step` with other lines in the place of `example`."""
    lines = step.source.split("\n")
    height = example.source.count("\n")
    code, *more = source.split("\n")[:height]
    new = [f">>> {code}", *(f"... {line}" for line in more), *want.splitlines()]
    margin = " " * example.indent
    end = example.lineno + height + example.want.count("\n")
    return "\n".join([*lines[: example.lineno], *(margin + line for line in new), *lines[end:]])
