"""Sums of products of stacked coefficients, in as few operations as there can be.

A table of products ``out_c += weight left_a right_b`` runs over three stacks ``[K, *shape]``, each
with its own K and with shapes that may be broadcast. Where one factor stays and the places of the
other and of the result go on by one, as those of ``left_2 right_1, left_2 right_2, ...`` do, one
operation on a slice of each stack adds up the whole run. Where the result stays and both factors
go on, as in the sum of squares of a Laplacian, this is a sum along the first axis.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from leafgrad._derivative.taylor.constants import number

Span = range | int  # places of a run of coefficients in a stack, or the place of one


class ProductRun(NamedTuple):
    """Products of coefficients that one operation on stacked coefficients can add up.

    Either one coefficient meets a run of others, or two runs meet and are summed up in one
    coefficient, or each of three places is one coefficient.

    Attributes:
        out: Where the products are added.
        left: Where the left factors are.
        right: Where the right factors are.
        weight: What each product is multiplied by.
        is_first: Whether nothing was written to `out` before.
        is_sum: Whether two runs meet in one coefficient.
    """

    out: Span
    left: Span
    right: Span
    weight: float
    is_first: bool
    is_sum: bool


class Product(NamedTuple):
    """Places of two factors and of their product, in three stacks, and how often it counts."""

    left: int
    right: int
    out: int
    weight: float = 1


def product_runs(products: Collection[Product], written: set[int]) -> tuple[ProductRun, ...]:
    """Join products to runs, in order; the places of `out` in `written` hold something already."""
    found = []
    for run in min(([*_runs(products, fixed)] for fixed in range(3)), key=len):
        for part in _parts(run, written):
            left, right, out, weight = zip(*part, strict=True)
            found.append(
                ProductRun(
                    left=span_of(left),
                    right=span_of(right),
                    out=span_of(out),
                    weight=weight[0],
                    is_first=out[0] not in written,
                    is_sum=len(part) > 1 and out[0] == out[-1],
                )
            )
            written.update(out)
    return tuple(found)


def _runs(products: Collection[Product], fixed: int) -> Iterator[list[Product]]:
    """Yield runs in which one of left (0), right (1) and out (2) stays; the others go on by one."""
    run: list[Product] = []
    for product in sorted(products, key=lambda t: (t[fixed], t[0], t[1])):
        goes_on = run and product == _next(run[-1], fixed)
        if run and not goes_on:
            yield run
            run = []
        run.append(product)
    if run:
        yield run


def _next(product: Product, fixed: int) -> Product:
    """Return the product that continues a run in which one of the three places stays."""
    left, right, out = (place + (number != fixed) for number, place in enumerate(product[:3]))
    return Product(left, right, out, product.weight)


def _parts(run: list[Product], written: set[int]) -> Iterator[list[Product]]:
    """Split a run where it goes over from what is written to what is not, or back."""
    part = run[:1]
    for product in run[1:]:
        if (product[2] in written) != (part[-1][2] in written):
            yield part
            part = []
        part.append(product)
    yield part


def span_of(places: tuple[int, ...]) -> Span:
    """Return the places of a run as a range, or as a number where it is one place."""
    first, last = places[0], places[-1]
    return range(first, last + 1) if last > first else first


class StackViews(dict[Span, Tensor]):
    """Views of a stack ``[K, *shape]``, each taken once, when it is needed.

    A range gives ``[len(range), *shape]``, a number ``[*shape]``. Where the stack is what a larger
    one has from the place `first` on, places are counted as in the larger one.
    """

    __slots__ = ("first", "stack")

    def __init__(self, stack: Tensor, first: int = 0) -> None:
        self.stack: Tensor = stack
        self.first: int = first

    def __missing__(self, place: Span) -> Tensor:
        # A number or a slice in brackets takes half as long as `select` or `narrow`.
        if isinstance(place, int):
            part = self.stack[place - self.first]
        else:
            part = self.stack[place.start - self.first : place.stop - self.first]
        self[place] = part
        return part

    def scaled(self, span: Span, factor: Tensor) -> StackViews:
        """Return the coefficients of a run times a factor ``[*shape]``, at the same places."""
        stack = self[span] * factor
        found = StackViews(stack, _places(span, 1)[0])
        found[span] = stack
        return found

    def whole(self) -> Tensor:
        """Return the stack ``[K, *shape]``."""
        return self.stack


class TracedCoefficients(StackViews):
    """Coefficients ``[*shape]`` of a stack that is not there until all of them are known.

    To whoever traces operations, what is written into a stack is another stack each time. So each
    coefficient is a tensor of its own here, and a new one where something is added.
    """

    __slots__ = ("size",)

    def __init__(self, stack: Tensor, size: int) -> None:
        """Take the first ones from a stack ``[n, *shape]``; the others, up to `size`, are zero."""
        super().__init__(stack)
        self.size: int = size

    def __missing__(self, place: Span) -> Tensor:
        if place in range(len(self.stack)):
            return super().__missing__(place)
        return torch.zeros_like(self.stack[0])

    def scaled(self, span: Span, factor: Tensor) -> StackViews:
        """Do what `StackViews.scaled` does, on ``[K, *shape]``."""
        found = TracedCoefficients(self.stack, self.size)
        found.update({place: self[place] * factor for place in _places(span, 1)})
        return found

    def add(
        self, left: StackViews, right: StackViews, table: tuple[ProductRun, ...], weight: float
    ) -> None:
        """Do what `add_products` does."""
        for to, one, other, count, is_first, _ in table:
            size = max(len(span) if isinstance(span, range) else 1 for span in (to, one, other))
            written = set() if is_first else {*_places(to, size)}
            for c, a, b in zip(*(_places(span, size) for span in (to, one, other)), strict=True):
                term = left[a] * right[b]
                term = term if weight * count == 1 else term * (weight * count)
                self[c] = self[c] + term if c in written else term
                written.add(c)

    def whole(self) -> Tensor:
        """Return the stack ``[K, *shape]``."""
        return torch.stack([self[place] for place in range(self.size)])


def _places(span: Span, size: int) -> Sequence[int]:
    """Return the places of a run of this size, in which a single one is that of each."""
    return span if isinstance(span, range) else [span] * size


def common_shape(one: Sequence[int], two: Sequence[int]) -> Sequence[int]:
    """Return what `torch.broadcast_shapes` does, which takes as long as three operations do.

    What does not fit together is left to the operation that follows.
    """
    if one == two:
        return one
    missing = len(one) - len(two)
    pairs = zip((1,) * -missing + tuple(one), (1,) * missing + tuple(two), strict=True)
    return tuple(other if size == 1 else size for size, other in pairs)


def keep_where(sign: Tensor, kept: Tensor) -> Tensor:
    """Return what is kept where a sign ``[*shape]`` is above 0, and zero elsewhere, as broadcast.

    It is the gradient of ReLU, whatever is kept there: `torch.where` takes 25 times as long.
    """
    result: Tensor = torch.ops.aten.threshold_backward(kept, sign, 0)
    return result


def product_times(left: Tensor, right: Tensor, factor: float) -> Tensor:
    """Return ``factor * left * right``, of the broadcast shape, in one operation.

    PyTorch makes a tensor of a number to multiply by it, which takes longer than a small product.
    """
    if factor == 1:
        return left * right
    return torch.addcmul(number(0.0, left.dtype, left.device), left, right, value=factor)


def add_sum(
    total: Tensor, left: Tensor, right: Tensor, *, value: float = 1, is_first: bool = False
) -> None:
    """Add ``value * sum_i left_i right_i``, of stacks ``[n, *shape]``, to a total ``[*shape]``.

    Where this is the first that is written there, the total need not be initialised.
    """
    if total.numel() <= _AT_ONCE:
        products = left * right
        if is_first:
            torch.sum(products, 0, out=total).mul_(value)
        else:
            total.add_(products.sum(0), alpha=value)
        return
    if is_first:
        total.zero_()
    for one, other in zip(left.unbind(0), right.unbind(0), strict=True):
        total.addcmul_(one, other, value=value)


_AT_ONCE = 1 << 14  # numbers; n times as many leave the cache of a core


def add_products(
    out: dict[Span, Tensor],
    left: StackViews,
    right: StackViews,
    table: tuple[ProductRun, ...],
    *,
    weight: float = 1,
) -> None:
    """Add ``weight * left_a * right_b`` to ``out_c`` in place, for all products of a table.

    All three are views of stacks ``[K, *shape]``, of which `out` has the broadcast shape. Where
    nothing was written to `out` before, it need not be initialised.
    """
    if isinstance(out, TracedCoefficients):
        out.add(left, right, table, weight)
        return
    for to, one, other, count, is_first, is_sum in table:
        value = weight * count
        if is_sum:
            add_sum(out[to], left[one], right[other], value=value, is_first=is_first)
        elif not is_first:
            out[to].addcmul_(left[one], right[other], value=value)
        elif value == 1:
            torch.mul(left[one], right[other], out=out[to])
        else:
            torch.mul(left[one], right[other], out=out[to]).mul_(value)


def add_products_to(
    start: StackViews,
    out: StackViews,
    left: StackViews,
    right: StackViews,
    table: tuple[ProductRun, ...],
) -> None:
    """Write ``start_c`` plus the products ``left_a * right_b`` of a table into ``out_c``.

    All four are views of stacks ``[K, *shape]``, of which `start` and `out` have the broadcast
    shape. The weights of the table are all 1.
    """
    for to, one, other, _, is_first, is_sum in table:
        if is_first and not is_sum:
            torch.addcmul(start[to], left[one], right[other], out=out[to])
            continue
        if is_first:
            out[to].copy_(start[to])
        if is_sum:
            add_sum(out[to], left[one], right[other])
        else:
            out[to].addcmul_(left[one], right[other])
