"""Numbers with their units, as one reads them."""

STEP = 1024


def size(nbytes: int) -> str:
    """Write a number of bytes in the unit that leaves fewer than four digits."""
    scaled, unit = float(nbytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(scaled) < STEP:
            break
        scaled, unit = scaled / STEP, larger
    return f"{nbytes} B" if unit == "B" else f"{scaled:.1f} {unit}"


def count(number: int, noun: str) -> str:
    """Write a number before its noun, which gets a plural where it needs one."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}es" if noun.endswith("x") else f"{number} {noun}s"
