"""Spans of sequence numbers: which nodes were made in the course of a call or of a backward."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, TypeVar

SpanT = TypeVar("SpanT", bound=tuple[Any, ...])
"""The first number, the one behind the last, and what was going on; spans come in order."""


def find_span(spans: Sequence[SpanT], number: int) -> SpanT | None:
    """Return the span that a number is in, None where it is in none."""
    after = bisect_right(spans, number, key=itemgetter(0))
    return spans[after - 1] if after and number < spans[after - 1][1] else None
