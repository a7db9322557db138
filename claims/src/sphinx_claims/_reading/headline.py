"""Results in what is read first: headings, titles, captions, the words for a picture, formulas."""

import re
from collections.abc import Iterator

from sphinx_claims._page import Quantity, Stated
from sphinx_claims._reading.quantities import (
    figures,
    formulas,
    in_formula,
    in_words,
    prose_of,
)

_VERB = (
    "is|are|was|were|be|equals?|gives?|returns?|yields?|prints?|shows?|has|have|had|contains?|holds?"
    "|makes?|takes?|costs?|needs?|uses?|saves?|allocates?|keeps?|visits?|records?|counts?|reaches"
    "|stays?|becomes?|remains?|falls?|rises?|drops?|grows?|exceeds?|leaves|comes"
)
_FILLER = (
    "only|exactly|about|just|not|always|then|now|at|most|least|more|less|than|roughly|nearly|almost"
    "|still|up|down|to|by|below|above|under|over|minus"
)
_NOUN = "grad|gradient|loss|slope|derivative|accuracy|speed-?up|memory"
_LEADING = rf"\b(?:{_VERB}|(?:{_NOUN})(?:\s+of)?)(?:\s+(?:{_FILLER}))*"
_TOLD = re.compile(rf"(?:{_LEADING}|[=≈:])\s*[~≈+]?\s*$", re.IGNORECASE)
_NUMBER_AS_CODE = re.compile(r"`([-+]?\d[\d.,e+-]*)`")
_SUBJECT = re.compile(r"\s+(?:is|was) the\b")
_LOWER = re.compile(r"\b[a-z]+$")
"""A word of prose, unlike the name of a thing that has versions."""

_MEASURED = re.compile(r"\s*(?:%(?! confidence)|×|(?:x(?!-)|times|[mµμn]?s|[kKMGT]i?B)\b)")
_VERSIONED = re.compile(
    r"\b(?:versions?|releases?|since|until|upgrad\w+|migrat\w+|updat\w+|new in|changed? in"
    r"|requires?|deprecated|removed|added|CUDA|v\d)",
    re.IGNORECASE,
)
_USUAL = (0.0, 1.0)
"""What conditions are: on the boundary, at the start, of a sum."""

_APPLIED = re.compile(r"[A-Za-z]\w*'*\s*(?:\\left)?\((?=[^()]*[1-9])[-+\d.,\s]*(?:\\right)?\)")
"""A function of numbers, not all of them 0, as they are in a condition."""

_LIMITED = re.compile(r"\\(?:int|sum|prod)_\{?-?\d.*")
_DEFINED = re.compile(r"\s*(?:\\?[A-Za-z]+|[A-Za-z]_\{?\w+\}?)\s*")


def headline(text: str, line: int, place: str) -> Iterator[Stated]:
    """Yield the results in a text that stands by itself, of which `place` says what it is.

    A number is one where a verb or a sign leads to it, where a unit follows, or as a fraction.
    Numbers that name or count (step 3, 5 mistakes, version 2.1) are none.
    """
    prose = prose_of(_NUMBER_AS_CODE.sub(r"\1", text))
    is_version = _VERSIONED.search(prose) is not None
    for number in figures(prose):
        if _is_result(number, prose, is_version=is_version):
            yield _stated(number, line, place)
    for number in in_words(prose):
        if not number.is_count:
            yield _stated(number, line, place)
    for written in formulas(text):
        yield from formula(written, line)


def formula(text: str, line: int) -> Iterator[Stated]:
    """Yield the results that a formula states: numbers to which more than a name is equal."""
    first, *others = re.split(r"(?<![<>!\\])=|\\approx(?![a-z])|≈", text, maxsplit=1)
    if others and not _DEFINED.fullmatch(first):
        for number in in_formula(others[0]):
            if number.value not in _USUAL:
                yield _stated(number, line, "formula", is_open=_is_open(first))


def _is_result(number: Quantity, prose: str, *, is_version: bool) -> bool:
    before, after = prose[: number.start].rstrip(), prose[number.end :]
    if _MEASURED.match(after) or _SUBJECT.match(after):
        return True
    is_told = _TOLD.search(before) and (before[-1] != ":" or not after.strip())
    is_fraction = "." in number.text and _LOWER.search(before)
    return bool(is_told or is_fraction) and not is_version


def _is_open(side: str) -> bool:
    """Return whether a side of a formula holds unknowns, as an equation does, unlike `f(3)`."""
    closed = _APPLIED.sub("", _LIMITED.sub("", side) if _LIMITED.search(side) else side)
    return re.search(r"(?<![\\A-Za-z])[A-Za-z]", closed) is not None


def _stated(number: Quantity, line: int, place: str, *, is_open: bool = False) -> Stated:
    return Stated(line=line, place=place, value=number.value, text=number.text, is_open=is_open)
