"""Truncated algebras: which product of two coefficients lands where.

A series ``c_0 + c_1 e_1 + c_2 e_2 + ...``, whose coefficients ``[*shape]`` above order 0 stand in a
stack ``[K, *shape]``, is multiplied by multiplying what the ``e_k`` stand for:

    powers      e_k = t**k of one direction       e_i e_j = e_{i+j}
    monomials   e_a = t_1**a_1 t_2**a_2 ...       e_a e_b = e_{a+b}
    squares     e_1, ..., e_m and e_{m+1}         e_i e_i = e_{m+1} where i <= n, and else 0

A product that leads out of the algebra is of no interest for the derivatives asked for, so it is
dropped. ``e_0 = 1`` is left out, as its coefficient is the value that the graph knows already.

Powers are the truncated Taylor polynomials of Griewank and Walther, Evaluating Derivatives, 2nd
edition, SIAM 2008, chapter 13. Squares carry the first derivatives and half the Laplacian alone, as
the forward Laplacian does: Li et al., A computational framework for neural network-based
variational Monte Carlo with Forward Laplacian, Nature Machine Intelligence 6, 2024. They are the
case of the Laplacian in Dangel, Siebert, Zeinhofer and Walther, Collapsing Taylor Mode Automatic
Differentiation, arXiv 2505.13644.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import product

import torch
from torch import Tensor

from leafgrad._derivative.taylor.constants import make_once

MultiIndex = tuple[int, ...]
Indices = tuple[int, ...]  # of coefficients, in ascending order


@dataclass(frozen=True, kw_only=True, eq=False)
class Algebra:
    """Basis elements by ascending degree, and the product of any two of them that stays inside.

    The degree is what makes differential equations work here: multiplying each coefficient by its
    degree is a derivation, as a derivative is.

    Attributes:
        degrees: d(k), the degree of each basis element.
        products: k for (i, j) where ``e_i e_j = e_k``; what is not there is zero.
    """

    degrees: tuple[int, ...]
    products: dict[tuple[int, int], int]

    @cached_property
    def order(self) -> int:
        """The highest degree."""
        return max(self.degrees)

    def with_products(self, left: Indices, right: Indices) -> Indices:
        """Return the indices of what products of the two lead to."""
        pairs = product(left, right)
        return tuple(sorted({self.products[pair] for pair in pairs if pair in self.products}))

    @lru_cache(maxsize=1024)  # noqa: B019 (algebras are few, and cached themselves)
    def generated(self, indices: Indices) -> Indices:
        """Return the indices that a function of something with these `indices` has."""
        found = set(indices)
        grown = found
        while grown:
            pairs = product(indices, grown)
            grown = {self.products[p] for p in pairs if p in self.products} - found
            found |= grown
        return tuple(sorted(found))

    @make_once
    def degrees_at(
        self, indices: Indices, ndim: int, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """Return the degrees as a tensor ``[len(indices), 1, ..., 1]`` of ``1 + ndim`` axes."""
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
    degrees = tuple(map(sum, basis))
    sums = (
        (place[a], place[b], tuple(map(sum, zip(a, b, strict=True))))
        for a, degree in zip(basis, degrees, strict=True)
        for b in basis[: bisect_right(degrees, degrees[-1] - degree)]
    )
    products = {(a, b): place[c] for a, b, c in sums if c in place}
    return Algebra(degrees=degrees, products=products)


def basis_of(indices: Collection[MultiIndex]) -> list[MultiIndex]:
    """Return multi-indices in the order of the algebra of these monomials."""
    return sorted(indices, key=lambda index: (sum(index), index))


def closure(orders: Collection[MultiIndex]) -> frozenset[MultiIndex]:
    """Return all multi-indices on the way to `orders`, but for the one of order 0."""
    below = {index for order in orders for index in product(*[range(n + 1) for n in order])}
    return frozenset(index for index in below if any(index))


@cache
def squares(directions: int, others: int = 0) -> Algebra:
    """Make the algebra of the Laplacian: directions whose squares are all one and the same.

    Products of two different directions are dropped, so the last coefficient collects half of what
    the second derivatives add up to, and nothing else of second order is computed. The squares of
    some `others` that follow the directions are dropped as well: their first order is all there is.
    """
    last = directions + others
    products = {(direction, direction): last for direction in range(directions)}
    return Algebra(degrees=(1,) * last + (2,), products=products)


@cache
def rays(count: int, order: int) -> Algebra:
    """Make the algebra of several directions, each with its own powers up to `order`.

    Products of different directions are dropped. Power p of direction n is the element
    ``(p - 1) count + n``.
    """
    products = {
        (p * count + n, q * count + n): (p + q + 1) * count + n
        for p in range(order)
        for q in range(order - p - 1)
        for n in range(count)
    }
    degrees = tuple(power for power in range(1, order + 1) for _ in range(count))
    return Algebra(degrees=degrees, products=products)
