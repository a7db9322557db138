"""The norms of the gradients along a backward, as a row of bars."""

from collections.abc import Iterator, Sequence
from math import log10

from leafgrad._display.markup import Markup, element, text
from leafgrad._steps.sign import Sign

HEIGHT = 40
LEAST = 3.0
"""How high the lowest bar is."""

LEAST_RANGE = 1.0
"""Norms nearer together than by so many powers of ten differ less in height than they could."""


def profile(signs: Sequence[Sign]) -> Iterator[Markup]:
    """Draw a bar for the norm at each step that has one, in powers of ten, if two have."""
    powers = {place: log10(sign.norm) for place, sign in enumerate(signs) if sign.norm}
    if len(powers) > 1:
        most, least = max(powers.values()), min(powers.values())
        rise = (HEIGHT - LEAST) / max(most - least, LEAST_RANGE)
        heights = [HEIGHT - rise * (most - power) for power in powers.values()]
        bars = (
            element("rect", x=n + 0.1, y=HEIGHT - height, width=0.8, height=height, data_at=place)
            for n, (place, height) in enumerate(zip(powers, heights, strict=True))
        )
        ends = " to ".join(dict.fromkeys(f"{10**power:.2g}" for power in (least, most)))
        meaning = f"gradient norm, {ends}, in powers of ten"
        drawn = element(
            "svg",
            *bars,
            viewBox=f"0 0 {len(heights)} {HEIGHT}",
            preserveAspectRatio="none",
            aria_hidden="true",
        )
        caption = element("figcaption", text(meaning))
        yield element("figure", drawn, caption, class_="profile")
