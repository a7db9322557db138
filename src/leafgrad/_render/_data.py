"""Values as JSON types."""

from typing import Any


def json_types(value: Any) -> Any:
    """Turn a value into JSON types: fields under their names, types and devices by theirs."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tuple):
        return [json_types(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: json_types(getattr(value, name)) for name in value.__dataclass_fields__}
    return str(value).removeprefix("torch.")
