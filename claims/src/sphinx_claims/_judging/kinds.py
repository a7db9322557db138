"""Check what the kind of a claim requires, and that the claim names its exceptions."""

import re
from collections.abc import Container, Iterator

from sphinx_claims._config import Config
from sphinx_claims._executing.asserts import asserts
from sphinx_claims._executing.cell import pins
from sphinx_claims._judging.digest import digest
from sphinx_claims._page import Cell, Claim, Page, Problem

BLIND = frozenset({"default", "rule"})
"""The kinds of claims that need a blind check: one by somebody who saw only the sentence."""

_INSTANCE = re.compile(r"[`$\d]|\b(?:this|these|here)\b", re.IGNORECASE)


def kind_problems(page: Page, claim: Claim, config: Config) -> Iterator[Problem]:
    """Yield a problem for each requirement of its kind that `claim` does not meet.

    Also yield a problem for each exception that neither the sentence nor the scope names.
    """
    for name in claim.exceptions:
        if name.strip("`") not in claim.outside and not _holds(claim.statement, name):
            yield Problem(claim.line, f"sentence or scope must name the exception {name!r}")
    evidence = page.evidence(claim)
    if evidence and all(isinstance(step, Cell) and step.exception_to for step in evidence):
        yield Problem(claim.line, f"claim {claim.id} has no evidence but its exceptions")
    if claim.kind is None and config.without_kind == "refuse":
        yield Problem(claim.line, f"claim {claim.id} must have a :kind:")
    if claim.kind == "instance" and not _INSTANCE.search(claim.statement):
        yield Problem(claim.line, "an instance must name its instance: code, a number or `this`")
    if claim.kind == "default" and not claim.exceptions:
        option = f"`:exception-to: {claim.id} NAME`"
        yield Problem(claim.line, f"a default needs a cell that shows what overrides it: {option}")
    if claim.digests and digest(page, claim) not in claim.digests:
        cure = f"read it again and run `claims check {claim.id}`"
        yield Problem(claim.line, f"the claim has changed since its blind check: {cure}")
    if claim.kind in BLIND and not claim.digests and config.unchecked == "refuse":
        yield Problem(claim.line, f"a {claim.kind} needs a blind check: `:checks: {claim.id} NEW`")


def _holds(statement: str, name: str) -> bool:
    sought = re.escape(name.replace("`", ""))
    return re.search(rf"(?i)(?<!\w){sought}(?!\w)", statement.replace("`", "")) is not None


def pair_problems(page: Page, known: Container[str]) -> Iterator[Problem]:
    """Yield a problem for each cell with `:checks:` or `:exception-to:` that is invalid.

    It must name a claim whose id is in `known`, and it must contain a check.
    """
    for cell in page.of(Cell):
        for key, pair in (("checks", cell.checks), ("exception-to", cell.exception_to)):
            if pair and pair[0] not in known:
                yield Problem(cell.fence, f":{key}: must name a claim, and no page has {pair[0]}")
            if pair and not (cell.raises or cell.warns or asserts(cell) or pins(cell.source)):
                yield Problem(cell.fence, f"a cell with :{key}: must hold a check")
