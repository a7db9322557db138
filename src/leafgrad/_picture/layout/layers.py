"""Which row each box stands in."""

from collections.abc import Sequence
from dataclasses import dataclass

from leafgrad._picture.layout.geometry import Box, Link


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """The row of each box, and what follows from it.

    Attributes:
        row: The row of each box, counted from the top.
        fall: The number of links on the longest way on from each box.
        links_from: The numbers of the links that leave each box, in their order.
        links_to: The numbers of the links that arrive at each box.
        count: How many rows there are.
    """

    row: list[int]
    fall: list[int]
    links_from: list[list[int]]
    links_to: list[list[int]]
    count: int


def rows_of(boxes: Sequence[Box], links: Sequence[Link]) -> Rows:
    """Put each box right under the lowest one that leads to it, and the others as low as can be."""
    links_from: list[list[int]] = [[] for _ in boxes]
    links_to: list[list[int]] = [[] for _ in boxes]
    for number, link in enumerate(links):
        links_from[link.source].append(number)
        links_to[link.target].append(number)
    fall = _falls(len(boxes), links, links_to)
    deepest = max(fall)
    row: list[int] = []
    for box, arriving in enumerate(links_to):
        above = [row[links[number].source] for number in arriving]
        row.append(max(above) + 1 if above else deepest - fall[box])
    return Rows(row=row, fall=fall, links_from=links_from, links_to=links_to, count=deepest + 1)


def _falls(count: int, links: Sequence[Link], links_to: list[list[int]]) -> list[int]:
    fall = [0] * count
    for box in reversed(range(count)):
        for number in links_to[box]:
            source = links[number].source
            fall[source] = max(fall[source], fall[box] + 1)
    return fall
