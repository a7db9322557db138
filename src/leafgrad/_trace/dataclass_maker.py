"""Many values of one frozen dataclass with slots: made one by one or field by field."""

from collections.abc import Callable, Iterable
from dataclasses import MISSING, field, fields, make_dataclass
from functools import cache
from itertools import starmap
from typing import Any


@cache
def maker(kind: Any, *names: str) -> Callable[..., Any]:
    """Return what makes a value of a frozen dataclass with slots, given what `names` say in order.

    Other fields have their default. The constructor of `kind` asks ``object.__setattr__`` to fill
    one field after the other. Here a twin that is not frozen is filled in a fraction of the time,
    and then becomes one of the frozen kind.
    """

    def become(twin: Any) -> None:
        twin.__class__ = kind  # a TypeError says that a field is missing, or one too many

    defaults = [
        (one.name, one.type, field(default=one.default))
        for one in fields(kind)
        if one.name not in names and one.default is not MISSING
    ]
    return make_dataclass(
        "Twin",
        [*names, *defaults],
        namespace={"__post_init__": become},
        slots=True,
        eq=False,
        repr=False,
        match_args=False,
    )


def from_columns(kind: Any, **columns: Iterable[object]) -> list[Any]:
    """Make values of a frozen dataclass with slots, whose fields have these in their turn."""
    return [*starmap(maker(kind, *columns), zip(*columns.values(), strict=True))]
