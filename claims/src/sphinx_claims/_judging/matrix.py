"""What the claims were on other versions of the package: a data file each, kept with the pages."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from sphinx_claims._config import Config
from sphinx_claims._judging.verdict import ClaimVerdict
from sphinx_claims._page import Problem
from sphinx_claims._versions import Release, broken_bound

CHANGED = "changed"
"""The word for a claim that was not judged since it changed."""

WORDS = ("true", "skipped", "false", CHANGED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One run of all tests and claims: on which versions, when, and what it found.

    `claims` maps the id of each claim to its verdict and to the digest that it had.
    """

    version: str
    python: str
    date: str
    tests: Mapping[str, int]
    problems: int
    claims: Mapping[str, tuple[str, str]]

    def word(self, verdict: ClaimVerdict) -> str:
        """Return what the run found of a claim as it is now."""
        word, digest = self.claims.get(verdict.claim.id, (CHANGED, ""))
        return word if digest == verdict.digest else CHANGED


def read_runs(config: Config) -> list[Run]:
    """Read the runs that are kept, the oldest version first."""
    runs = [run for run in _kept(config).values() if isinstance(run, Run)]
    return sorted(runs, key=lambda run: Version(run.version))


def counted(run: Run, claims: Sequence[ClaimVerdict], config: Config) -> dict[str, Any]:
    """Return a run as JSON types, with counts of what it found of `claims`."""
    words = Counter(run.word(verdict) for verdict in claims)
    return {
        str(config.package): run.version,
        "python": run.python,
        "date": run.date,
        "tests": dict(run.tests),
        "problems": run.problems,
        "claims": {word: words[word] for word in WORDS},
    }


def vanished(claims: Iterable[ClaimVerdict], config: Config) -> Iterator[tuple[str, Problem]]:
    """Yield a problem for each claim of a run that no page has any more, and each broken file."""
    here = {verdict.claim.id for verdict in claims}
    gone: dict[str, list[str]] = {}
    for file, run in _kept(config).items():
        if isinstance(run, Problem):
            yield file, run
        else:
            for identifier in run.claims.keys() - here:
                gone.setdefault(identifier, []).append(file)
    for identifier, files in sorted(gone.items()):
        versions = ", ".join(Path(file).stem for file in files)
        message = (
            f"claim {identifier} was judged on {config.package} {versions} and has vanished: "
            "judge the claims there again, or give it its id back"
        )
        yield files[0], Problem(_line(config.root / files[0], identifier), message)


def judged_nowhere(
    claims: Iterable[ClaimVerdict], config: Config, release: Release | None
) -> Iterator[tuple[str, Problem]]:
    """Yield a problem for each claim whose versions are none of those that are judged."""
    known = [run.version for run in read_runs(config)]
    version = None if release is None else release.version
    judged = ", ".join(sorted({*known, *filter(None, [version])}, key=Version))
    for verdict in claims if config.versions is not None else ():
        bound = broken_bound(verdict.claim, version)
        if bound is not None and all(broken_bound(verdict.claim, other) for other in known):
            message = (
                f"no version judges claim {verdict.claim.id}: `:{bound}:` leaves out "
                f"{config.package} {judged}, and there is no other in {config.versions}"
            )
            yield verdict.path, Problem(verdict.claim.line, message)


def _kept(config: Config) -> dict[str, Run | Problem]:
    """Map the name of each data file to what it holds, or to what is wrong with it."""
    if config.versions is None:
        return {}
    files = sorted((config.root / config.versions).glob("*.json"))
    return {f"{config.versions}/{file.name}": _read(file, config) for file in files}


def _read(file: Path, config: Config) -> Run | Problem:
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return Run(
            version=str(Version(file.stem)),
            python=str(kept["python"]),
            date=str(kept["date"]),
            tests={word: int(kept["tests"][word]) for word in ("passed", "failed", "skipped")},
            problems=int(kept["problems"]),
            claims={name: _judged(text) for name, text in kept["claims"].items()},
        )
    except (ValueError, TypeError, KeyError, AttributeError, InvalidVersion) as error:
        what = f"{type(error).__name__}: {error}"
        return Problem(1, f"this must be what a run on another {config.package} has found: {what}")


def _judged(text: str) -> tuple[str, str]:
    word, digest = text.split()
    return word, digest


def _line(file: Path, identifier: str) -> int:
    lines = file.read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, 1) if f'"{identifier}"' in line), 1)
