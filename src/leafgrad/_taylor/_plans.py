"""Plans: which products of given coefficients are to be added up, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

from torch import Tensor

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
    span: slice | int
    chain: tuple[Strip, ...]  # argument's coefficients times these
    mixed: tuple[Strip, ...]  # these times lower ones, or times each other
    equal: tuple[Strip, ...]  # these times themselves


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
    def is_first_order(self) -> bool:
        """Whether all coefficients of the argument have degree 1."""
        return all(self.algebra.degrees[index] == 1 for index in self.argument)

    @cached_property
    def is_short(self) -> bool:
        """Whether there is no degree above 2, where one weight does for all products."""
        return self.levels[-1].degree <= 2  # noqa: PLR2004

    @property
    def weight(self) -> float:
        """What products of the argument and the solution are weighted with."""
        return 0.5 if self.is_short else 1

    def divisor(self, level: Level) -> int:
        """By what the sum of such products, as `start` began it, is to be divided."""
        return 1 if self.is_short else level.degree

    def start(self, solution: Tensor, argument: Tensor) -> Tensor:
        """Write the argument, each coefficient times its degree, to where the solution has it."""
        weighted = self.weighted(argument)
        self.place(solution, weighted)
        return weighted

    def weighted(self, argument: Tensor) -> Tensor:
        """Multiply each coefficient of the argument by its degree."""
        if self.is_short or self.is_first_order:
            return argument
        ndim, dtype, device = argument.dim() - 1, argument.dtype, argument.device
        return argument * self.algebra.degrees_at(self.argument, ndim, dtype, device)

    def place(self, solution: Tensor, argument: Tensor) -> None:
        """Write the argument to where the solution has its coefficients."""
        solution.narrow(0, 0, len(self.argument)).copy_(argument)

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
    written, squared = set(range(len(argument))), set[int]()
    levels = []
    for degree in sorted({algebra.degrees[index] for index in indices}):
        at = [n for n, index in enumerate(indices) if algebra.degrees[index] == degree]
        where = span((at[0], at[-1]))
        chain = [t for t in products.triples if t[1] in at]
        mixed = [t for t in square.triples if t[1] in at and t[0] < t[1]]
        equal = [t for t in square.triples if t[1] in at and t[0] == t[1]]
        levels.append(
            Level(
                degree=degree,
                span=where,
                chain=strips(chain, written),
                mixed=strips(mixed, squared),
                equal=strips(equal, squared),
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
