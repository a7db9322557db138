"""Truncated algebras: the multiplication tables of the basis elements of series.

A series is ``c_0 + c_1 e_1 + c_2 e_2 + ...``. Its coefficients ``[*shape]`` above order 0 form a
stack ``[K, *shape]``. The algebra defines the products of the basis elements ``e_k``:

    powers      e_k = t**k of one direction       e_i e_j = e_{i+j}
    rays        the powers of several directions  as powers, 0 for different directions
    monomials   e_a = t_1**a_1 t_2**a_2 ...       e_a e_b = e_{a+b}
    squares     e_1, ..., e_m and e_{m+1}         e_i e_i = e_{m+1} for i <= n, otherwise 0

In squares, n is the number of directions of the Laplacian, and m >= n that of first derivatives.
A product outside the algebra does not contribute to the requested derivatives, so it is dropped.
``e_0 = 1`` is omitted, because its coefficient is the tensor's value, which the graph contains.

Powers are the truncated Taylor polynomials of Griewank and Walther, Evaluating Derivatives, 2nd
edition, SIAM 2008, chapter 13. Squares carry only the first derivatives and half the Laplacian, as
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
Indices = tuple[int, ...]  # the numbers of basis elements, in ascending order


@dataclass(frozen=True, kw_only=True, eq=False)
class Algebra:
    """The basis elements of series, in ascending degree, and their multiplication table.

    Multiplying each coefficient by its degree is a derivation: like a derivative, it satisfies the
    product rule. The recurrences of elementwise functions are based on it (see `kernels.plans`).

    Attributes:
        degrees: d(k), the degree of each basis element.
        products: Maps (i, j) to k if ``e_i e_j = e_k``. All other products are zero.
    """

    degrees: tuple[int, ...]
    products: dict[tuple[int, int], int]

    @cached_property
    def order(self) -> int:
        """The highest degree."""
        return max(self.degrees)

    def with_products(self, left: Indices, right: Indices) -> Indices:
        """Return the indices of all products of a basis element in `left` and one in `right`."""
        pairs = product(left, right)
        return tuple(sorted({self.products[pair] for pair in pairs if pair in self.products}))

    @lru_cache(maxsize=1024)  # noqa: B019 (there are few algebras, and they are cached)
    def generated(self, indices: Indices) -> Indices:
        """Return the indices of an elementwise function of a series with these `indices`.

        They are `indices` and the indices of all their products.
        """
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
        """Return the degrees of `indices` as a tensor ``[len(indices), 1, ..., 1]``.

        It has ``1 + ndim`` axes, so it broadcasts to a stack ``[K, *shape]`` if the shape has
        `ndim` axes.
        """
        degrees = [self.degrees[index] for index in indices]
        with torch.inference_mode(mode=False):
            return torch.tensor(degrees, dtype=dtype, device=device).reshape(-1, *[1] * ndim)


@cache
def powers(order: int) -> Algebra:
    """Return the algebra of one direction: the powers of one variable up to `order`."""
    return monomials(frozenset((power,) for power in range(1, order + 1)))


@lru_cache(maxsize=64)
def monomials(indices: frozenset[MultiIndex]) -> Algebra:
    """Return the algebra of several columns, with one basis element for each multi-index.

    If `indices` contains a multi-index, it must also contain all lower ones except zero (see
    `closure`).
    """
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
    """Sort multi-indices by degree, then lexicographically: the basis order of their algebra."""
    return sorted(indices, key=lambda index: (sum(index), index))


def closure(orders: Collection[MultiIndex]) -> frozenset[MultiIndex]:
    """Return all multi-indices, except zero, whose entries are at most those of one of `orders`."""
    below = {index for order in orders for index in product(*[range(n + 1) for n in order])}
    return frozenset(index for index in below if any(index))


@cache
def squares(directions: int, others: int = 0) -> Algebra:
    """Return the algebra of the Laplacian, in which all directions have the same square.

    Products of two different directions are zero. So the last coefficient is half the sum of the
    second derivatives along the directions, and no other second derivative is computed. `others` is
    the number of further directions of which only first derivatives are computed: their squares are
    zero.
    """
    last = directions + others
    products = {(direction, direction): last for direction in range(directions)}
    return Algebra(degrees=(1,) * last + (2,), products=products)


@cache
def rays(count: int, order: int) -> Algebra:
    """Return the algebra of several directions, each with its own powers up to `order`.

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
