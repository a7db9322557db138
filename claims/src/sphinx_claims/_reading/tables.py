"""Tables in which somebody typed a result: those of Markdown, of lists and of separated values."""

import csv
import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markdown_it.token import Token

from sphinx_claims._page import Problem
from sphinx_claims._reading.typed_results import (
    ROLES,
    by_hand,
    holds_roles,
    is_literal,
    is_result,
    plain,
)
from sphinx_claims._vocabulary import Vocabulary, known, one_of

_DELIMITERS = {"tab": "\t", "space": " "}
_GIVEN = re.compile(
    r"\b(?:defaults?|types?|required|optional|allowed|accepted|choices|options?|range|limits?|since"
    r"|until|versions?|released?|dates?|years?|days?|ports?|id|numbers?|no\.|chapters?|pages?"
    r"|sections?|steps?|levels?|tiers?|priority|rank|examples?|inputs?|arguments?|settings?|meanings?|notes?|seed|batch"
    r"|epochs?|layers?|width|hidden|order|python)\b"
    r"|(?-i:^[nNkKdijm]$)|^#$",
    re.IGNORECASE,
)
"""Words over what an author chooses or names: a default is no result."""

_SETTING = re.compile(
    r"\b(?:options?|arguments?|(?:hyper)?parameters?|settings?|flags?|keys?|keywords?|variables?"
    r"|fields?|constants?|symbols?)\b",
    re.IGNORECASE,
)
_ITS_VALUE = re.compile(r"(?:values?|set to|)$", re.IGNORECASE)
_FOUND = re.compile(
    r"\b(?:time|speed-?up|memory|peak|grad(?:ient)?s?|loss|accuracy|error|results?|outputs?|returns?"
    r"|gives?|prints?|equals?|bytes|ms|seconds|derivatives?|slope|sum|mean|is_leaf)\b|%",
    re.IGNORECASE,
)
"""Words over what is found by executing something."""

_FIGURES = r"[-+−±~≈<>≤≥$€]*\s*\d[\d,]*(?:\.\d*)?(?:e[+-]?\d+)?"
_UNIT = r"(?:[%×x]|[A-Za-zµμ]{1,3}|times|bytes)"
_NUMBER = re.compile(
    r"(?:(?:about|around|circa|roughly|only|nearly) )?"
    rf"{_FIGURES}(?:\s*(?:±|/|of|to|[-–×x])\s*{_FIGURES})?\s*{_UNIT}?"
)
_YES_OR_NO = re.compile(r"(?:yes|no|true|false)(?:$|[,;:.!]| \()", re.IGNORECASE)
_BLANK = re.compile(r"[-–—/. ]*|n/?a|none", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """What stands on `line` in a table; a role that is executed may have put it there."""

    text: str
    line: int
    is_executed: bool = False


def typed_results(heads: Sequence[str], rows: Sequence[Sequence[Entry]]) -> Iterator[Entry]:
    """Yield the results in the rows of a table, but for what the heads say is given.

    A value of Python is a result wherever it stands behind the first column, a number in a column
    of them or below a head that says so.
    """
    heads = [plain(head) for head in heads]
    for column, entries in enumerate(itertools.zip_longest(*rows)):
        head = heads[column] if column < len(heads) else ""
        is_found = _FOUND.search(head) is not None
        if column == 0 or (not is_found and _is_given(head, heads[0] if heads else "")):
            continue
        names = (plain(row[0].text) for row in rows)
        typed = [
            (name, entry)
            for name, entry in zip(names, entries, strict=True)
            if entry and not entry.is_executed and not _is_chosen(name)
        ]
        texts = [entry.text for _, entry in typed]
        is_found = is_found or _holds_results(texts) or (not heads and _holds_results(texts[1:]))
        for name, entry in typed:
            is_of_result = is_found or _FOUND.search(name)
            if is_result(entry.text) or (is_of_result and _is_value(entry.text)):
                yield entry


def _is_chosen(text: str) -> bool:
    """Return whether a text says what an author gives, the version of a package too."""
    return _GIVEN.search(text) is not None or _package(known()).search(text) is not None


@functools.cache
def _package(vocabulary: Vocabulary) -> re.Pattern[str]:
    return re.compile(rf"\b{one_of(vocabulary.names)}\b", re.IGNORECASE)


def _is_given(head: str, first: str) -> bool:
    is_of_setting = _SETTING.search(first) and _ITS_VALUE.match(head)
    return bool(is_of_setting or _is_chosen(head))


def _holds_results(column: Sequence[str]) -> bool:
    """Return whether a column holds nothing but numbers, values in code, or yes and no."""
    said = [text for text in column if not _BLANK.fullmatch(plain(text))]
    return len(said) > 1 and all(map(_is_value, said))


def _is_value(text: str) -> bool:
    bare = plain(text)
    is_marked = text.strip(" *_").startswith("`") or bare.startswith(("(", "["))
    is_code = is_marked and is_literal(bare) and bare[:1] not in "\"'"
    return is_code or _NUMBER.fullmatch(bare) is not None or _YES_OR_NO.match(bare) is not None


def table_problems(tokens: Sequence[Token], above: int) -> Iterator[Problem]:
    """Yield the results in the bodies of pipe tables."""
    heads: list[str] = []
    rows: list[list[Entry]] = []
    line = 0
    for before, token in itertools.pairwise(tokens):
        match before.type:
            case "table_open":
                heads, rows = [], []
            case "tr_open":
                line = _line(before, above)
                if token.type == "td_open":
                    rows.append([])
            case "th_open":
                heads.append(token.content)
            case "td_open":
                rows[-1].append(_entry(token, line))
            case "tbody_close":
                yield from results(heads, rows)


def list_table_problems(
    tokens: Sequence[Token], options: Mapping[str, Any], above: int
) -> Iterator[Problem]:
    """Yield the results in a list of lists, but for its header rows."""
    rows: list[list[Entry]] = []
    depth = 0
    for token in tokens:
        if token.type in {"list_item_open", "list_item_close"}:
            depth += token.nesting
        if token.type == "list_item_open" and depth == 1:
            rows.append([])
        elif token.type == "inline" and rows:
            rows[-1].append(_entry(token, _line(token, above)))
    heads = [entry.text for row in rows[: _headers(options)] for entry in row]
    yield from results(heads, rows[_headers(options) :])


def csv_problems(text: str, options: Mapping[str, Any], line: int) -> Iterator[Problem]:
    """Yield the results among comma-separated values, the first of which stands on `line`."""
    delimiter = str(options.get("delim") or ",")
    settings: dict[str, Any] = {"delimiter": _DELIMITERS.get(delimiter, delimiter[:1])}
    try:
        read = list(csv.reader(text.splitlines(), **settings))
        heads = next(csv.reader([str(options.get("header") or "")], **settings), [])
    except csv.Error as error:
        yield Problem(line, f"{{csv-table}} cannot be read: {error}")
        return
    rows = [[Entry(text=text, line=line + n) for text in row] for n, row in enumerate(read)]
    heads = heads or [entry.text for row in rows[: _headers(options)] for entry in row]
    yield from results(heads, rows[_headers(options) :])
    for entry in itertools.chain.from_iterable(rows):
        if holds_roles(entry.text):
            yield Problem(entry.line, by_hand(entry.text), snippet=plain(entry.text))


def results(heads: Sequence[str], rows: Sequence[Sequence[Entry]]) -> Iterator[Problem]:
    """Yield a problem for each result in a table."""
    for entry in typed_results(heads, rows):
        yield Problem(entry.line, by_hand(entry.text), snippet=plain(entry.text))


def _headers(options: Mapping[str, Any]) -> int:
    value = options.get("header-rows")
    return value if isinstance(value, int) else 0


def _entry(token: Token, line: int) -> Entry:
    roles = (child.meta.get("name") for child in token.children or () if child.type == "myst_role")
    return Entry(text=token.content, line=line, is_executed=any(name in ROLES for name in roles))


def _line(token: Token, above: int) -> int:
    return above + (token.map or [0])[0] + 1
