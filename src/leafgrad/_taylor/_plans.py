"""Plans: which products of given coefficients are to be added up, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

from leafgrad._taylor._algebra import Algebra, Indices
from leafgrad._taylor._strips import Strip, Triple, span, strips


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
        triples = [Triple(t[first], t[second], t[slot]) for t in self.triples]
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
        Triple(a, b, place[algebra.products[i, j]])
        for (a, i), (b, j) in product(enumerate(left), enumerate(right))
        if algebra.products.get((i, j)) in place
    ]
    return Contraction(triples=tuple(triples), sizes=(len(left), len(right), len(out)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Level:
    """The coefficients of one degree: what leads to them, and what becomes known once they are."""

    span: slice | int
    squares: tuple[Strip, ...]  # lower ones times each other, for these
    products: tuple[Strip, ...]  # the argument's times these
    chain: tuple[Strip, ...]  # the same, as the integral of the argument's derivative times these


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

    @cached_property
    def known_slope(self) -> int:
        """The number of coefficients below the highest degree, which is all a slope must have."""
        top = self.levels[-1].span
        return top if isinstance(top, int) else top.start

    @cached_property
    def squares(self) -> tuple[Strip, ...]:
        """Add up all the squares of a solution, on top of what is there."""
        return _added(_halved(self.square.triples))

    @cached_property
    def pullback(self) -> tuple[Strip, ...]:
        """Lead from a slope and the gradient of a solution to that of the argument.

        In front of it comes the sum of the products of corresponding coefficients, which is the
        gradient of the argument at order 0.
        """
        to_argument = [Triple(j, k, i + 1) for i, j, k, _ in self.products.triples]
        to_value = [Triple(k, k, 0) for k in range(self.size)]
        return strips(to_value + to_argument, set(range(1, len(self.argument) + 1)))

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
    multiplied, integrated = set(range(len(argument))), set(range(len(argument)))
    levels = []
    for degree in sorted(set(degrees)):
        at = [place for place, other in enumerate(degrees) if other == degree]
        known = [t for t in products.triples if t.right in at]
        weighted = [t._replace(weight=degrees[t.left] / degrees[t.out]) for t in known]
        levels.append(
            Level(
                span=span((at[0], at[-1])),
                squares=_added(_halved(t for t in square.triples if t.out in at)),
                products=strips(known, multiplied),
                chain=strips(weighted, integrated),
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


def _halved(triples: Iterable[Triple]) -> Iterator[Triple]:
    """Count products of two different ones once, but twice as much."""
    for triple in triples:
        if triple.left <= triple.right:
            yield triple._replace(weight=1 if triple.left == triple.right else 2)


def _added(triples: Iterable[Triple]) -> tuple[Strip, ...]:
    """Join triples to strips that are added to what is there."""
    triples = list(triples)
    return strips(triples, {triple.out for triple in triples})
