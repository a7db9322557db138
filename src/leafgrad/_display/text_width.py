"""How wide text may become where no font is at hand to measure it."""

import unicodedata

LATIN = 0x250
"""Where the letters that every monospaced font has end."""

OF_LATIN = 0.63
"""Monospaced fonts are 0.55 to 0.62 of their size wide."""

OF_OTHERS = 1.1
OF_WIDE = 1.4
"""Letters of another font, and pictures: nearly square, and pictures more than that."""

ELLIPSIS = "…"


def width(text: str, size: float) -> float:
    """Return an upper estimate of a text's width in a monospaced font of a size."""
    return size * sum(map(_of_one, text))


def _of_one(character: str) -> float:
    if ord(character) < LATIN or character in "…×→−":
        return OF_LATIN
    if unicodedata.category(character) == "Mn":
        return 0.0
    return OF_WIDE if unicodedata.east_asian_width(character) in "WF" else OF_OTHERS


def shortened(text: str, most: float) -> str:
    """Take letters out of the middle until no more than `most` Latin ones would have room."""
    if len(text) <= 2 * most and width(text, 1) <= most * OF_LATIN:
        return text
    half = min(len(text) // 2, int(most))
    head, tail = text[:half], text[-half:]
    while width(head + ELLIPSIS + tail, 1) > most * OF_LATIN:
        head, tail = (head[:-1], tail) if len(head) >= len(tail) else (head, tail[1:])
    return head + ELLIPSIS + tail
