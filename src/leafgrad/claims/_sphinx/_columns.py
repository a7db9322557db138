"""The versions on the ledger page: a table of the runs, and what a claim was elsewhere."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from docutils import nodes

from leafgrad.claims._judging._matrix import CHANGED, WORDS

_HEAD = ("torch", "run on", "Python", "tests", "claims")
_PHRASES = {CHANGED: "not run since it changed"}


def versions_table(ledger: Mapping[str, Any]) -> Iterator[nodes.table]:
    """Yield a table of this build and the runs on other versions, if there are any."""
    runs = ledger["versions"]
    if runs:
        claims = Counter(claim["verdict"] for claim in ledger["claims"])
        problems = len(ledger["problems"]) + sum(len(c["problems"]) for c in ledger["claims"])
        here = {**ledger, "date": "this build", "tests": {}, "claims": claims, "problems": problems}
        yield _table([_HEAD, *map(_row, [here, *runs])])


def elsewhere(claim: Mapping[str, Any]) -> Iterator[str]:
    """Yield where a claim says that it holds, and where it was found to be otherwise."""
    for bound in ("since", "until"):
        if claim[bound] is not None:
            yield f"{bound} torch {claim[bound]}"
    for word in WORDS:
        versions = [version for version, found in claim["versions"].items() if found == word]
        if versions and word != claim["verdict"]:
            yield f"{_PHRASES.get(word, word)} on torch {', '.join(versions)}"


def _row(run: Mapping[str, Any]) -> Sequence[str]:
    red = {"false lines": run["problems"]}
    facts = (str(run[key]) for key in ("torch", "date", "python"))
    return (*facts, _counts(run["tests"]), _counts({**run["claims"], **red}))


def _counts(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {_PHRASES.get(word, word)}" for word, n in numbers.items() if n)


def _table(rows: Sequence[Sequence[str]]) -> nodes.table:
    head, *body = (nodes.row("", *map(_entry, row)) for row in rows)
    columns = [nodes.colspec(colwidth=1) for _ in rows[0]]
    parts = (*columns, nodes.thead("", head), nodes.tbody("", *body))
    return nodes.table("", nodes.tgroup("", *parts, cols=len(columns)), classes=["claims-versions"])


def _entry(text: str) -> nodes.entry:
    return nodes.entry("", nodes.paragraph("", text))
