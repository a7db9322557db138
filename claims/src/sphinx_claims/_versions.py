"""Compare versions of the documented package with the version range of a claim."""

import dataclasses

from packaging.version import InvalidVersion, Version

from sphinx_claims._page import Claim


@dataclasses.dataclass(frozen=True)
class Release:
    """The package that `[tool.claims]` names, and the version of it that pages import."""

    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


def is_version(text: str) -> bool:
    """Return whether `text` is a valid version without a local part such as `+cpu`."""
    try:
        return Version(text).local is None
    except InvalidVersion:
        return False


def is_before(since: str, until: str) -> bool:
    """Return whether the version `since` is before the version `until`."""
    return Version(since) < Version(until)


def broken_bound(claim: Claim, version: str | None) -> str | None:
    """Return the bound that excludes `version`, "since" or "until"; None if it is in the range.

    The range of `claim` includes `since` and excludes `until`, so that the next claim can start at
    `until`. A pre-release comes before its release.
    """
    if version is not None and claim.since is not None and Version(version) < Version(claim.since):
        return "since"
    if version is not None and claim.until is not None and Version(version) >= Version(claim.until):
        return "until"
    return None
