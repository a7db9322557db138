"""Many values of one frozen dataclass with slots at once, by rows or field by field."""

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, field, fields, make_dataclass
from functools import cache
from itertools import starmap
from operator import add, attrgetter
from typing import Any


def from_rows(kind: Any, names: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> list[Any]:
    """Make a value of a frozen dataclass with slots from each row; other fields have their default.

    Its own constructor asks ``object.__setattr__`` to fill one field after the other. Here a twin
    that is not frozen is filled in a fraction of the time, and then becomes one of the frozen kind.
    """
    values = [*starmap(_twin(kind, names), rows)]
    for value in values:
        value.__class__ = kind  # a TypeError says that a field is missing, or one too many
    return values


def from_columns(kind: Any, **columns: Iterable[object]) -> list[Any]:
    """Make values of a frozen dataclass with slots, whose fields have these in their turn."""
    return from_rows(kind, tuple(columns), zip(*columns.values(), strict=True))


def with_columns(kind: Any, values: Sequence[Any], **columns: Iterable[object]) -> list[Any]:
    """Copy all values with other columns, as `dataclasses.replace` does one by one, but faster."""
    kept = tuple(one.name for one in fields(kind) if one.name not in columns)
    rows = zip(map(attrgetter(*kept), values), zip(*columns.values(), strict=True), strict=True)
    return from_rows(kind, (*kept, *columns), starmap(add, rows))


@cache
def _twin(kind: Any, names: tuple[str, ...]) -> type:
    """Return a class with the slots of another one, which is given what `names` say, in order."""
    defaults = [
        (one.name, one.type, field(default=one.default))
        for one in fields(kind)
        if one.name not in names and one.default is not MISSING
    ]
    return make_dataclass(
        "Twin", [*names, *defaults], slots=True, eq=False, repr=False, match_args=False
    )
