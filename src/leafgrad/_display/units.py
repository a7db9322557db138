"""Sizes, counts, lists, shapes and names of types as text."""

from collections.abc import Sequence

from leafgrad._messages import message

STEP = 1024


def size(nbytes: int) -> str:
    """Return a number of bytes in a unit that leaves at most four digits before the point."""
    scaled, unit = float(nbytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(scaled) < STEP:
            break
        scaled, unit = scaled / STEP, larger
    return f"{nbytes} B" if unit == "B" else f"{scaled:.1f} {unit}"


def count(number: int, noun: str) -> str:
    """Return a number and its noun, one of ``counts`` in the messages."""
    return message(f"counts.{noun}", count=number)


def first_few(texts: Sequence[str], most: int) -> str:
    """Return up to `most` texts, and the number of the others."""
    left = [message("lists.more", count=len(texts) - most)] if len(texts) > most else []
    return message("lists.comma").join([*texts[:most], *left])


def shape_text(sizes: tuple[int | str, ...] | None) -> str:
    """Return a shape as Python writes a tuple, ``nested`` for a strided nested tensor."""
    if sizes is None:
        return "nested"
    comma = "," if len(sizes) == 1 else ""
    return f"({', '.join(map(str, sizes))}{comma})"


def torch_name(value: object) -> str:
    """Return the name of a data type, a layout or a device, without ``torch.`` before it."""
    return str(value).removeprefix("torch.")
