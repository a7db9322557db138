"""The shapes that pictures and their legends are drawn with, and the lengths they share."""

from leafgrad._display.markup import Markup, element, path

CORNER = 5.0
OUTLINE = 4.0
"""The room around a box with an outline."""


def rect(class_: str, x: float, y: float, wide: float, high: float, corner: float) -> Markup:
    """Draw a rectangle."""
    return element("rect", class_=class_, x=x, y=y, width=wide, height=high, rx=corner)


def head(x: float, y: float) -> Markup:
    """Draw the head of an arrow that points down at (x, y)."""
    return element("path", class_="head", d=path((x, y), "l-3.5 -7h7z"))
