"""How many mutants each claim has killed, and which it does not notice though it ought to.

The last run of them wrote it down. It counts only of a claim that has not changed since.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sphinx_claims._config import Config
from sphinx_claims._judging.verdict import ClaimVerdict
from sphinx_claims._page import Problem

Count = Mapping[str, Any]
_SORTS = ("equivalent", "outside", "gaps")
"""The sorts of mutants that survive."""

Remembered = Mapping[tuple[str, str], Count]
"""The count of each claim, under its id and its digest."""


def remembered(config: Config) -> Remembered:
    """Read the file that `config` names; what is no such file tells of no claim."""
    try:
        text = (config.root / (config.mutants or "")).read_text(encoding="utf-8")
        return {
            (identifier, kept["digest"]): {
                "made": int(kept["made"]),
                "killed": int(kept["killed"]),
                "can_fail": bool(kept["can_fail"]),
                **{sort: int(kept[sort]) for sort in _SORTS if sort in kept},
                **_listed(kept.get("unnoticed", ())),
            }
            for identifier, kept in json.loads(text).items()
        }
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        return {}


def _listed(gaps: Iterable[tuple[int, str]]) -> Mapping[str, list[tuple[int, str]]]:
    """Read the gaps of a claim, each with its distance from the line of the claim."""
    found = [(int(below), str(told)) for below, told in gaps]
    return {"unnoticed": found} if found else {}


def count_of(verdict: ClaimVerdict, known: Remembered) -> Count | None:
    """Return the count of a claim that has not changed."""
    return known.get((verdict.claim.id, verdict.digest))


def gaps_in_evidence(
    claims: Sequence[ClaimVerdict], config: Config
) -> Iterator[tuple[str, Problem]]:
    """Yield each gap for which a claim has no reason, and each reason that stands for no gap."""
    known = remembered(config)
    for verdict in claims:
        claim, count = verdict.claim, count_of(verdict, known)
        if count is None:
            continue
        if claim.unnoticed is None:
            for below, told in count.get("unnoticed", ()):
                found = Problem(claim.line + below, f"gap in claim {claim.id}: {told}")
                yield verdict.path, found
        elif count.get("gaps") == 0:
            message = f"claim {claim.id} has no gap: :unnoticed: need not give a reason for one"
            yield verdict.path, Problem(claim.line, message)


def totals(known: Remembered, claims: Sequence[ClaimVerdict]) -> Count:
    """Add up the counts of the claims that have not changed."""
    found = [count_of(verdict, known) for verdict in claims]
    counts = [count for count in found if count is not None]
    keys = ["made", "killed", "can_fail"]
    keys += [sort for sort in _SORTS if counts and all(sort in count for count in counts)]
    return {key: sum(count[key] for count in counts) for key in keys}


def mutants_killed(count: Count | None) -> str:
    """Tell a reader of a count, in which changes that are not about the claim do not appear.

    What an older run wrote down does not tell of these.
    """
    if count is None:
        return "not mutated since it changed"
    if "gaps" in count:
        of = count["made"] - count["outside"]
        gaps = f"{count['gaps']} gap" + "s" * (count["gaps"] != 1)
        told = f"{count['killed']} of {of} changes to the evidence noticed"
        return f"{told}, {count['equivalent']} equivalent, {gaps}"
    return f"{count['killed']} of {count['made']} mutants killed"
