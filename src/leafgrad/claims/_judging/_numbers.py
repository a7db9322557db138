"""The numbers in a claim's sentence, which must be in its evidence as well."""

import ast
import functools
import re
from collections.abc import Iterator, Sequence

from leafgrad.claims._page import Cell, Claim, Page, Problem, Step
from leafgrad.claims._reading._census import parsed
from leafgrad.claims._record import Record

Ran = tuple[Step, Record]

_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")
_RELEASE = re.compile(r"\b(?:PyTorch|torch|Python|version|float|int) \d+(?:\.\d+)*")
_NO_PROSE = re.compile(r"(?:\{\w+\})?(`+).*?\1|\$[^$]*\$|\]\([^)]*\)|<[^>]*>")
_COMMENT = re.compile(r"#(?!>).*")


def unproven_numbers(page: Page, ran: Sequence[Ran], waiting: Sequence[Step]) -> Iterator[Problem]:
    """Yield the numbers of sentences that are nowhere in their evidence.

    The evidence is what is executed, what that prints, and how the names were made that it uses.
    Signs do not count: a sentence says "minus". Where a cell broke or is `waiting`, that is told.
    """
    for claim in page.claims:
        span = page.span(claim)
        own = [(step, record) for step, record in ran if step.line in span]
        is_whole = not any(step.line in span for step in waiting)
        if own and is_whole and not any(record.broke for _, record in own):
            for text in _missing(claim, own, ran):
                yield Problem(
                    claim.line, f"the sentence says {text}, and nothing in its evidence does"
                )


def _missing(claim: Claim, own: Sequence[Ran], ran: Sequence[Ran]) -> list[str]:
    said = dict(_numbers(_RELEASE.sub(" ", _NO_PROSE.sub(" ", claim.statement))))
    if not said:
        return []
    shown = {value for text in _shown(own, ran) for value, _ in _numbers(text)}
    return [text for value, text in said.items() if value not in shown]


def _numbers(text: str) -> Iterator[tuple[float, str]]:
    for found in _NUMBER.finditer(text):
        yield float(found[0].replace(",", "")), found[0]


def _shown(own: Sequence[Ran], ran: Sequence[Ran]) -> Iterator[str]:
    used: set[str] = set()
    for step, record in own:
        yield _COMMENT.sub("", step.source)
        yield record.value or ""
        yield from (str(out.get("text") or out.get("data")) for out in record.outputs)
        tree = parsed(step.source)
        nodes = ast.walk(tree) if tree is not None else ()
        used |= {node.id for node in nodes if isinstance(node, ast.Name)}
    for step, _ in ran:
        if isinstance(step, Cell) and step.line < own[0][0].line:
            yield from (_made(step, used))


def _made(cell: Cell, names: set[str]) -> Iterator[str]:
    """Yield the statements of `cell` that give values to `names`."""
    for stored, statement in _bindings(cell.source):
        if not stored.isdisjoint(names):
            yield statement


@functools.lru_cache(maxsize=4096)  # each claim below asks
def _bindings(source: str) -> tuple[tuple[frozenset[str], str], ...]:
    """List the statements of a cell, each with the names that it gives values to."""
    tree = parsed(source)
    found = []
    for statement in tree.body if tree is not None else ():
        parts = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
        stored = frozenset(part.id for part in parts if isinstance(part.ctx, ast.Store))
        found.append((stored, ast.unparse(statement)))
    return tuple(found)
