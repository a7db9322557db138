"""Plans: which products of given coefficients are to be added up, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import torch
from torch import Tensor

from leafgrad._derivative.taylor.algebra import Algebra, Indices
from leafgrad._derivative.taylor.kernels.strips import (
    Place,
    Strip,
    Triple,
    common_shape,
    span,
    strips,
)


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
        places = [triple[:3] for triple in self.triples]
        return strips([Triple(t[first], t[second], t[slot]) for t in places], set())

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
        Triple(a, b, place[algebra.products[i, j]])
        for (a, i), (b, j) in product(enumerate(left), enumerate(right))
        if algebra.products.get((i, j)) in place
    ]
    return Contraction(triples=tuple(triples), sizes=(len(left), len(right), len(out)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Level:
    """The coefficients of one degree: what leads to them, and what becomes known once they are."""

    first: int
    span: Place
    squares: tuple[Strip, ...]  # lower ones times each other, for these
    products: tuple[Strip, ...]  # the argument's times these
    chain: tuple[Strip, ...]  # the same, as the integral of the argument's derivative times these
    pullback: tuple[Strip, ...]  # these of a slope times a gradient, for that of the argument
    dot: tuple[Strip, ...]  # each of these times the same of another stack, for one sum of all


@dataclass(frozen=True, kw_only=True, eq=False)
class Recursion:
    """How to solve a differential equation for a function of a series, degree by degree.

    A series has all coefficients up to some degree, so those of the argument come first.
    """

    algebra: Algebra
    argument: Indices
    indices: Indices  # of the solution
    levels: tuple[Level, ...]
    products: Contraction  # argument times solution
    square: Contraction  # solution times solution

    @cached_property
    def size(self) -> int:
        """The number of coefficients of the solution."""
        return len(self.indices)

    def begun(self, argument: Tensor, factor: Tensor | float) -> Tensor:
        """Give the argument times a factor, with places for all coefficients of the solution.

        What the argument does not have is to be written.
        """
        count = len(self.argument)
        if count == self.size:
            return argument * factor
        shape: Sequence[int] = argument.shape[1:]
        if isinstance(factor, Tensor):
            shape = common_shape(shape, factor.shape)
        begun = argument.new_empty((self.size, *shape))
        torch.mul(argument, factor, out=begun[:count])
        return begun

    def given(self, stack: Tensor) -> Tensor:
        """Give those coefficients of a stack like the solution that the argument has as well."""
        count = len(self.argument)
        return stack if count == self.size else stack[:count]

    @cached_property
    def makes_much_of_little(self) -> bool:
        """Whether the solution takes much more memory than the argument, as in a first layer."""
        return 4 * len(self.argument) <= self.size

    @cached_property
    def full(self) -> Recursion:
        """The plan for a function of the solution."""
        return recursion(self.algebra, self.indices)


@lru_cache(maxsize=1024)
def recursion(algebra: Algebra, argument: Indices) -> Recursion:
    """Plan the recursion for an elementwise function of a series with these indices."""
    indices = algebra.generated(argument)
    products = contraction(algebra, argument, indices, indices)
    square = contraction(algebra, indices, indices, indices)
    degrees = [algebra.degrees[index] for index in indices]
    given = set(range(len(argument)))
    multiplied, integrated, summed = set(given), set(given), set[int]()
    levels = []
    for degree in sorted(set(degrees)):
        at = [place for place, other in enumerate(degrees) if other == degree]
        known = [t for t in products.triples if t.right in at]
        levels.append(
            Level(
                first=at[0],
                span=span((at[0], at[-1])),
                squares=_squares([t for t in square.triples if t.out in at]),
                products=strips(known, multiplied),
                chain=strips(_integrated(known, degrees), integrated),
                pullback=strips([Triple(t.right, t.out, t.left) for t in known], set(given)),
                dot=strips([Triple(place, place, 0) for place in at], summed),
            )
        )
    return Recursion(
        algebra=algebra,
        argument=argument,
        indices=indices,
        levels=tuple(levels),
        products=products,
        square=square,
    )


def _integrated(products: Iterable[Triple], degrees: Sequence[int]) -> list[Triple]:
    """Weigh products of an argument's derivative and a slope as the integral does."""
    return [Triple(*t[:3], weight=degrees[t.left] / degrees[t.out]) for t in products]


def _squares(products: Iterable[Triple]) -> tuple[Strip, ...]:
    """Count products of two different ones once, but twice as much; add them to what is there."""
    halved = [Triple(*t[:3], weight=1 + (t.left < t.right)) for t in products if t.left <= t.right]
    return strips(halved, {t.out for t in halved})
