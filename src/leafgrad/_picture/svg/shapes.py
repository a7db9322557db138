"""The shapes that pictures and their legends are drawn with, and the lengths they share."""

from leafgrad._display.markup import Markup, element, path

CORNER = 5.0
OUTLINE = 4.0
"""The room around a box with an outline or with copies behind it."""

STUB_LENGTH = 8.0


def rect(class_: str, x: float, y: float, wide: float, high: float, corner: float) -> Markup:
    """Draw a rectangle."""
    return element("rect", class_=class_, x=x, y=y, width=wide, height=high, rx=corner)


def behind(left: float, top: float, wide: float, high: float) -> Markup:
    """Draw the visible part of a box behind another."""
    steps = f"h{OUTLINE:g}", f"v{high:g}", f"h{-wide:g}", f"v{-OUTLINE:g}"
    return element("path", class_="behind", d=path((left + wide, top + OUTLINE), *steps))


def stub(x: float, y: float, *, is_above: bool = False) -> Markup:
    """Draw an input without a gradient at a side of a box: an edge that ends at once."""
    length = -STUB_LENGTH if is_above else STUB_LENGTH
    return element("path", class_="stub", d=path((x, y), f"v{length:g}m-3.5 0h7"))


def head(x: float, y: float) -> Markup:
    """Draw the head of an arrow that points down at (x, y)."""
    return element("path", class_="head", d=path((x, y), "l-3.5 -7h7z"))
