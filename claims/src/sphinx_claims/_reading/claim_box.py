"""Read a `{claim}` directive into a `Claim`: its id, its sentence and its options."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sphinx_claims._page import KINDS, Claim, Problem
from sphinx_claims._reading.markdown import parser
from sphinx_claims._versions import is_before, is_version

OPTIONS = ("key", "kind", "scope", "since", "sources", "until")


def read_claim(
    argument: str, body: str, options: Mapping[str, Any], line: int
) -> Iterator[Claim | Problem]:
    """Yield the claim whose directive is on `line`, and its problems."""
    for key in sorted(set(options) - set(OPTIONS)):
        yield Problem(line, f"a claim's options are {', '.join(OPTIONS)}, not {key!r}")
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)+", argument):
        yield Problem(line, f"a claim's id must read topic/name, not {argument!r}")
    bounds = {key: str(options[key]) for key in ("since", "until") if key in options}
    for key in [key for key, bound in bounds.items() if not is_version(bound)]:
        message = f":{key}: must be a version, as in 2.12, not {bounds.pop(key)!r}"
        yield Problem(line, message)
    if len(bounds) > 1 and not is_before(**bounds):
        message = f":since: must be a version before :until:, not {bounds.pop('since')}"
        yield Problem(line, message)
    kind = options.get("kind")
    if kind is not None and kind not in KINDS:
        yield Problem(line, f":kind: must be {', '.join(KINDS[:-1])} or {KINDS[-1]}, not {kind!r}")
        kind = None
    statement = sentence_of(body)
    if not statement:
        yield Problem(line, "a claim must hold the sentence that it claims")
    parts = (source.strip() for source in str(options.get("sources") or "").split(","))
    sources = tuple(filter(None, parts))
    yield Claim(
        line=line,
        id=argument,
        statement=statement,
        kind=kind,
        scope=tuple(str(options.get("scope") or "").split()),
        sources=sources,
        since=bounds.get("since"),
        until=bounds.get("until"),
    )


def sentence_of(body: str) -> str:
    """Return the sentence of a claim: the text of its directive up to the first fence."""
    fences = (t.map for t in parser().parse(body) if t.type in {"fence", "colon_fence"})
    end = next((lines[0] for lines in fences if lines), None)
    return " ".join(" ".join(body.split("\n")[:end]).split())
