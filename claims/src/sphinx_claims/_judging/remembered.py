"""How many mutants each claim has killed, as the last run of them wrote it down.

It is shown and never judged by, and only of a claim that has not changed since.
"""

import json
from collections.abc import Mapping, Sequence

from sphinx_claims._config import Config
from sphinx_claims._judging.verdict import ClaimVerdict

Count = Mapping[str, int | bool]
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
            }
            for identifier, kept in json.loads(text).items()
        }
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        return {}


def totals(known: Remembered, claims: Sequence[ClaimVerdict]) -> Count:
    """Add up the counts of the claims that have not changed."""
    found = [known.get((verdict.claim.id, verdict.digest)) for verdict in claims]
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
