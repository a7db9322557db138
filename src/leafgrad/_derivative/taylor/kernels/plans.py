"""Plans: tables of the products of coefficients to sum, and their order.

A stack ``[K, *shape]`` holds the coefficients of a series along its first axis, in ascending order
of their indices. The other axes may have size 1 and are then broadcast. A plan contains places in
such stacks (see `products`) and no tensors, so it is computed once per algebra and tuple of
indices.

There are two kinds of plans. A `Contraction` is the truncated product of two series,

    out_c = sum of left_a right_b, over all a, b whose product in the algebra is c.

A `Recurrence` solves for the coefficients of an elementwise function of a series h degree by
degree. Let d(k) be the degree of the index k. The map c_k -> d(k) c_k satisfies the product rule
and therefore the chain rule. So if the function has the derivative s, its coefficients satisfy

    d(k) y_k = sum of d(i) h_i s_j, over all i, j whose product is k (or i = k, with s_0),

in which each s_j has a lower degree than y_k. In one direction, where indices are powers,
this is the recurrence of Griewank and Walther, Evaluating Derivatives, 2nd edition, SIAM 2008,
chapter 13: ``k y_k = sum_{i=1..k} i h_i s_{k-i}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product as pairs_of

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.taylor.algebra import Algebra, Indices
from leafgrad._derivative.taylor.kernels.products import (
    Product,
    ProductRun,
    Span,
    StackViews,
    TracedCoefficients,
    common_shape,
    product_runs,
    span_of,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Contraction:
    """The products of two stacks of coefficients, as tables for each of the three stacks.

    The sum of ``left[a] * right[b] * out[c]`` over all products is linear in each stack, so its
    derivative with respect to one stack is a sum over the same products. The stacks are numbered
    slots: 0 is the left factor, 1 the right factor, 2 the result.

    Attributes:
        products: The places (a, b, c) of each product.
        sizes: The number of coefficients of each stack.
    """

    products: tuple[Product, ...]
    sizes: tuple[int, int, int]

    @lru_cache(maxsize=4096)  # noqa: B019
    def table(self, slot: int, *, is_added: bool = False) -> tuple[ProductRun, ...]:
        """Return the runs that compute the stack in `slot` from the stacks in the other two slots.

        A run is a group of products that one tensor operation can compute.
        If `is_added` is true, the sums are added to the current contents of the stack.
        """
        first, second = (other for other in range(3) if other != slot)
        places = [p[:3] for p in self.products]
        written = set(range(self.sizes[slot])) if is_added else set[int]()
        return product_runs([Product(t[first], t[second], t[slot]) for t in places], written)

    @lru_cache(maxsize=4096)  # noqa: B019
    def untouched(self, slot: int) -> Indices:
        """Return the places in the stack of `slot` that are part of no product."""
        return tuple(sorted(set(range(self.sizes[slot])) - {t[slot] for t in self.products}))


@lru_cache(maxsize=4096)
def contraction(
    algebra: Algebra, left: Indices, right: Indices, out: Indices | None = None
) -> Contraction:
    """Return the plan for the product of series with the indices `left` and `right`.

    The product is truncated to the indices `out`, which are by default all indices of the product.
    """
    out = algebra.with_products(left, right) if out is None else out
    place = {index: number for number, index in enumerate(out)}
    products = [
        Product(a, b, place[algebra.products[i, j]])
        for (a, i), (b, j) in pairs_of(enumerate(left), enumerate(right))
        if algebra.products.get((i, j)) in place
    ]
    return Contraction(products=tuple(products), sizes=(len(left), len(right), len(out)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Degree:
    """The tables of a recurrence for one degree, whose coefficients are at the places P.

    Below, h is the argument, y the solution, s another series with the indices of the solution,
    g a gradient of the solution; i, j, k are places.

    Attributes:
        span: P, which are successive places.
        square: ``y_k += y_i y_j`` for k in P.
        product: ``y_k += h_i s_j`` for j in P: all terms with the factor s_j, once it is known.
        chain: ``y_k += d(i)/d(k) h_i s_j`` for j in P, the integral of s over h.
        vjp: ``h_i += s_j g_k`` for j in P, the transpose of `product`.
        dot: ``sum += s_j g_j`` for j in P.
    """

    span: Span
    square: tuple[ProductRun, ...]
    product: tuple[ProductRun, ...]
    chain: tuple[ProductRun, ...]
    vjp: tuple[ProductRun, ...]
    dot: tuple[ProductRun, ...]


@dataclass(frozen=True, eq=False)
class Power:
    """The plan for computing a power of the argument from the previous power.

    The coefficients of the d-th power below degree d are zero and not stored.

    Attributes:
        first: The place in the solution of the new power's first coefficient.
        step: The argument times the previous power, truncated to the solution's indices.
    """

    first: int
    step: Contraction

    @cached_property
    def reach(self) -> int:
        """The number of leading coefficients of the previous power that `step` multiplies.

        The products with the other coefficients are all truncated.
        """
        return max((1 + product.right for product in self.step.products), default=0)

    @cached_property
    def added(self) -> tuple[ProductRun, ...]:
        """The runs (groups of products, see `products`) that add the new power to the solution."""
        return self.step.table(2, is_added=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class Recurrence:
    """The plan for computing an elementwise function of a series, degree by degree.

    The argument has n coefficients and the solution N >= n. The first n indices of the solution are
    those of the argument.

    Attributes:
        algebra: The algebra of both series.
        argument: The n indices of the argument.
        indices: The N indices of the solution.
        degrees: The tables for each degree, in ascending order.
        product: Argument times solution, truncated to the solution's indices.
        square: Solution times solution, truncated to the same indices.
    """

    algebra: Algebra
    argument: Indices
    indices: Indices
    degrees: tuple[Degree, ...]
    product: Contraction
    square: Contraction

    @cached_property
    def size(self) -> int:
        """N, the number of coefficients of the solution."""
        return len(self.indices)

    def start(self, argument: Tensor, factor: Tensor | float) -> StackViews:
        """Return the stack ``[N, *shape]`` of a solution, starting with `argument` times `factor`.

        The other N - n coefficients are not initialised: the recurrence writes them.
        """
        count = len(self.argument)
        if _autograd.is_intercepted():
            return TracedCoefficients(argument * factor, self.size)
        if count == self.size:
            return StackViews(argument * factor)
        shape: Sequence[int] = argument.shape[1:]
        if isinstance(factor, Tensor):
            shape = common_shape(shape, factor.shape)
        out = argument.new_empty((self.size, *shape))
        torch.mul(argument, factor, out=out[:count])
        return StackViews(out)

    def of_argument(self, stack: Tensor) -> Tensor:
        """Return the coefficients of `stack` that the argument has too, ``[n, *shape]``.

        The stack is ``[N, *shape]``, as that of the solution.
        """
        count = len(self.argument)
        return stack if count == self.size else stack[:count]

    @cached_property
    def is_much_larger(self) -> bool:
        """Whether the solution takes much more memory than the argument, as in a first layer."""
        return 4 * len(self.argument) <= self.size

    @cached_property
    def powers(self) -> tuple[Power, ...]:
        """The plans for the square, the cube and so on of the argument, each from the previous."""
        found = []
        below = self.argument
        for degree in range(2, self.algebra.order + 1):
            above = [index for index in self.indices if self.algebra.degrees[index] >= degree]
            step = contraction(self.algebra, self.argument, below, tuple(above))
            found.append(Power(self.size - len(above), step))
            below = tuple(above)
        return tuple(found)

    @cached_property
    def full(self) -> Recurrence:
        """The plan for a function whose argument is the solution of this one."""
        return recurrence(self.algebra, self.indices)


@lru_cache(maxsize=1024)
def recurrence(algebra: Algebra, argument: Indices) -> Recurrence:
    """Return the plan for an elementwise function of a series with the indices `argument`."""
    indices = algebra.generated(argument)
    product = contraction(algebra, argument, indices, indices)
    square = contraction(algebra, indices, indices, indices)
    degree_at = [algebra.degrees[index] for index in indices]
    given = set(range(len(argument)))
    written, integrated, summed = set(given), set(given), set[int]()
    degrees = []
    for degree in sorted(set(degree_at)):
        places = [place for place, other in enumerate(degree_at) if other == degree]
        known = [t for t in product.products if t.right in places]
        weighted = [t._replace(weight=degree_at[t.left] / degree_at[t.out]) for t in known]
        degrees.append(
            Degree(
                span=span_of((places[0], places[-1])),
                square=_square([t for t in square.products if t.out in places]),
                product=product_runs(known, written),
                chain=product_runs(weighted, integrated),
                vjp=product_runs([Product(t.right, t.out, t.left) for t in known], set(given)),
                dot=product_runs([Product(place, place, 0) for place in places], summed),
            )
        )
    return Recurrence(
        algebra=algebra,
        argument=argument,
        indices=indices,
        degrees=tuple(degrees),
        product=product,
        square=square,
    )


def _square(products: Sequence[Product]) -> tuple[ProductRun, ...]:
    """Return the runs of a square: y_i y_j has weight 2, so y_j y_i is not computed.

    A run is a group of products that one tensor operation can compute. The products are added to
    the current contents of the result.
    """
    halved = [
        t._replace(weight=2 if t.left < t.right else 1) for t in products if t.left <= t.right
    ]
    return product_runs(halved, {t.out for t in halved})
