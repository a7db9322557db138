"""What earlier runs wrote down of the claims: on other versions, and of their mutants.

It counts only of a claim that has not changed since.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.version import Version

from sphinx_claims._config import Config
from sphinx_claims._judging.matrix import Run, read_run
from sphinx_claims._judging.verdict import ClaimVerdict
from sphinx_claims._page import Problem
from sphinx_claims._versions import Release, broken_bound

Count = Mapping[str, Any]
"""How many mutants of a claim there were, and its gaps, each so many lines below it."""

_SORTS = ("equivalent", "outside", "gaps")
"""The sorts of mutants that survive; an older run did not tell them apart."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class History:
    """What was written down: a run or a problem of each file, a count of each id and digest."""

    config: Config
    files: Mapping[str, Run | Problem]
    mutants: Mapping[tuple[str, str], Count]

    @property
    def runs(self) -> list[Run]:
        """The runs that are kept, the oldest version first."""
        runs = (run for run in self.files.values() if isinstance(run, Run))
        return sorted(runs, key=lambda run: Version(run.version))

    def count(self, verdict: ClaimVerdict) -> Count | None:
        """Return the count of a claim; None where its mutants were not run since it changed."""
        return self.mutants.get((verdict.claim.id, verdict.digest))

    def total(self, claims: Sequence[ClaimVerdict]) -> Count:
        """Add up the counts of the claims that have not changed."""
        counts = [count for claim in claims if (count := self.count(claim)) is not None]
        sorts = [sort for sort in _SORTS if counts and all(sort in count for count in counts)]
        keys = ("made", "killed", "can_fail", *sorts)
        return {key: sum(count[key] for count in counts) for key in keys}

    def gaps(self, claims: Iterable[ClaimVerdict]) -> Iterator[tuple[str, Problem]]:
        """Yield each gap for which a claim has no reason, and each reason that is for no gap."""
        for verdict in claims:
            claim, count = verdict.claim, self.count(verdict)
            if count is None:
                continue
            if claim.unnoticed is None:
                for below, told in count.get("unnoticed", ()):
                    found = Problem(claim.line + below, f"gap in claim {claim.id}: {told}")
                    yield verdict.path, found
            elif count.get("gaps") == 0:
                message = f"claim {claim.id} has no gap: :unnoticed: need not give a reason for one"
                yield verdict.path, Problem(claim.line, message)

    def vanished(self, claims: Iterable[ClaimVerdict]) -> Iterator[tuple[str, Problem]]:
        """Yield a problem for each claim of a run that is on no page, and each broken file."""
        here = {verdict.claim.id for verdict in claims}
        gone: dict[str, list[str]] = {}
        for file, run in self.files.items():
            if isinstance(run, Problem):
                yield file, run
            else:
                for identifier in run.claims.keys() - here:
                    gone.setdefault(identifier, []).append(file)
        for identifier, files in sorted(gone.items()):
            versions = ", ".join(Path(file).stem for file in files)
            message = (
                f"claim {identifier} was judged on {self.config.package} {versions} and has "
                "vanished: judge the claims there again, or give it its id back"
            )
            lines = (self.config.root / files[0]).read_text(encoding="utf-8").splitlines()
            places = (n for n, line in enumerate(lines, 1) if f'"{identifier}"' in line)
            yield files[0], Problem(next(places, 1), message)

    def judged_nowhere(
        self, claims: Iterable[ClaimVerdict], release: Release | None
    ) -> Iterator[tuple[str, Problem]]:
        """Yield a problem for each claim whose versions are none of those that are judged."""
        known = [run.version for run in self.runs]
        version = None if release is None else release.version
        judged = ", ".join(sorted({*known, *filter(None, [version])}, key=Version))
        folder = self.config.versions
        for verdict in claims if folder is not None else ():
            bound = broken_bound(verdict.claim, version)
            if bound is not None and all(broken_bound(verdict.claim, other) for other in known):
                message = (
                    f"no version judges claim {verdict.claim.id}: `:{bound}:` leaves out "
                    f"{self.config.package} {judged}, and there is no other in {folder}"
                )
                yield verdict.path, Problem(verdict.claim.line, message)


def read_history(config: Config) -> History:
    """Read the files that `config` names."""
    folder = config.versions
    files = sorted((config.root / folder).glob("*.json")) if folder is not None else ()
    return History(
        config=config,
        files={f"{folder}/{file.name}": read_run(file, str(config.package)) for file in files},
        mutants=_read_mutants(config),
    )


def _read_mutants(config: Config) -> Mapping[tuple[str, str], Count]:
    """Read what the last run of mutants wrote down; what is no such file tells of no claim."""
    try:
        text = (config.root / (config.mutants or "")).read_text(encoding="utf-8")
        return {
            (identifier, kept["digest"]): {
                **{key: int(kept[key]) for key in ("made", "killed")},
                "can_fail": bool(kept["can_fail"]),
                **{sort: int(kept[sort]) for sort in _SORTS if sort in kept},
                **_listed(kept.get("unnoticed", ())),
            }
            for identifier, kept in json.loads(text).items()
        }
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        return {}


def _listed(gaps: Iterable[tuple[int, str]]) -> Mapping[str, list[tuple[int, str]]]:
    found = [(int(below), str(told)) for below, told in gaps]
    return {"unnoticed": found} if found else {}
