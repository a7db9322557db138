"""Truncated algebras: which product of two coefficients lands where.

A series ``c_0 + c_1 e_1 + c_2 e_2 + ...`` is multiplied by multiplying what the ``e_k`` stand for:
powers of one direction, monomials of several columns, or the squares that a Laplacian adds up. A
product that leads out of the algebra is of no interest for the derivatives asked for, so it is
dropped. ``e_0 = 1`` is left out, as its coefficient is the value that the graph knows already.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import product

import torch
from torch import Tensor

MultiIndex = tuple[int, ...]
Indices = tuple[int, ...]  # of coefficients, in ascending order


@dataclass(frozen=True, kw_only=True, eq=False)
class Algebra:
    """Basis elements by ascending degree, and the product of any two of them that stays inside.

    The degree is what makes differential equations work here: multiplying each coefficient by its
    degree is a derivation, as a derivative is.
    """

    degrees: tuple[int, ...]
    products: dict[tuple[int, int], int]

    @cached_property
    def order(self) -> int:
        """The highest degree."""
        return max(self.degrees)

    def with_products(self, left: Indices, right: Indices) -> Indices:
        """Give the indices of what products of the two lead to."""
        pairs = product(left, right)
        return tuple(sorted({self.products[pair] for pair in pairs if pair in self.products}))

    @lru_cache(maxsize=1024)  # noqa: B019 (algebras are few, and cached themselves)
    def generated(self, indices: Indices) -> Indices:
        """Give the indices that a function of something with these `indices` has."""
        found = set(indices)
        grown = found
        while grown:
            pairs = product(indices, grown)
            grown = {self.products[p] for p in pairs if p in self.products} - found
            found |= grown
        return tuple(sorted(found))

    @lru_cache(maxsize=1024)  # noqa: B019
    def degrees_at(
        self, indices: Indices, ndim: int, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """Give the degrees as a tensor that scales stacked coefficients with `ndim` axes."""
        degrees = [self.degrees[index] for index in indices]
        with torch.inference_mode(mode=False):
            return torch.tensor(degrees, dtype=dtype, device=device).reshape(-1, *[1] * ndim)


@cache
def powers(order: int) -> Algebra:
    """Make the algebra of one direction: the powers of one infinitesimal up to `order`."""
    return monomials(frozenset((power,) for power in range(1, order + 1)))


@lru_cache(maxsize=64)
def monomials(indices: frozenset[MultiIndex]) -> Algebra:
    """Make the algebra of several columns: monomials, a set that holds each one's divisors."""
    basis = basis_of(indices)
    place = {index: number for number, index in enumerate(basis)}
    sums = (
        (place[a], place[b], tuple(map(sum, zip(a, b, strict=True)))) for a in basis for b in basis
    )
    products = {(a, b): place[c] for a, b, c in sums if c in place}
    return Algebra(degrees=tuple(map(sum, basis)), products=products)


def basis_of(indices: Collection[MultiIndex]) -> list[MultiIndex]:
    """Sort multi-indices as the algebra of these monomials does."""
    return sorted(indices, key=lambda index: (sum(index), index))


def closure(orders: Collection[MultiIndex]) -> frozenset[MultiIndex]:
    """Collect all multi-indices on the way to `orders`, but for the one of order 0."""
    below = {index for order in orders for index in product(*[range(n + 1) for n in order])}
    return frozenset(index for index in below if any(index))


@cache
def squares(directions: int) -> Algebra:
    """Make the algebra of the Laplacian: directions whose squares are all one and the same.

    Products of two different directions are dropped, so the last coefficient collects what the
    second derivatives add up to, and nothing else of second order is computed.
    """
    products = {(direction, direction): directions for direction in range(directions)}
    return Algebra(degrees=(1,) * directions + (2,), products=products)


# --- How a table of products runs over stacked coefficients


@dataclass(frozen=True, kw_only=True, slots=True)
class Strip:
    """Products of coefficients that one operation on stacked coefficients can add up.

    Either one coefficient meets a run of others, or each of three places is one coefficient.
    """

    out: slice | int
    left: slice | int
    right: slice | int
    is_first: bool  # nothing was written to `out` before


Triple = tuple[int, int, int]  # places of the two factors and of their product, in three stacks


def strips(triples: Collection[Triple], written: set[int]) -> tuple[Strip, ...]:
    """Join triples (left, right, out) to strips, in order; `written` tells what `out` holds."""
    by_left = list(_runs(triples, fixed=0, moving=1))
    by_right = list(_runs(triples, fixed=1, moving=0))
    runs = min(by_left, by_right, key=len)
    found = []
    for run in runs:
        for part in _parts(run, written):
            places = list(zip(*part, strict=True))
            found.append(
                Strip(
                    left=_span(places[0]),
                    right=_span(places[1]),
                    out=_span(places[2]),
                    is_first=places[2][0] not in written,
                )
            )
            written.update(places[2])
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
    left, right, out = triple
    return (left, right + 1, out + 1) if fixed == 0 else (left + 1, right, out + 1)


def _parts(run: list[Triple], written: set[int]) -> Iterator[list[Triple]]:
    """Split a run where it goes over from what is written to what is not, or back."""
    part = run[:1]
    for triple in run[1:]:
        if (triple[2] in written) != (part[-1][2] in written):
            yield part
            part = []
        part.append(triple)
    yield part


def _span(places: tuple[int, ...]) -> slice | int:
    """Give the places of a run as a slice, or as a number where it is one place."""
    first, last = places[0], places[-1]
    return slice(first, last + 1) if last > first else first


def accumulate(
    out: Tensor,
    left: Tensor,
    right: Tensor,
    table: tuple[Strip, ...],
    *,
    start: Tensor | None = None,
    weight: float = 1,
    is_zeroed: bool = False,
) -> None:
    """Add products of coefficients, times `weight`, to `out`, in place, on top of `start`."""
    for strip in table:
        target, one, other = out[strip.out], left[strip.left], right[strip.right]
        if is_zeroed or not strip.is_first:
            target.addcmul_(one, other, value=weight)
        elif start is not None:
            torch.addcmul(start[strip.out], one, other, out=target)
        else:
            torch.mul(one, other, out=target)
            if weight != 1:
                target.mul_(weight)


# --- Plans: tables for given coefficients


@dataclass(frozen=True, kw_only=True, eq=False)
class Contraction:
    """The products of two stacks of coefficients, seen from any of the three stacks.

    The sum over all triples of ``left[a] * right[b] * out[c]`` is linear in each of the three, so
    its derivative in one of them is a sum over the same triples.
    """

    triples: tuple[Triple, ...]
    sizes: tuple[int, int, int]

    @lru_cache(maxsize=8)  # noqa: B019
    def table(self, slot: int) -> tuple[Strip, ...]:
        """Give the strips that sum up for the stack in `slot`, from those in the other two."""
        first, second = (other for other in range(3) if other != slot)
        triples = [(t[first], t[second], t[slot]) for t in self.triples]
        return strips(triples, set())

    @lru_cache(maxsize=8)  # noqa: B019
    def untouched(self, slot: int) -> Indices:
        """Give the places in `slot` that no triple leads to."""
        return tuple(sorted(set(range(self.sizes[slot])) - {t[slot] for t in self.triples}))


@lru_cache(maxsize=4096)
def contraction(
    algebra: Algebra, left: Indices, right: Indices, out: Indices | None = None
) -> Contraction:
    """Plan the products of coefficients at `left` and `right`, of all or only of those at `out`."""
    out = algebra.with_products(left, right) if out is None else out
    place = {index: number for number, index in enumerate(out)}
    triples = [
        (a, b, place[algebra.products[i, j]])
        for (a, i), (b, j) in product(enumerate(left), enumerate(right))
        if algebra.products.get((i, j)) in place
    ]
    return Contraction(triples=tuple(triples), sizes=(len(left), len(right), len(out)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Level:
    """The coefficients of one degree, and what becomes known once they are."""

    degree: int
    span: slice
    chain: tuple[Strip, ...]  # argument's coefficients times these
    mixed: tuple[Strip, ...]  # these times lower ones, or times each other
    equal: tuple[Strip, ...]  # these times themselves


@dataclass(frozen=True, kw_only=True, eq=False)
class Recursion:
    """How to solve a differential equation for a function of a series, degree by degree."""

    indices: Indices  # of the solution
    seeds: Indices  # where in the solution the coefficients of the argument lie
    levels: tuple[Level, ...]
    products: Contraction  # argument times solution
    square: Contraction  # solution times solution

    algebra: Algebra

    @cached_property
    def size(self) -> int:
        """The number of coefficients of the solution."""
        return len(self.indices)

    @cached_property
    def is_prefix(self) -> bool:
        """Whether the argument has the first coefficients of the solution."""
        return self.seeds == tuple(range(len(self.seeds)))

    @cached_property
    def is_first_order(self) -> bool:
        """Whether all coefficients of the argument have degree 1."""
        return all(self.algebra.degrees[self.indices[place]] == 1 for place in self.seeds)

    def start(self, solution: Tensor, argument: Tensor) -> Tensor:
        """Write the argument, each coefficient times its degree, to where the solution has it."""
        scaled = self.weighted(argument)
        self.place(solution, scaled)
        return scaled

    def weighted(self, argument: Tensor) -> Tensor:
        """Multiply each coefficient of the argument by its degree."""
        if not self.is_first_order:
            at = tuple(self.indices[place] for place in self.seeds)
            ndim, dtype, device = argument.dim() - 1, argument.dtype, argument.device
            return argument * self.algebra.degrees_at(at, ndim, dtype, device)
        return argument

    def place(self, solution: Tensor, argument: Tensor) -> None:
        """Write the argument to where the solution has its coefficients."""
        if self.is_prefix:
            solution.narrow(0, 0, len(self.seeds)).copy_(argument)
        else:
            solution[list(self.seeds)] = argument.expand(-1, *solution.shape[1:])

    @cached_property
    def full(self) -> Recursion:
        """The plan for a function of the solution."""
        return recursion(self.algebra, self.indices)


@lru_cache(maxsize=1024)
def recursion(algebra: Algebra, argument: Indices) -> Recursion:
    """Plan the recursion for an elementwise function of a series with these indices."""
    indices = algebra.generated(argument)
    place = {index: number for number, index in enumerate(indices)}
    products = contraction(algebra, argument, indices, indices)
    square = contraction(algebra, indices, indices, indices)
    seeds = tuple(place[index] for index in argument)
    written, squared = set(seeds), set[int]()
    levels = []
    for degree in sorted({algebra.degrees[index] for index in indices}):
        at = [n for n, index in enumerate(indices) if algebra.degrees[index] == degree]
        span = slice(at[0], at[-1] + 1)
        chain = [t for t in products.triples if t[1] in at]
        mixed = [t for t in square.triples if t[1] in at and t[0] < t[1]]
        equal = [t for t in square.triples if t[1] in at and t[0] == t[1]]
        levels.append(
            Level(
                degree=degree,
                span=span,
                chain=strips(chain, written),
                mixed=strips(mixed, squared),
                equal=strips(equal, squared),
            )
        )
    return Recursion(
        indices=indices,
        seeds=seeds,
        levels=tuple(levels),
        products=products,
        square=square,
        algebra=algebra,
    )
