"""What the claims were on other versions of the package: a data file each, kept with the pages."""

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.version import Version

from sphinx_claims._judging.verdict import ClaimVerdict
from sphinx_claims._page import Problem

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

    def counted(self, claims: Sequence[ClaimVerdict], package: str | None) -> dict[str, Any]:
        """Return the run as JSON types, with counts of what it found of `claims`."""
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
    """Read what a run wrote down, or tell what is wrong with it."""
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
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        return Problem(1, f"this must be what a run on another {package} has found: {what}")


def _judged(text: str) -> tuple[str, str]:
    word, digest = text.split()
    return word, digest
