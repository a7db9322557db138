"""Tables in which somebody typed a result: those of Markdown, of lists and of separated values."""

import csv
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markdown_it.token import Token

from leafgrad.claims._page import Problem
from leafgrad.claims._reading._stated import ROLES, by_hand, holds_roles, is_result, plain

_DELIMITERS = {"tab": "\t", "space": " "}


def table_problems(tokens: Sequence[Token], above: int) -> Iterator[Problem]:
    """Yield the results in the bodies of pipe tables, but for the first column."""
    column = line = 0
    for before, token in itertools.pairwise(tokens):
        if before.type == "tr_open":
            column, line = 0, _line(before, above)
        elif before.type == "td_open":
            column += 1
            if column > 1 and _is_typed(token):
                yield Problem(line, by_hand(token.content), snippet=plain(token.content))


def list_table_problems(
    tokens: Sequence[Token], options: Mapping[str, Any], above: int
) -> Iterator[Problem]:
    """Yield the results in a list of lists, but for its header rows and the first column."""
    row = column = depth = 0
    for token in tokens:
        if token.type in {"list_item_open", "list_item_close"}:
            depth += token.nesting
        if token.type == "list_item_open":
            row, column = (row + 1, 0) if depth == 1 else (row, column + (depth == 2))  # noqa: PLR2004 - the items of a row
        elif token.type == "inline" and column > 1 and row > _headers(options) and _is_typed(token):
            yield Problem(_line(token, above), by_hand(token.content), snippet=plain(token.content))


def csv_problems(text: str, options: Mapping[str, Any], line: int) -> Iterator[Problem]:
    """Yield the results among comma-separated values, the first of which stands on `line`."""
    delimiter = str(options.get("delim") or ",")
    rows = csv.reader(text.splitlines(), delimiter=_DELIMITERS.get(delimiter, delimiter[:1]))
    try:
        for number, row in enumerate(rows):
            for value in row[1:] if number >= _headers(options) else ():
                if is_result(value) or holds_roles(value):
                    yield Problem(line + number, by_hand(value), snippet=plain(value))
    except csv.Error as error:
        yield Problem(line, f"{{csv-table}} cannot be read: {error}")


def _headers(options: Mapping[str, Any]) -> int:
    value = options.get("header-rows")
    return value if isinstance(value, int) else 0


def _is_typed(token: Token) -> bool:
    roles = (child.meta.get("name") for child in token.children or () if child.type == "myst_role")
    return is_result(token.content) and not any(name in ROLES for name in roles)


def _line(token: Token, above: int) -> int:
    return above + (token.map or [0])[0] + 1
