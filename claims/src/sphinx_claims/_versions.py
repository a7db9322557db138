"""Versions of the documented package, and the version range in which a claim holds."""

import dataclasses

from packaging.version import InvalidVersion, Version

from sphinx_claims._page import Claim


@dataclasses.dataclass(frozen=True)
class Release:
    """The version of the package that `[tool.claims]` names, as the pages import it."""

    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


def is_version(text: str) -> bool:
    """Return whether `text` can be compared as a version."""
    try:
        return Version(text).local is None
    except InvalidVersion:
        return False


def is_before(since: str, until: str) -> bool:
    """Return whether `since` is before `until`, so that the range is not empty."""
    return Version(since) < Version(until)


def broken_bound(claim: Claim, version: str | None) -> str | None:
    """Return which bound of `claim` excludes `version`, or None.

    The range includes `since` and excludes `until`, so that the next claim can start at `until`. A
    pre-release comes before its release.
    """
    if version is not None and claim.since is not None and Version(version) < Version(claim.since):
        return "since"
    if version is not None and claim.until is not None and Version(version) >= Version(claim.until):
        return "until"
    return None
