"""The tables of the ledger, and what it shows about each claim."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from docutils import nodes

from sphinx_claims._judging.history import CHANGED, WORDS
from sphinx_claims._sphinx.words import say

OURS = "claims_made"
"""Marks a table that the prover made, because its numbers are not claims of the page."""

Row = Sequence[str | nodes.Node]

_HEAD = ("run on", "Python", "tests", "claims")
_PAGES = ("page", "claims", "checks")
_PHRASES = {CHANGED: "not run since it changed"}
_BOUNDS = {"since": "since {package} {version}", "until": "until {package} {version}"}


def versions_table(ledger: Mapping[str, Any]) -> Iterator[nodes.table]:
    """Yield a table of this build and the runs on other versions, if there are any."""
    runs = ledger["versions"]
    if runs:
        claims = Counter(claim["verdict"] for claim in ledger["claims"])
        problems = len(ledger["problems"]) + sum(len(c["problems"]) for c in ledger["claims"])
        here = {**ledger, "date": say("this build"), "tests": {}, "claims": claims}
        here["problems"] = problems
        package = ledger["package"]
        rows = [
            (
                *(str(run[key]) for key in (package, "date", "python")),
                _counts(run["tests"]),
                _counts({**run["claims"], "false lines": run["problems"]}),
            )
            for run in (here, *runs)
        ]
        yield _table([(package, *map(say, _HEAD)), *rows], "claims-versions")


def pages_table(rows: Iterable[Row]) -> nodes.table:
    """Return a table of pages. Each row contains a link to a page and its `counts`."""
    return _table([[*map(say, _PAGES)], *rows], "claims-pages")


def counts(claims: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the number of claims on a page and the number of their checks, as text."""
    yield str(len(claims))
    yield str(sum(len(claim["evidence"]) for claim in claims))


def elsewhere(claim: Mapping[str, Any], package: str | None) -> Iterator[str]:
    """Yield texts about a claim: its version range, and the versions with another verdict.

    The versions are those of `package`.
    """
    for bound, told in _BOUNDS.items():
        if claim[bound] is not None:
            yield say(told, package=package, version=claim[bound])
    for word in WORDS:
        versions = [version for version, found in claim["versions"].items() if found == word]
        if versions and word != claim["verdict"]:
            slots = {"found": say(_PHRASES.get(word, word)), "versions": ", ".join(versions)}
            yield say("{found} on {package} {versions}", package=package, **slots)


def about(claim: Mapping[str, Any]) -> Iterator[str]:
    """Yield the kind of a claim, the words of its scope, and what its rules ran over.

    Yield nothing if the claim has no kind.
    """
    if claim["kind"] is not None:
        yield say(claim["kind"])
        yield from claim["scope"]
        tried = [check["text"] for check in claim["evidence"] if check["kind"] == "rule"]
        yield from (text.removeprefix("for_all ") for text in tried)


def _counts(numbers: Mapping[str, int]) -> str:
    told = (f"{n} {say(_PHRASES.get(word, word))}" for word, n in numbers.items() if n)
    return say(", ").join(told)


def _table(rows: Sequence[Row], kind: str) -> nodes.table:
    head, *body = (nodes.row("", *map(_entry, row)) for row in rows)
    columns = [nodes.colspec(colwidth=1) for _ in rows[0]]
    parts = (*columns, nodes.thead("", head), nodes.tbody("", *body))
    group = nodes.tgroup("", *parts, cols=len(columns))
    return nodes.table("", group, classes=[kind], **{OURS: True})


def _entry(shown: str | nodes.Node) -> nodes.entry:
    text = nodes.Text(shown) if isinstance(shown, str) else shown
    return nodes.entry("", nodes.paragraph("", "", text))
