"""The codes of all diagnoses, in the order in which they matter, and the checks that find them."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from leafgrad._diagnosis.diagnosis import Diagnosis, Severity
from leafgrad._diagnosis.situation import Situation

Finder = Callable[[Situation], Iterator[Diagnosis]]


class Check(NamedTuple):
    """A function that looks for problems of a few codes."""

    codes: tuple[str, ...]
    find: Finder


CHECKS: list[Check] = []
"""All checks. Those that find a cause stand before those that find its consequences."""


def check(*codes: str) -> Callable[[Finder], Finder]:
    """Register a check for these codes; the order of registration is the order of ranks."""

    def add(find: Finder) -> Finder:
        CHECKS.append(Check(codes, find))
        return find

    return add


def rank(one: Diagnosis) -> tuple[int, int]:
    """Return a key by which findings are sorted: by severity, then by the order of the codes."""
    codes = [code for check in CHECKS for code in check.codes]
    return [*Severity].index(one.severity), codes.index(one.code)
