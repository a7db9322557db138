"""Sizes, counts, lists, shapes and names of types as text."""

from collections.abc import Sequence

from leafgrad._messages import message

STEP = 1024


def size(nbytes: int) -> str:
    """Return a number of bytes as text with a unit, such as "32.5 KiB"."""
    scaled, unit = float(nbytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(scaled) < STEP:
            break
        scaled, unit = scaled / STEP, larger
    return f"{nbytes} B" if unit == "B" else f"{scaled:.1f} {unit}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural, such as "3 nodes"."""
    return message(f"counts.{noun}", count=number)


def first_few(texts: Sequence[str], most: int) -> str:
    """Return the first `most` texts separated by commas, and how many are left out."""
    left = [message("lists.more", count=len(texts) - most)] if len(texts) > most else []
    return message("lists.comma").join([*texts[:most], *left])


def shape_text(sizes: tuple[int | str, ...] | None) -> str:
    """Return a shape as Python writes a tuple.

    `sizes` is None for a strided nested tensor, whose text is "nested".
    """
    if sizes is None:
        return "nested"
    comma = "," if len(sizes) == 1 else ""
    return f"({', '.join(map(str, sizes))}{comma})"


def torch_name(value: object) -> str:
    """Return the name of a data type, layout or device without the leading ``torch.``.

    `value` is the type, layout or device.
    """
    return str(value).removeprefix("torch.")
