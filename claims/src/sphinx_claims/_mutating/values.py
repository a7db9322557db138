"""Values that are compared: a mark to know them by, and others in their place."""

import types
from collections.abc import Callable
from typing import Any

from sphinx_claims._executing.arrays import count, is_mask

_FEW = 100_000
"""Elements of an array that is changed in the place of another."""

_PLAIN = (bool, bytes, int, str, types.NoneType)

NEGATED = "negated"
"""What is not noticed where only an absolute value counts."""

MUCH = "a thousand times as large"
"""What no bound that says anything leaves room for."""

SAME = "replaced by the other"
"""What tells of two objects that must not be one."""

Others = list[tuple[str, Any]]


def mark(value: Any, digits: int = 17) -> bytes:
    """Return what tells a value from others of its kind; of what has no value, its type.

    Of floats and complex numbers, so many `digits` count.
    """
    if isinstance(value, float):
        return f"{value + 0.0:.{digits}g}".encode()  # zero has one sign
    if isinstance(value, complex):
        return mark(value.real, digits) + b" " + mark(value.imag, digits) + b"j"
    if isinstance(value, _PLAIN):
        return repr(value).encode()
    name = type(value).__name__.encode()
    try:
        return name + _mark_of_parts(value, digits)
    except Exception:  # noqa: BLE001 - whatever a value of the page cannot do
        return name


def _mark_of_parts(value: Any, digits: int) -> bytes:
    if isinstance(value, type):
        return value.__qualname__.encode()
    if hasattr(value, "dtype"):
        shape = f"{value.dtype}{tuple(value.shape)}".encode()
        return shape + mark(value.tolist(), digits)
    if not isinstance(value, list | tuple | set | frozenset | dict):
        return b""
    parts = [*value.items()] if isinstance(value, dict) else [*value]
    marks = [mark(part, digits) for part in parts]
    if isinstance(value, set | frozenset):
        marks.sort()
    return b"(" + b",".join(marks) + b")"


def others(value: Any) -> Others:
    """Return what stands in the place of `value`, in words and as values that differ from it."""
    known = {mark(value), mark(_made(_UNCHANGED, value))}  # a change may make another type of it
    made = {words: _made(change, value) for words, change in _CHANGES.items()}
    return [
        (words, other)
        for words, other in made.items()
        if other is not None and mark(other) not in known
    ]


def _made(change: Callable[[Any], Any], value: Any) -> Any:
    try:
        return change(value)
    except Exception:  # noqa: BLE001 - whatever a value of the page cannot do
        return None


def _of_numbers(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Let a change of a number change each number of a list or an array as well."""

    def changed(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)([changed(part) for part in value])
        if isinstance(value, bool | str) or value is None:
            raise TypeError
        if hasattr(value, "dtype"):
            if is_mask(value) or not 0 < (count(value) or 0) <= _FEW:
                raise TypeError
            value = value.detach() if hasattr(value, "detach") else value
        return change(value)

    return changed


def _negated(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if is_mask(value):
        return ~value
    return _NEGATED(value)


def _off(value: Any) -> Any:
    if isinstance(value, int):
        return value + 1
    if hasattr(value, "dtype") and not any(
        kind in str(value.dtype) for kind in ("float", "complex")
    ):
        return value + 1
    return value * 1.1


def _first(value: Any) -> Any:
    """Double one element of several."""
    if isinstance(value, list | tuple) and len(value) > 1:
        return type(value)([_CHANGES["doubled"](value[0]), *value[1:]])
    if hasattr(value, "dtype") and not is_mask(value) and 1 < (count(value) or 0) <= _FEW:
        value = value.detach().clone() if hasattr(value, "detach") else value.copy()
        flat = value.reshape(-1)
        flat[0] = flat[0] * 2
        return flat.reshape(value.shape)
    return None


_UNCHANGED = _of_numbers(lambda value: value)
_NEGATED = _of_numbers(lambda value: -value)
_CHANGES: dict[str, Callable[[Any], Any]] = {
    NEGATED: _negated,
    "replaced by zero": _of_numbers(lambda value: value * 0),
    "doubled": _of_numbers(lambda value: value * 2),
    "off by a tenth": _of_numbers(_off),
    "doubled in its first element": _first,
    MUCH: _of_numbers(lambda value: value * 1000),
}
