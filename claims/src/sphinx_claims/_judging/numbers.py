"""The numbers that a page says, which must be in what it executes as well."""

import ast
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from sphinx_claims._page import Cell, Claim, Doctest, Page, Problem, Stated, Step
from sphinx_claims._python import parsed, parts, stored
from sphinx_claims._reading.quantities import figures
from sphinx_claims._reading.typed_results import SHOW_IT
from sphinx_claims._record import Ran, Record

_TEXTS = frozenset({"text/plain", "text/markdown", "text/latex", "text/html"})
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
                    claim.line,
                    f"the sentence says {text}, and nothing in its evidence does: "
                    "let an assert check it or {value} insert it",
                )
    if not waiting and not any(record.broke for _, record in ran):
        yield from _unproven_stated(page, ran)


def _unproven_stated(page: Page, ran: Sequence[Ran]) -> Iterator[Problem]:
    """Yield the numbers in headings, captions and formulas that nothing on the page has."""
    every = page.of(Stated)
    texts = (text for pair in ran for text in _evidence(*pair)) if every else ()
    shown = {value for text in texts for value in _values(text)}
    for stated in every:
        if stated.value not in shown and (ran or not stated.is_open):
            found = f"this {stated.place} says {stated.text}, and nothing on the page does"
            yield Problem(stated.line, f"{found}: {SHOW_IT}")


def _missing(claim: Claim, own: Sequence[Ran], ran: Sequence[Ran]) -> list[str]:
    if not claim.numbers:
        return []
    texts = list(_shown(own, ran))
    shown = {value for text in texts for value in _values(text)}
    counted = shown | set(_counts(python_of(step) for step, _ in own))
    return [
        quantity.text
        for quantity in claim.numbers
        if quantity.value not in (counted if quantity.is_count else shown)
    ]


def _values(text: str) -> Iterator[float]:
    """Yield each number of the evidence as it is written, and without its sign."""
    for quantity in figures(text):
        yield quantity.value
        yield abs(quantity.value)


def _counts(sources: Iterable[str]) -> Iterator[float]:
    """Yield how many things stand side by side anywhere in the evidence."""
    for node in itertools.chain.from_iterable(map(parts, sources)):
        for _, field in ast.iter_fields(node):
            if isinstance(field, list):
                yield len(field)


def _shown(own: Sequence[Ran], ran: Sequence[Ran]) -> Iterator[str]:
    used: set[str] = set()
    for step, record in own:
        yield from _evidence(step, record)
        used |= {node.id for node in parts(python_of(step)) if isinstance(node, ast.Name)}
    for step, _ in ran:
        if isinstance(step, Cell) and step.line < own[0][0].line:
            yield from (made for names, made in _bindings(step.source) if names & used)


def _evidence(step: Step, record: Record) -> Iterator[str]:
    """Yield what a step executes, declares and shows as text."""
    yield _COMMENT.sub("", step.source)
    yield record.value or ""
    if isinstance(step, Cell):
        yield f"{step.raises} {step.warns}"
    for output in record.outputs:
        data = output.get("data") or {}
        yield from (str(text) for kind, text in data.items() if kind in _TEXTS)
        yield " ".join(str(output.get(key, "")) for key in ("text", "evalue"))


def python_of(step: Step) -> str:
    """Return what is executed, without the prompts of examples and what is shown below them."""
    if not isinstance(step, Doctest):
        return step.source
    return "".join(source for _, source in step.python())


@functools.lru_cache(maxsize=4096)  # each claim below asks
def _bindings(source: str) -> list[tuple[set[str], str]]:
    """List the statements of a cell, each with the names that it gives values to."""
    body = getattr(parsed(source), "body", ())
    return [(stored([statement]), ast.unparse(statement)) for statement in body]
