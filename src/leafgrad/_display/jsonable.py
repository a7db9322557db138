"""Conversion of reports to JSON types."""

from math import isfinite
from typing import Any

from leafgrad._display.units import torch_name


def fields_as_json(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as a dictionary of JSON types.

    `value` is an instance of the dataclass.
    """
    return {name: json_types(getattr(value, name)) for name in value.__dataclass_fields__}


def json_types(value: Any) -> Any:
    """Return a value as JSON types; data types and devices become names, NaN and infinity text."""
    if value is None or isinstance(value, int | str):
        return value
    if isinstance(value, float):  # JSON has no NaN and no infinity
        return value if isfinite(value) else str(value)
    if isinstance(value, tuple):
        return [json_types(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return fields_as_json(value)
    return torch_name(value)
