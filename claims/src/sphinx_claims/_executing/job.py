"""What comes back from a job that ran in a process of its own."""

import dataclasses
import signal
from typing import Any


@dataclasses.dataclass(frozen=True)
class JobEnd:
    """The last message of a job that came to an end, by itself or by an exception."""

    failure: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a job yielded, and what ended it too early, if anything did."""

    messages: tuple[Any, ...]
    failure: str | None


def outcome(messages: tuple[Any, ...], code: int | None, seconds: float) -> Outcome:
    """Read the outcome off a job's messages and its exit code: None if it took too long."""
    if messages and isinstance(messages[-1], JobEnd):
        return Outcome(messages=messages[:-1], failure=messages[-1].failure)
    if code is None:
        return Outcome(messages=messages, failure=f"it ran longer than {seconds:g} s")
    if code < 0:
        known = {number.value: number.name for number in signal.Signals}
        name = known.get(-code, f"signal {-code}")
        return Outcome(messages=messages, failure=f"its process died of {name}")
    return Outcome(messages=messages, failure=f"its process ended with exit code {code}")
