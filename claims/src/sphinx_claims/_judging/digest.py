"""Compute digests of claims. A stored verdict is valid only while the digest is the same."""

import hashlib
import json

from sphinx_claims._page import Cell, Claim, Doctest, Inline, Page, Step


def digest(page: Page, claim: Claim) -> str:
    """Return a hash of the sentence, kind, scope and versions of `claim`, and of its evidence.

    Two claims with the same digest are equal in all of these. The digest does not depend on the
    line of the claim, on its sources or on the rest of the page.
    """
    evidence = [_step(step) for step in page.evidence(claim)]
    kind = [claim.kind, sorted(claim.outside), claim.exceptions] if claim.kind else []
    text = json.dumps([claim.statement, claim.since, claim.until, evidence, *kind])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _step(step: Step) -> list[str | None]:
    match step:
        case Cell():
            noise = [] if step.may_print is None else ["may-print", step.may_print]
            return ["cell", step.source, step.raises, step.warns, *noise]
        case Doctest():
            code = ["testcode", step.output] if step.is_code else []
            return ["doctest", step.source, *code, *step.options, *filter(None, [step.skip_if])]
        case Inline():
            return [step.role, step.source]
