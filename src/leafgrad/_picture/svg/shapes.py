"""SVG shapes that pictures and legends share."""

from leafgrad._display.markup import Markup, element, path

CORNER = 5.0
OUTLINE = 4.0
"""The width of the ring around a root."""


def rect(class_: str, x: float, y: float, wide: float, high: float, corner: float) -> Markup:
    """Return a rectangle with rounded corners."""
    return element("rect", class_=class_, x=x, y=y, width=wide, height=high, rx=corner)


def head(x: float, y: float) -> Markup:
    """Return an arrow head that points down at (x, y)."""
    return element("path", class_="head", d=path((x, y), "l-3.5 -7h7z"))
