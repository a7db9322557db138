"""Versions of torch, and the range of them in which a claim holds."""

from packaging.version import InvalidVersion, Version

from sphinx_claims._page import Claim


def is_version(text: str) -> bool:
    """Say whether `text` can be compared as a version."""
    try:
        return Version(text).local is None
    except InvalidVersion:
        return False


def is_before(since: str, until: str) -> bool:
    """Say whether some version is not before `since` and before `until`."""
    return Version(since) < Version(until)


def broken_bound(claim: Claim, torch: str | None) -> str | None:
    """Name the option of `claim` that `torch` lies outside of, None where it lies inside of both.

    A claim holds on the version of `since` and no longer on that of `until`, so that what follows
    it begins where it ends. A pre-release comes before its release.
    """
    if torch is not None and claim.since is not None and Version(torch) < Version(claim.since):
        return "since"
    if torch is not None and claim.until is not None and Version(torch) >= Version(claim.until):
        return "until"
    return None
