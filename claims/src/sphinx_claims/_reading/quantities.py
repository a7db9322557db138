"""The numbers that a sentence says: in figures, in code, in a formula, in words."""

import functools
import re
from collections.abc import Iterator

from sphinx_claims._page import Quantity
from sphinx_claims._vocabulary import Vocabulary, known, one_of

_FIGURE = r"\d+(?:[,_]\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?"
_UNIT = r"(?:[x×%]|[nmuµμ]?s|min|h|[kKMGT]?i?B)"
_NUMBER = re.compile(rf"(?<![\w.])({_FIGURE})(?!\.\d)(?:(?!\w)|(?={_UNIT}(?!\w)))")
_MINUS = re.compile(r"(?:^|[\s(\[=,`*_])[-−]$")

TARGET = r"\]\((?:[^()]|\([^()]*\))*\)|<[^<>]*>"
"""Where a link leads to, or a tag: nothing that a sentence says."""

_SPAN = re.compile(rf"(?:\{{([\w:.+-]+)\}})?(`+)(.*?)\2|\$\$?([^$]+)\$\$?|{TARGET}")
_EMPHASIS = re.compile(r"(?<!\w)[*_]+|[*_]+(?!\w)")
_VERBATIM = frozenset({None, "code", "literal"})
"""The roles, or none, in which a code span is read as code."""

_RELATION = re.compile(r"[=<>≈≤≥&]|\\(?:approx|simeq|equiv|leq?|geq?|neq?|to|quad|\\)(?![a-z])")
_LAYOUT = re.compile(r"\\(?:[,;:!%]|left|right|(?:mathrm|text)\{[^}]*\})|[\s{}()\[\]]")
_SIMPLE = r"[-+−]?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_VALUE = re.compile(rf"[-+−]?\\[dt]?frac\d+|{_SIMPLE}(?:[,/]{_SIMPLE})*")

_SMALL = (
    "three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    " seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS = {
    "two": 2.0,
    **{word: float(value) for value, word in enumerate(_SMALL.split(), 3)},
    **{word: 10.0 * value for value, word in enumerate(_TENS.split(), 2)},
}
_SCALES = {"hundred": 100.0, "thousand": 1e3, "million": 1e6, "billion": 1e9}
_WORD = "|".join((*_WORDS, *_SCALES))
_IN_WORDS = re.compile(rf"\b(?:{_WORD})(?:[ -](?:{_WORD}|one))*\b", re.IGNORECASE)
_GIVEN = re.compile(
    r"\b(?:is|was|be|equals?|gives?|returns?|yields?|prints?|shows?|minus|than)"
    r"(?: (?:not|only|exactly|about|just))*$",
    re.IGNORECASE,
)
_END = re.compile(r"\s*(?:[.,;:!?)—–]|$|(?:and|or|but|not|while|because)\b)")


def figures(text: str) -> Iterator[Quantity]:
    """Yield the numbers in plain text, output or code, with the sign that is written."""
    for found in _NUMBER.finditer(text):
        value, start, end = float(re.sub("[,_]", "", found[1])), *found.span()
        if _MINUS.search(text[max(start - 2, 0) : start]):
            yield Quantity(value=-value, text=f"-{found[1]}", start=start - 1, end=end)
        else:
            yield Quantity(value=value, text=found[1], start=start, end=end)


def said(sentence: str) -> Iterator[Quantity]:
    """Yield the numbers that a sentence says in Markdown, but for what is executed in it."""
    sentence = _without_releases(sentence)
    for span in _SPAN.finditer(sentence):
        if span[3] is not None and span[1] in _VERBATIM:
            yield from figures(span[3])
    for formula in formulas(sentence):
        yield from in_formula(formula)
    prose = prose_of(sentence)
    yield from figures(prose)
    yield from in_words(prose)


def prose_of(sentence: str) -> str:
    """Return a sentence in Markdown with a mark for each span of code, formula, role or link."""
    return _EMPHASIS.sub(" ", _SPAN.sub(" ` ", _without_releases(sentence)))


def formulas(sentence: str) -> Iterator[str]:
    """Yield the formulas in a sentence."""
    for span in _SPAN.finditer(sentence):
        if span[4] is not None or span[1] == "math":
            yield span[4] or span[3]


def in_formula(formula: str) -> Iterator[Quantity]:
    """Yield the numbers that stand alone on a side of a formula, unlike exponents and factors."""
    for side in _RELATION.split(formula):
        if _VALUE.fullmatch(_LAYOUT.sub("", side)):
            yield from figures(re.sub(r"frac(?=\d)|[{}]", " ", side))


def in_words(prose: str) -> Iterator[Quantity]:
    """Yield the numbers that are written out, from three on; `is two` is one as well."""
    for found in _IN_WORDS.finditer(prose):
        start, end = found.span()
        is_given = _GIVEN.search(prose[:start].rstrip()) and _END.match(prose, end)
        if is_given or found[0].lower() != "two":
            value = _value(found[0])
            yield Quantity(value=value, text=found[0], is_count=not is_given, start=start, end=end)


def _without_releases(sentence: str) -> str:
    return _release(known()).sub(" ", sentence)


@functools.cache
def _release(vocabulary: Vocabulary) -> re.Pattern[str]:
    """Return what a number is a version of, or a width, and no result."""
    names = one_of((*vocabulary.names, "Python", "version", "float", "int"))
    return re.compile(rf"\b{names} \d+(?:\.\d+)*")


def _value(words: str) -> float:
    total = part = 0.0
    for word in re.split("[ -]", words.lower()):
        if word not in _SCALES:
            part += _WORDS.get(word, 1.0)
        elif word == "hundred":
            part = 100 * (part or 1)
        else:
            total, part = total + (part or 1) * _SCALES[word], 0.0
    return total + part
