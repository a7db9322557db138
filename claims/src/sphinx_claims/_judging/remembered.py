"""How many mutants each claim has killed, as the last run of them wrote it down.

It is shown and never judged by, and only of a claim that has not changed since.
"""

import json
from collections.abc import Mapping, Sequence

from sphinx_claims._config import Config
from sphinx_claims._judging.verdict import ClaimVerdict

Count = Mapping[str, int | bool]
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
            }
            for identifier, kept in json.loads(text).items()
        }
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        return {}


def totals(known: Remembered, claims: Sequence[ClaimVerdict]) -> Count:
    """Add up the counts of the claims that have not changed."""
    found = [known.get((verdict.claim.id, verdict.digest)) for verdict in claims]
    counts = [count for count in found if count is not None]
    return {
        "made": sum(count["made"] for count in counts),
        "killed": sum(count["killed"] for count in counts),
        "can_fail": sum(count["can_fail"] for count in counts),
    }


def mutants_killed(count: Count | None) -> str:
    """Tell a reader of a count."""
    if count is None:
        return "not mutated since it changed"
    return f"{count['killed']} of {count['made']} mutants killed"
