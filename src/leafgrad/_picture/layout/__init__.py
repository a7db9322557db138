"""Layered drawings: boxes and links in, coordinates out.

The longest path is a straight trunk at x = 0. Every other path is a straight column beside it,
and a link that passes rows by runs straight down in a lane of its own, so no link meets a box.
"""

from collections.abc import Sequence

from leafgrad._picture.layout.columns import columns_of
from leafgrad._picture.layout.geometry import Box, Drawing, Link, Place, Point
from leafgrad._picture.layout.layers import rows_of
from leafgrad._picture.layout.routes import routes
from leafgrad._picture.layout.tracks import tracks_of

__all__ = ["Box", "Drawing", "Link", "Place", "Point", "draw"]


def draw(boxes: Sequence[Box], links: Sequence[Link]) -> Drawing:
    """Place boxes and route links; each link must lead to a box of a higher number.

    Time and memory grow with the rows that the tracks cover, which is linear where what is made
    is used soon.
    """
    rows = rows_of(boxes, links)
    tracks = tracks_of(boxes, links, rows)
    columns = columns_of(links, tracks)
    return routes(boxes, links, rows, tracks, columns)
