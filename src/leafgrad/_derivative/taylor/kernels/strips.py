"""How a table of products runs over stacked coefficients, in as few operations as there can be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

Place = range | int  # of a run of coefficients in a stack, or of one


class Strip(NamedTuple):
    """Products of coefficients that one operation on stacked coefficients can add up.

    Either one coefficient meets a run of others, or each of three places is one coefficient.
    """

    out: Place
    left: Place
    right: Place
    weight: float
    is_first: bool  # nothing was written to `out` before


class Triple(NamedTuple):
    """Places of two factors and of their product, in three stacks, and how often it counts."""

    left: int
    right: int
    out: int
    weight: float = 1


def strips(triples: Collection[Triple], written: set[int]) -> tuple[Strip, ...]:
    """Join triples to strips, in order; `written` tells what `out` holds."""
    by_left = list(_runs(triples, fixed=0, moving=1))
    by_right = list(_runs(triples, fixed=1, moving=0))
    runs = min(by_left, by_right, key=len)
    found = []
    for run in runs:
        for part in _parts(run, written):
            left, right, out, weight = zip(*part, strict=True)
            found.append(
                Strip(
                    left=span(left),
                    right=span(right),
                    out=span(out),
                    weight=weight[0],
                    is_first=out[0] not in written,
                )
            )
            written.update(out)
    return tuple(found)


def _runs(triples: Collection[Triple], *, fixed: int, moving: int) -> Iterator[list[Triple]]:
    """Yield runs in which one factor stays, and the other and the product go on by one."""
    run: list[Triple] = []
    for triple in sorted(triples, key=lambda t: (t[fixed], t[moving])):
        goes_on = run and triple == _next(run[-1], fixed)
        if run and not goes_on:
            yield run
            run = []
        run.append(triple)
    if run:
        yield run


def _next(triple: Triple, fixed: int) -> Triple:
    left, right, out, weight = triple
    if fixed == 0:
        return Triple(left, right + 1, out + 1, weight)
    return Triple(left + 1, right, out + 1, weight)


def _parts(run: list[Triple], written: set[int]) -> Iterator[list[Triple]]:
    """Split a run where it goes over from what is written to what is not, or back."""
    part = run[:1]
    for triple in run[1:]:
        if (triple[2] in written) != (part[-1][2] in written):
            yield part
            part = []
        part.append(triple)
    yield part


def span(places: tuple[int, ...]) -> Place:
    """Give the places of a run as a range, or as a number where it is one place."""
    first, last = places[0], places[-1]
    return range(first, last + 1) if last > first else first


class Rows(dict[Place, Tensor]):
    """Stacked coefficients, of which each part is taken from the stack once, when it is needed.

    They may be what a whole stack has from the place `first` on.
    """

    __slots__ = ("first", "stack")

    def __init__(self, stack: Tensor, first: int = 0) -> None:
        self.stack = stack
        self.first = first

    def __missing__(self, place: Place) -> Tensor:
        # A number or a slice in brackets takes half as long as `select` or `narrow`.
        if isinstance(place, int):
            part = self.stack[place - self.first]
        else:
            part = self.stack[place.start - self.first : place.stop - self.first]
        self[place] = part
        return part


def common_shape(one: Sequence[int], two: Sequence[int]) -> Sequence[int]:
    """Find what `torch.broadcast_shapes` finds, which takes as long as three operations do.

    What does not fit together is left to the operation that follows.
    """
    if one == two:
        return one
    return tuple(map(max, one, two)) if len(one) == len(two) else torch.broadcast_shapes(one, two)


def accumulate(
    out: dict[Place, Tensor],
    left: Rows,
    right: Rows,
    table: tuple[Strip, ...],
    *,
    weight: float = 1,
) -> None:
    """Add products of coefficients, times `weight`, in place; what is new needs no zeros."""
    for to, one, other, count, is_first in table:
        value = weight * count
        if not is_first:
            out[to].addcmul_(left[one], right[other], value=value)
        elif value == 1:
            torch.mul(left[one], right[other], out=out[to])
        else:
            torch.mul(left[one], right[other], out=out[to]).mul_(value)


def accumulate_on(
    start: Rows, out: Rows, left: Rows, right: Rows, table: tuple[Strip, ...]
) -> None:
    """Add products of coefficients to what `start` has, in `out`."""
    for to, one, other, _, is_first in table:
        if is_first:
            torch.addcmul(start[to], left[one], right[other], out=out[to])
        else:
            out[to].addcmul_(left[one], right[other])
