"""A `{claim}` directive -> Claim: its id, its sentence and its options."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sphinx_claims._page import Claim, Problem
from sphinx_claims._reading.quantities import said as quantities
from sphinx_claims._versions import is_before, is_version

OPTIONS = ("key", "since", "sources", "universal", "unnoticed", "until")
_REASONS = {
    "universal": "why no cell runs over a family",
    "unnoticed": "why its gaps need not be closed",
}
"""The options that excuse a claim, and what they say of it."""


def read_claim(
    argument: str, body: str, options: Mapping[str, Any], line: int, said: str
) -> Iterator[Claim | Problem]:
    """Yield the claim on `line`, whose box has `said` all in all, and what is wrong with it."""
    for key in sorted(set(options) - set(OPTIONS)):
        yield Problem(line, f"a claim's options are {', '.join(OPTIONS)}, not {key!r}")
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)+", argument):
        yield Problem(line, f"a claim's id must read topic/name, not {argument!r}")
    bounds, wrong = _bounds(options)
    yield from (Problem(line, message) for message in wrong)
    reasons = {name: options[name] for name in _REASONS if options.get(name) is not None}
    for name, reason in reasons.items():
        if not reason.strip():
            yield Problem(line, f":{name}: must hold the reason {_REASONS[name]}")
    statement = sentence_of(body)
    if not statement:
        yield Problem(line, "a claim must hold the sentence that it claims")
    sources = (source.strip() for source in str(options.get("sources") or "").split(","))
    yield Claim(
        line=line,
        id=argument,
        statement=statement,
        numbers=tuple(dict.fromkeys(quantities(f"{statement} {said}"))),
        sources=tuple(filter(None, sources)),
        **bounds,
        **{name: " ".join(reason.split()) for name, reason in reasons.items() if reason.strip()},
    )


def sentence_of(body: str) -> str:
    """Return the sentence with which the body of a claim begins."""
    return " ".join(re.split(r"^[`:]{3,}", body, maxsplit=1, flags=re.MULTILINE)[0].split())


def _bounds(options: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Return the versions between which a claim holds, and what is wrong with them."""
    bounds: dict[str, str] = {k: options[k] for k in ("since", "until") if k in options}
    wrong = [
        f":{key}: must be a version, as in 2.12, not {bounds.pop(key)!r}"
        for key in list(bounds)
        if not is_version(bounds[key])
    ]
    if len(bounds) > 1 and not is_before(**bounds):
        return {}, [f":since: must be a version before :until:, not {bounds['since']}"]
    return bounds, wrong
