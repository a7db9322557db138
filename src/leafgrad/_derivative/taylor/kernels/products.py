"""Sums of products of stacked coefficients, in as few tensor operations as possible.

A table lists products ``out_c += weight left_a right_b`` of coefficients in three stacks
``[K, *shape]``. Each stack has its own K, and the shapes may be broadcast. A coefficient's index in
a stack is called its place. In a *run*, one of the three places is fixed and the other two increase
by one each time, as in ``left_2 right_1, left_2 right_2, ...``. One operation on slices of the
stacks computes a whole run. If the place of the result is fixed, as in the sum of squares of a
Laplacian, the operation is a sum along the first axis.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from leafgrad._derivative.taylor.constants import number

Span = range | int  # the places of several successive coefficients in a stack, or one place


class ProductRun(NamedTuple):
    """A run of products, which one operation on slices of the stacks can compute.

    For one of the stacks, the run has a single place (an int). For the other two, it has a range of
    places, or also a single one.

    Attributes:
        out: The places of the results.
        left: The places of the left factors.
        right: The places of the right factors.
        weight: The factor that multiplies each product.
        is_first: Whether `out` is uninitialised, so that the products overwrite it.
        is_sum: Whether several products are summed into one result.
    """

    out: Span
    left: Span
    right: Span
    weight: float
    is_first: bool
    is_sum: bool


class Product(NamedTuple):
    """The places of two factors and of their product in three stacks, and the product's weight."""

    left: int
    right: int
    out: int
    weight: float = 1


def product_runs(products: Collection[Product], written: set[int]) -> tuple[ProductRun, ...]:
    """Group products into as few runs as possible, and return the runs.

    `written` contains the places of `out` that are already initialised. The places that the runs
    write are added to it.
    """
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
    """Yield runs of products in which one place is the same: left (0), right (1) or out (2).

    A place is the index of a coefficient in its stack. `fixed` is the number of the fixed place.
    """
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
    """Return the product that follows `product` in a run: all places but `fixed` increase by 1."""
    left, right, out = (place + (number != fixed) for number, place in enumerate(product[:3]))
    return Product(left, right, out, product.weight)


def _parts(run: list[Product], written: set[int]) -> Iterator[list[Product]]:
    """Split a run into parts: in each, either all places of `out` are in `written`, or none is."""
    part = run[:1]
    for product in run[1:]:
        if (product[2] in written) != (part[-1][2] in written):
            yield part
            part = []
        part.append(product)
    yield part


def span_of(places: tuple[int, ...]) -> Span:
    """Return the successive places of a run as a range, or as an int if there is only one."""
    first, last = places[0], places[-1]
    return range(first, last + 1) if last > first else first


class StackViews(dict[Span, Tensor]):
    """A cache of views of a stack ``[K, *shape]``, created on first use.

    The key is a range, for a view ``[len(range), *shape]``, or an int, for a view ``[*shape]``. If
    the stack is the part of a larger stack from the place `first` on, keys are places of the larger
    stack.
    """

    __slots__ = ("first", "stack")

    def __init__(self, stack: Tensor, first: int = 0) -> None:
        self.stack: Tensor = stack
        self.first: int = first

    def __missing__(self, place: Span) -> Tensor:
        # Indexing with an int or a slice takes half the time of `select` or `narrow`.
        if isinstance(place, int):
            part = self.stack[place - self.first]
        else:
            part = self.stack[place.start - self.first : place.stop - self.first]
        self[place] = part
        return part

    def scaled(self, span: Span, factor: Tensor) -> StackViews:
        """Return views of the coefficients in `span`, each multiplied by a factor ``[*shape]``.

        The new stack has only the coefficients in `span`. Each of them keeps its key: its place in
        this stack.
        """
        stack = self[span] * factor
        found = StackViews(stack, _places(span, 1)[0])
        found[span] = stack
        return found

    def whole(self) -> Tensor:
        """Return the stack ``[K, *shape]``."""
        return self.stack


class TracedCoefficients(StackViews):
    """Coefficients ``[*shape]`` as separate tensors, stacked only at the end.

    This class replaces `StackViews` while a compiler traces the operations. In a trace, each
    in-place write to a stack would create a copy of the whole stack. Here, an addition creates only
    one new coefficient.
    """

    __slots__ = ("size",)

    def __init__(self, stack: Tensor, size: int) -> None:
        """Create `size` coefficients: first those of a stack ``[n, *shape]``, then zeros."""
        super().__init__(stack)
        self.size: int = size

    def __missing__(self, place: Span) -> Tensor:
        if place in range(len(self.stack)):
            return super().__missing__(place)
        return torch.zeros_like(self.stack[0])

    def scaled(self, span: Span, factor: Tensor) -> StackViews:
        """Return the coefficients in `span`, each multiplied by a factor ``[*shape]``.

        Each of them keeps its key, its place in this stack.
        """
        found = TracedCoefficients(self.stack, self.size)
        found.update({place: self[place] * factor for place in _places(span, 1)})
        return found

    def add(
        self, left: StackViews, right: StackViews, table: tuple[ProductRun, ...], weight: float
    ) -> None:
        """Add ``weight * left_a * right_b`` to coefficient c of this object, for a whole table.

        See `add_products`.
        """
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
    """Return the place in one stack for each of the `size` products of a run.

    `span` contains the places of the run in this stack. If it is an int, all products have this
    place.
    """
    return span if isinstance(span, range) else [span] * size


def common_shape(one: Sequence[int], two: Sequence[int]) -> Sequence[int]:
    """Return the broadcast shape of `one` and `two`, faster than `torch.broadcast_shapes`.

    A shape mismatch is not checked here: the operation that follows reports it.
    """
    if one == two:
        return one
    missing = len(one) - len(two)
    pairs = zip((1,) * -missing + tuple(one), (1,) * missing + tuple(two), strict=True)
    return tuple(other if size == 1 else size for size, other in pairs)


def keep_where(sign: Tensor, kept: Tensor) -> Tensor:
    """Return `kept` where `sign`, ``[*shape]``, is positive, and zero elsewhere.

    The two are broadcast. This calls the operator of ReLU's backward, because `torch.where` takes
    25 times as long.
    """
    result: Tensor = torch.ops.aten.threshold_backward(kept, sign, 0)
    return result


def product_times(left: Tensor, right: Tensor, factor: float) -> Tensor:
    """Return ``factor * left * right``, in the broadcast shape, by one operation.

    A multiplication by a Python number would first convert it to a tensor, which takes longer than
    a small product.
    """
    if factor == 1:
        return left * right
    return torch.addcmul(number(0.0, left.dtype, left.device), left, right, value=factor)


def add_sum(
    total: Tensor, left: Tensor, right: Tensor, *, value: float = 1, is_first: bool = False
) -> None:
    """Add ``value * sum_i left_i right_i`` to `total`, ``[*shape]``, in place.

    `left` and `right` are stacks ``[n, *shape]``. If `is_first` is true, the total is overwritten
    and need not be initialised.
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


# The number of elements up to which all products of a sum together fit into the cache.
_AT_ONCE = 1 << 14


def add_products(
    out: dict[Span, Tensor],
    left: StackViews,
    right: StackViews,
    table: tuple[ProductRun, ...],
    *,
    weight: float = 1,
) -> None:
    """Add ``weight * left_a * right_b`` to ``out_c`` in place, for all products of a table.

    All three are views of stacks ``[K, *shape]``, and `out` has the broadcast shape. A key such as
    `a` is a span: the places of neighbouring coefficients in the stack. Places of `out` that the
    table marks with `is_first` need not be initialised.
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

    All four are views of stacks ``[K, *shape]``. `start` and `out` have the broadcast shape. All
    weights in the table must be 1.
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
