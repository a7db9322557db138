"""A layout upside down: each y becomes ``height - y``, and each path runs the other way."""

from collections.abc import Sequence
from dataclasses import replace

from leafgrad._picture.layout.geometry import Extent, Layout


def flipped(boxes: Sequence[Extent], layout: Layout) -> Layout:
    """Turn a layout upside down, and each edge around, so that it leads downwards again."""
    return replace(
        layout,
        positions=tuple(
            replace(at, top=layout.height - at.top - box.height)
            for at, box in zip(layout.positions, boxes, strict=True)
        ),
        paths=tuple(
            tuple((x, layout.height - y) for x, y in reversed(points)) for points in layout.paths
        ),
    )
