"""Why a claim does not notice a change: the change is none, it is not about it, or it is a gap."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from sphinx_claims._mutating.observed import Operand
from sphinx_claims._mutating.values import NEGATED
from sphinx_claims._python import parsed

Sort = Literal["equivalent", "outside", "gap"]

CAUSES: dict[str, tuple[Sort, str]] = {
    "number": (
        "equivalent",
        "a number that the sentence does not say: with another, all checks compare the same values",
    ),
    "elsewhere": (
        "equivalent",
        "a number, or a cell that only shows: what the sentence names matters to checks elsewhere",
    ),
    "setup": (
        "equivalent",
        "code that the sentence does not name: without it, all checks compare the same values",
    ),
    "instance": (
        "equivalent",
        "what is compared changes on both sides alike: the check holds for other values as well",
    ),
    "bound": (
        "equivalent",
        "a bound, an inequality or a pattern holds for the other value too, and fails for others",
    ),
    "symmetric": (
        "equivalent",
        "an absolute value is the same for both signs",
    ),
    "idle": (
        "equivalent",
        "the fault made no difference to any gradient of the evidence",
    ),
    "unread": (
        "outside",
        "the code shares no value with a check, directly or through other code",
    ),
    "again": (
        "equivalent",
        "it is not the same each time, and a check noticed it when tried again",
    ),
    "unseen": (
        "outside",
        "no check compares what the fault changes, and the sentence does not name it",
    ),
    "named": ("gap", "the sentence names it, and no check compares what it changes"),
    "accepted": ("gap", "a check accepts another value"),
    "point": ("gap", "a wrong derivative gives the right number at this point"),
    "vacuous": ("gap", "a check holds whatever it compares, and nothing else makes it false"),
    "unknown": ("gap", "its checks do not hold once they are watched"),
    "check": ("gap", "a check expects something else and holds as well"),
}
"""What each cause is, and how it is told to a reader."""

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")
_CODE = re.compile(r"`([^`]*)`")


def sort_of(cause: str) -> Sort:
    """Return of which sort a cause is."""
    return CAUSES[cause][0]


def cause_of_code(*, feeds: bool, said: bool, number: bool) -> str:
    """Return why no check compared anything that a change of the evidence has changed."""
    if not feeds:
        return "unread"
    return "named" if said else "number" if number else "setup"


def cause_of_fault(*, said: bool, is_idle: bool) -> str:
    """Return why no check compared anything that a fault has changed; `is_idle` if nothing was."""
    return "idle" if is_idle else "named" if said else "unseen"


def cause_of_value(operand: Operand, words: str) -> str:
    """Return why a check that two things are equal held with another value of one of them."""
    return "symmetric" if operand.is_absolute and words == NEGATED else "accepted"


def cause_of_values(changed: Sequence[Operand]) -> tuple[str, str]:
    """Return why checks that compared other values hold all the same, and of which values."""
    comparisons = by_comparison(changed).values()
    found = {_accepted(here): here for here in reversed([*comparisons])}
    cause = next(cause for cause in ("accepted", "instance", "bound") if cause in found)
    texts = dict.fromkeys(operand.text for operand in found[cause])
    return cause, ", ".join(f"`{text}`" for text in texts) if cause == "accepted" else ""


def names_said(statement: str, names: Iterable[str]) -> Iterator[str]:
    """Yield what a sentence names of `names`, which are words and numbers.

    The numbers of a message that it quotes, which is no Python, are none of its own.
    """
    own = _CODE.sub(lambda span: span[1] if parsed(span[1]) else "", statement)
    numbers = {float(number) for number in _NUMBER.findall(own)}
    for name in names:
        if (number := _number(name)) is not None:
            if abs(number) in numbers:
                yield name
        elif name:
            word = re.escape(name).replace("_", "[_ ]")
            if re.search(rf"(?<!\w){word}(?!\w)", statement) is not None:
                yield name


def things_of(names: Iterable[str]) -> set[str | complex]:
    """Return what is named: numbers, however they are written, and words."""
    return {name if (number := _number(name)) is None else number for name in names}


def _number(name: str) -> complex | None:
    try:
        return complex(name)
    except ValueError:
        return None


def _accepted(changed: Sequence[Operand]) -> str:
    first = changed[0]
    if first.kind not in {"close", "equal", "same"} or not first.is_required:
        return "bound"
    return "instance" if len(changed) > 1 else "accepted"


def by_comparison(operands: Sequence[Operand]) -> Mapping[tuple[int, int], list[Operand]]:
    """Group operands by what they are compared in."""
    found = defaultdict[tuple[int, int], list[Operand]](list)
    for operand in operands:
        found[operand.line, operand.comparison].append(operand)
    return found
