"""Arrays of whatever library, as the values of a page are looked at."""

from typing import Any


def is_mask(value: Any) -> bool:
    """Return whether `value` is an array of truth values."""
    return str(getattr(value, "dtype", "")).rpartition(".")[2].startswith("bool")


def count(value: Any) -> int | None:
    """Return how many elements `value` has; None where that cannot be told."""
    try:
        if hasattr(value, "numel"):
            return int(value.numel())
        return int(value.size) if hasattr(value, "dtype") else len(value)
    except Exception:  # noqa: BLE001 - whatever a value of the page cannot do
        return None
