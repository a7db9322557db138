"""Truncated algebras: which product of two coefficients lands where.

A series ``c_0 + c_1 e_1 + c_2 e_2 + ...`` is multiplied by multiplying what the ``e_k`` stand for:
powers of one direction, monomials of several columns, or the squares that a Laplacian adds up. A
product that leads out of the algebra is of no interest for the derivatives asked for, so it is
dropped. ``e_0 = 1`` is left out, as its coefficient is the value that the graph knows already.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import product

import torch
from torch import Tensor

from leafgrad._derivative.taylor.constants import made_once

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

    @made_once
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
