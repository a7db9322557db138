"""Read the verdicts of earlier runs on other versions, for claims that have not changed since."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.version import Version

from sphinx_claims._config import Config
from sphinx_claims._judging.verdict import ClaimVerdict
from sphinx_claims._page import Problem

CHANGED = "changed"
"""The verdict on a claim that changed after the run."""

WORDS = ("true", "skipped", "false", CHANGED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """An earlier run of all tests and claims: its versions, its date and its verdicts.

    `claims` maps the id of each claim to its verdict and to the digest that the claim had.
    """

    version: str
    python: str
    date: str
    tests: Mapping[str, int]
    problems: int
    claims: Mapping[str, tuple[str, str]]

    def word(self, verdict: ClaimVerdict) -> str:
        """Return the run's verdict on a claim, or `CHANGED` if the claim has changed since."""
        word, digest = self.claims.get(verdict.claim.id, (CHANGED, ""))
        return word if digest == verdict.digest else CHANGED

    def totals(self, claims: Sequence[ClaimVerdict], package: str | None) -> dict[str, Any]:
        """Return a JSON-serializable summary of the run: versions, date and counts.

        It counts how many of `claims` got each verdict in this run. The version of the run is that
        of `package`.
        """
        words = Counter(map(self.word, claims))
        return {
            str(package): self.version,
            "python": self.python,
            "date": self.date,
            "tests": dict(self.tests),
            "problems": self.problems,
            "claims": {word: words[word] for word in WORDS},
        }


def read_run(file: Path, package: str) -> Run | Problem:
    """Read the file of an earlier run. Return a problem if the file is invalid."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return Run(
            version=str(Version(file.stem)),
            python=str(kept["python"]),
            date=str(kept["date"]),
            tests={word: int(kept["tests"][word]) for word in ("passed", "failed", "skipped")},
            problems=int(kept["problems"]),
            claims={name: _split_verdict(text) for name, text in kept["claims"].items()},
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        return Problem(1, f"this must be what a run on another {package} has found: {what}")


def _split_verdict(text: str) -> tuple[str, str]:
    word, digest = text.split()
    return word, digest


@dataclasses.dataclass(frozen=True, kw_only=True)
class History:
    """The files of earlier runs, each read as a `Run`, or as a `Problem` if it is invalid."""

    config: Config
    files: Mapping[str, Run | Problem]

    @property
    def runs(self) -> list[Run]:
        """Return the stored runs, the oldest version first."""
        runs = (run for run in self.files.values() if isinstance(run, Run))
        return sorted(runs, key=lambda run: Version(run.version))

    def broken(self) -> Iterator[tuple[str, Problem]]:
        """Yield the name and the problem of each invalid file."""
        for file, run in self.files.items():
            if isinstance(run, Problem):
                yield file, run


def read_history(config: Config) -> History:
    """Read the files of earlier runs from the folder `versions` of `config`."""
    folder = config.versions
    files = sorted((config.root / folder).glob("*.json")) if folder is not None else ()
    return History(
        config=config,
        files={f"{folder}/{file.name}": read_run(file, str(config.package)) for file in files},
    )
