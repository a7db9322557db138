"""Rules for determinants, inverses, linear systems, Cholesky factors and eigenvalues.

Let A ``[..., n, n]`` be a value, H ``[K, ..., n, n]`` its series, N = A^-1 H (of the shape of H),
and d(k) the degree of the index k. In one direction, the recurrences are

    solution    (A + H) X = B       X_k = (A^-1 B_k - N_k X_0) - sum_{j<k} N_{k-j} X_j
    inverse     Y = (I + N)^-1 - I      Y_k = -N_k - sum_{j<k} N_{k-j} Y_j
    log det     l = log det(I + N)  k l_k = k tr N_k + sum_{j<k} j tr(N_j Y_{k-j})
    Cholesky    L (I + F) for A + H     F_k = low(M_k - sum_{j<k} F_j F_{k-j}^T)
    exponential                         by one exponential of a matrix of blocks
    eigenpairs  V (I + F), Λ + D        F_k Λ - Λ F_k + D_k = M_k + ...

with M = L^-1 H L^-T, and low(M) for the lower triangle of M with half of its diagonal. The third is
the integral of Jacobi's formula, d log det A = tr(A^-1 dA). The matrix equations are solved degree
by degree: Walter and Lehmann, Algorithmic differentiation of linear algebra functions with
application in optimum experimental design, arXiv 1001.1654.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from leafgrad._derivative.taylor import jet as jets
from leafgrad._derivative.taylor.algebra import Algebra, Indices
from leafgrad._derivative.taylor.jet import Jet, add
from leafgrad._derivative.taylor.kernels.plans import Contraction, contraction
from leafgrad._derivative.taylor.matrix_products import constant_times, joined, times_constant
from leafgrad._derivative.taylor.readable import may_read
from leafgrad._derivative.taylor.rule import Rule, Step
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import unsupported_if

Solve = Callable[[Series], Series]  # multiplies each coefficient [K, ..., n, m] by A^-1

# --- Determinants

# Up to this size, a determinant computed by products has an error of at most 100 times the rounding
# error of its largest product. Larger determinants are computed from their logarithm.
_BY_PRODUCTS = 8


def _determinant(step: Step, x: Series) -> Series | None:
    """Return the determinant, ``[K, ...]``.

    Small matrices use a sum of products. For larger ones, the determinant is the exponential of its
    logarithm. Near a singular matrix, the logarithm loses digits, and it fails for a singular one.
    None stands for a series that is zero.
    """
    value = step.tensor("A")
    if 0 < value.shape[-1] <= _BY_PRODUCTS:
        return _determinant_by_products(Jet(value, x)).series
    return jets.exp_of(_log_of_determinant(value, x)).scaled(step.tensor("result"))


def _log_of_determinant(value: Tensor, x: Series) -> Series:
    """Return ``log det(A + H) - log det(A)``, ``[K, ...]``.

    `value` is A, and `x` is the series H. The trace of a product is computed from its diagonal
    only, without the whole product.
    """
    n = _times_inverse(value)(x)
    slope = n.weighted()
    diagonal = slope.full(-2, -1).diagonal(dim1=-2, dim2=-1)
    trace = slope.changed(diagonal.sum(-1), shape=x.shape[:-2])
    factors = _factors(n.algebra, n.indices)
    if not factors:
        return trace.unweighted()
    inverse = _solve_recurrence(n, -n, factors)
    products = n.changed(n.stack[:0], indices=()).plus_product(inverse, slope.transposed())
    return (trace + products.summed([-2, -1], keepdim=False)).unweighted()


@lru_cache(maxsize=1024)
def _factors(algebra: Algebra, indices: Indices) -> Indices:
    """Return those indices of a function of a series that have a product with one of `indices`.

    `indices` are those of the series. The recurrence reads only the coefficients of the function at
    the returned indices.
    """
    found = algebra.generated(indices)
    return tuple(j for j in found if any((i, j) in algebra.products for i in indices))


def _determinant_by_products(x: Jet) -> Jet:
    """Return the determinant of a jet, ``[...]``, computed without a division.

    It is the first element of ``mu(...mu(mu(A) A)... A) A``, up to its sign, by Bird, A simple
    division-free algorithm for computing determinants, Information Processing Letters 111, 2011.
    """
    size, power = x.value.shape[-1], x
    for _ in range(size - 1):
        turned = Jet(_mu(power.value), power.series and linear(_mu, power.series))
        power = turned @ x
    sign = -1 if size % 2 == 0 else 1
    corner = power.series and power.series.selected(-1, 0).selected(-1, 0)
    return Jet(power.value[..., 0, 0], corner) * sign


def _mu(matrix: Tensor) -> Tensor:
    """Return mu of Bird's algorithm for a matrix ``[..., n, n]``: a triangular matrix.

    It equals the given matrix above the diagonal. Each diagonal element is minus the sum of the
    later diagonal elements.
    """
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    after = diagonal.flip(-1).cumsum(-1).flip(-1) - diagonal
    return matrix.triu(1) - after.diag_embed()


def linear(function: Callable[[Tensor], Tensor], x: Series) -> Series:
    """Return the series of `function(A)` for a linear function that keeps the shape of matrices."""
    return x.changed(function(x.full(-2, -1)))


# --- Inverses and systems of equations


def _invert(step: Step, x: Series) -> Series:
    """Return the inverse of a matrix, ``[K, ..., n, n]``."""
    inverse = step.tensor("inverse")
    n = constant_times(inverse, x)
    return _solve_recurrence(n, -times_constant(n, inverse))


def _solve(step: Step, a: Series | None, b: Series | None) -> Series | None:
    """Return the series of X, the solution of ``A X = B`` or ``X A = B``, None if it is zero.

    It is ``[K, ..., n, m]``, or ``[K, ..., n]`` if B is a vector.
    """
    value, result = step.tensor("A"), step.tensor("result")
    if step.saved("left"):
        return solution(solver_of(value), value, a, b, result)
    a, b = (series and series.transposed() for series in (a, b))
    series = solution(solver_of(value.mT), value, a, b, result.mT)
    return series and series.transposed()


def _solve_triangular(step: Step, a: Series | None, b: Series | None) -> Series | None:
    """Return the series of X for ``A X = B`` or ``X A = B`` with a triangular A, None if zero.

    It is ``[K, ..., n, m]``.
    """
    value, result, upper = step.tensor("self"), step.tensor("result"), step.saved("upper")
    is_unit = step.saved("unitriangular")
    if a is not None:
        first = 1 if is_unit else 0
        a = linear(lambda t: t.triu(first) if upper else t.tril(-first), a)
    left = step.saved("left")
    if not left:
        a, b = (series and series.transposed() for series in (a, b))
        value, result, upper = value.mT, result.mT, not upper
    solve = solve_columns(
        lambda columns: torch.linalg.solve_triangular(
            value, columns, upper=upper, unitriangular=is_unit
        )
    )
    series = solution(solve, value, a, b, result)
    return series if left or series is None else series.transposed()


def solution(
    solve: Solve, value: Tensor, a: Series | None, b: Series | None, result: Tensor
) -> Series | None:
    """Return the series of X, the solution of ``A X = B``, None if it is zero.

    Args:
        solve: Multiplies a series by A^-1.
        value: The value of A, ``[..., n, n]``.
        a: The series of A, ``[K, ..., n, n]``.
        b: The series of B, ``[K, ..., n, m]``, or ``[K, ..., n]`` for vectors. The returned series
            has the same form.
        result: The value of X, ``[..., n, m]`` or ``[..., n]``.
    """
    if result.dim() < value.dim():
        b = b and b.viewed((*b.shape, 1))
        series = solution(solve, value, a, b, result.unsqueeze(-1))
        return series and series.viewed(series.shape[:-1])
    batch, (rows, columns) = result.shape[:-2], result.shape[-2:]
    start = b and solve(b.broadcast((*batch, rows, columns)))
    if a is None:
        return start
    n = solve(a.broadcast((*batch, rows, rows)))
    start = add(start, -times_constant(n, result))
    return start and _solve_recurrence(n, start)


def solver_of(value: Tensor) -> Solve:
    """Return a function that multiplies series by the inverse of a value ``[..., n, n]``.

    The function raises `Unsupported` if the value is singular.
    """

    def solve(columns: Tensor) -> Tensor:
        solution: Tensor
        solution, failed = torch.linalg.solve_ex(value, columns)
        _check_inverse(failed)
        return solution

    return solve_columns(solve)


def _times_inverse(value: Tensor) -> Solve:
    """Return a function like that of `solver_of`, but with an explicit inverse of the value.

    This is faster for many columns.
    """
    inverse, failed = torch.linalg.inv_ex(value)
    _check_inverse(failed)
    return solve_columns(lambda columns: inverse @ columns)


def _check_inverse(failed: Tensor) -> None:
    """Raise `Unsupported` if one of the matrices was singular.

    `failed`, ``[...]``, is not zero for such a matrix.
    """
    unsupported_if(may_read(failed) and bool(failed.any()), "singular")


def solve_columns(solve: Callable[[Tensor], Tensor]) -> Solve:
    """Return a function of series ``[K, ..., n, m]`` that calls `solve` once for all coefficients.

    `solve` maps columns ``[..., n, m]`` to columns.
    """

    def solved(x: Series) -> Series:
        columns = x.full(-2, -1).movedim(0, -2)
        solution = solve(columns.flatten(-2)).unflatten(-1, columns.shape[-2:])
        return x.changed(solution.movedim(-2, 0))

    return solved


# --- Cholesky factors


def _cholesky(step: Step, x: Series) -> Series:
    """Return the Cholesky factor of a symmetric matrix, ``[K, ..., n, n]``."""
    value = step.tensor("L")
    lower = value.mT if step.saved("upper") else value
    solve = solve_columns(
        lambda columns: torch.linalg.solve_triangular(lower, columns, upper=False)
    )
    half = solve((x + x.transposed()).scaled(0.5)).transposed()
    series = constant_times(lower, _root(solve(half)))
    return series.transposed() if step.saved("upper") else series


def _root(m: Series) -> Series:
    """Return the triangular F, in the shape of M, with ``(I + F) (I + F)^T = I + M``."""
    indices = m.algebra.generated(m.indices)
    pairs = pairs_of(contraction(m.algebra, indices, indices, indices))
    known = dict(zip(m.indices, m.stack.unbind(0), strict=True))
    found: list[Tensor] = []
    for place, index in enumerate(indices):
        left = [found[a] for a, _ in pairs[place]]
        right = [found[b].mT for _, b in pairs[place]]
        total = minus_products(known.get(index, 0), left, right)
        found.append(total.tril() - total.diagonal(dim1=-2, dim2=-1).diag_embed() / 2)
    return stack_coefficients(m, found, indices)


# --- Exponentials


def _exponential(step: Step, x: Series) -> Series:
    """Return the exponential of a matrix, ``[K, ..., n, n]``.

    It is read from the exponential of one large matrix of blocks, which represents multiplication
    by the series. The value is on the diagonal. A coefficient is in each block whose row index is
    the product of the coefficient's index and the column index. The first block column of the
    exponential contains the coefficients of the result: Mathias, A chain rule for matrix functions
    and applications, SIAM Journal on Matrix Analysis and Applications 17, 1996.
    """
    if not x.indices:
        return x
    value, size = step.tensor("self"), x.shape[-1]
    indices, unit = x.algebra.generated(x.indices), _unit(x)
    given = (x.full() * unit ** -x.degrees()).unbind(0)
    zero = torch.zeros_like(given[0])
    blocks = [[zero] * (len(indices) + 1) for _ in range(len(indices) + 1)]
    for place, row in enumerate(blocks):
        row[place] = value.to(zero.dtype)
    for index, coefficient in zip(x.indices, given, strict=True):
        blocks[indices.index(index) + 1][0] = coefficient
    for left, right, out, _ in contraction(x.algebra, x.indices, indices, indices).products:
        blocks[out + 1][right + 1] = blocks[out + 1][right + 1] + given[left]
    whole = torch.cat([torch.cat(row, -1) for row in blocks], -2).matrix_exp()
    column = whole[..., size:, :size].unflatten(-2, (len(indices), size))
    result = x.changed(column.movedim(-3, 0), indices=indices)
    return result.changed(result.stack * unit ** result.degrees())


def _unit(x: Series) -> Tensor:
    """Return a power of two for each matrix, ``[..., 1, 1]``: the unit of its coefficients.

    Coefficients of degree d are at most 1 after division by the d-th power of the unit. The
    rounding errors of the exponential are relative to its largest block, so this keeps them small.
    """
    largest = x.full().detach().abs().amax((-2, -1), keepdim=True)
    exponent = (largest.log2() / x.degrees()).amax(0).ceil()
    return torch.exp2(torch.where(exponent.isfinite(), exponent, 0))


# --- Eigenvalues


def _eigenpairs(step: Step, x: Series) -> list[Series]:
    """Return the eigenvalues, ``[K, ..., n]``, and the eigenvectors of a symmetric matrix.

    Let Λ and V be the values of both. With M = V^T H V, the eigenvectors are V (I + F) and the
    eigenvalues Λ + D, where ``(Λ + M) (I + F) = (I + F) (Λ + D)`` and I + F is orthogonal. Let R_k
    be the sum of ``M_{k-j} F_j - F_j D_{k-j}`` over j < k. Then
    ``F_k Λ - Λ F_k = M_k + R_k - D_k``.
    """
    values, vectors = step.tensor("eigenvalues"), step.tensor("eigenvectors")
    is_even = torch.allclose(x.full(-2, -1), x.full(-2, -1).mT) if may_read(x.stack) else True
    unsupported_if(not is_even, "not-symmetric")
    m = times_constant(constant_times(vectors.mT, x), vectors)
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    gaps = gaps + torch.eye(x.shape[-1], dtype=gaps.dtype, device=gaps.device)
    indices = m.algebra.generated(m.indices)
    pairs = pairs_of(contraction(m.algebra, indices, indices, indices))
    known = dict(zip(m.indices, m.full().unbind(0), strict=True))
    moved: list[Tensor] = []
    turned: list[Tensor] = []
    for place, index in enumerate(indices):
        total = known.get(index, torch.zeros_like(gaps))
        overlap = torch.zeros_like(values)
        for one, two in pairs[place]:
            if indices[one] in known:
                total = total + known[indices[one]] @ turned[two]
            total = total - turned[one] * moved[two].unsqueeze(-2)
            overlap = overlap + (turned[one] * turned[two]).sum(-2)
        moved.append(total.diagonal(dim1=-2, dim2=-1))
        beside = total - moved[-1].diag_embed()
        turned.append(beside / gaps - overlap.diag_embed() / 2)
    eigenvalues = m.changed(
        stack_coefficients(m, moved, indices).stack if moved else m.stack[..., 0],
        shape=values.shape,
        indices=indices,
    )
    return [eigenvalues, constant_times(vectors, stack_coefficients(m, turned, indices))]


# --- Recurrences, solved degree by degree


def _solve_recurrence(n: Series, start: Series, indices: Indices | None = None) -> Series:
    """Return Z with ``Z_k = S_k - sum_j N_{k-j} Z_j``, at `indices` or at all indices of Z.

    S is `start`. S and Z are ``[K, ..., n, m]``. N is ``[K, ..., n, n]`` and broadcasts to the
    batch axes of S.
    """
    if indices is None:
        indices = _reachable_indices(n.algebra, n.indices, start.indices)
    pairs = pairs_of(contraction(n.algebra, n.indices, indices, indices))
    factors = n.stack.unbind(0)
    known = dict(zip(start.indices, start.full(-2).unbind(0), strict=True))
    found: list[Tensor] = []
    for place, index in enumerate(indices):
        left = [factors[a] for a, _ in pairs[place]]
        right = [found[b] for _, b in pairs[place]]
        found.append(minus_products(known.get(index, 0), left, right))
    return stack_coefficients(start, found, indices)


def stack_coefficients(like: Series, found: list[Tensor], indices: Indices) -> Series:
    """Return a series of the coefficients in `found`, in the shape of `like`.

    `indices` are their indices. There may be none.
    """
    return like.changed(torch.stack(found) if found else like.stack[:0], indices=indices)


def minus_products(start: Any, left: list[Tensor], right: list[Tensor]) -> Any:
    """Return ``start - sum_p left_p right_p`` for matrices, by one product.

    `start` may be 0. If there are no products, return `start`.
    """
    return start - joined(left, -1) @ joined(right, -2) if left else start


def pairs_of(plan: Contraction) -> defaultdict[int, list[tuple[int, int]]]:
    """Return a dict from the place of each product in `plan` to the places of its pairs of factors.

    A place is the position of a coefficient in its stack.
    """
    pairs: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for left, right, out, _ in plan.products:
        pairs[out].append((left, right))
    return pairs


@lru_cache(maxsize=1024)
def _reachable_indices(algebra: Algebra, factor: Indices, start: Indices) -> Indices:
    """Return `start` and the indices of all products of `start` with powers of the `factor`."""
    found, grown = set(start), set(start)
    while grown:
        grown = {*algebra.with_products(factor, tuple(grown))} - found
        found |= grown
    return tuple(sorted(found))


RULES: dict[str, Rule] = {
    "LinalgDetBackward0": Rule(_determinant),
    # The first result is the sign of the determinant. It is constant, so its series is None.
    "LinalgSlogdetBackward0": Rule(
        lambda step, x: [None, _log_of_determinant(step.tensor("A"), x)]
    ),
    "LinalgInvExBackward0": Rule(_invert),
    "LinalgSolveExBackward0": Rule(_solve),
    "LinalgSolveTriangularBackward0": Rule(_solve_triangular),
    "LinalgCholeskyExBackward0": Rule(_cholesky),
    "LinalgMatrixExpBackward0": Rule(_exponential),
    "LinalgEighBackward0": Rule(_eigenpairs),
}
