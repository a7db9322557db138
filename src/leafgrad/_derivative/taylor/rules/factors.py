"""Rules for factors of matrices, and for what they solve: QR, LU, singular values, least squares.

Of a value A ``[..., m, n]`` and its series H ``[K, ..., m, n]``, the coefficients of factors are
solved for degree by degree. With what products of lower ones leave of H_k, such as
``S_k = H_k - sum_{0<j<k} Q_j R_{k-j}``, these are linear equations:

    QR     Q^T S_k R^-1 = Q^T Q_k + R_k R^-1, where the last is an upper triangle
    LU     L^-1 S_k U^-1 = L^-1 L_k + U_k U^-1, a triangle below the diagonal and one above
    SVD    U^T S_k V = (U^T U_k) D + D_k + D (V^T V_k)^T, where D is diagonal

Columns stay orthogonal: ``Q^T Q_k + Q_k^T Q = -sum_{0<j<k} Q_j^T Q_{k-j}``, and so for U and V.
Equations that hold for matrices are solved so by Walter and Lehmann, Algorithmic differentiation of
linear algebra functions with application in optimum experimental design, arXiv 1001.1654.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from leafgrad._derivative.taylor.kernels.plans import contraction
from leafgrad._derivative.taylor.looks import may_look
from leafgrad._derivative.taylor.rule import Rule, Step
from leafgrad._derivative.taylor.rules.matrices import (
    Solve,
    columns_solved,
    linear,
    minus_products,
    pairs_of,
    solution,
    solved_by,
    stacked,
)
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import unsupported_if

Pairs = Sequence[tuple[int, int]]  # places of two coefficients whose product has the next degree

# --- Factors


def _orthogonal_and_triangle(step: Step, x: Series) -> list[Series]:
    """Return Q, ``[K, ..., m, p]``, and R, ``[K, ..., p, n]``, p being the smaller of m and n."""
    q, r = step.tensor("Q"), step.tensor("R")
    size = min(x.shape[-2:])
    unsupported_if(q.shape[-1] != size, "it adds columns to those of the matrix")
    qs: list[Tensor] = []
    rs: list[Tensor] = []
    for start, pairs in _by_degree(x):
        left = _less(start, pairs, qs, rs)
        turned = torch.linalg.solve_triangular(
            r[..., :size], left[..., :size], upper=True, left=False
        )
        inner = q.mT @ turned
        below = inner.tril(-1)
        turn = below - below.mT + _upper_half(_less(_zeros(x, size), pairs, _mT(qs), qs))
        qs.append(q @ turn + turned - q @ inner)
        rs.append((q.mT @ (left - qs[-1] @ r)).triu())
    return [_factor(x, qs, q), _factor(x, rs, r)]


def _upper_half(symmetric: Tensor) -> Tensor:
    """Return the triangle that, with its transpose, adds up to a symmetric matrix."""
    return symmetric.triu() - _half_diagonal(symmetric)


def _half_diagonal(matrix: Tensor) -> Tensor:
    """Return a matrix of half the diagonal alone."""
    return matrix.diagonal(dim1=-2, dim2=-1).diag_embed() / 2


def _two_triangles(step: Step, x: Series) -> list[Series]:
    """Return L and U, ``[K, ..., n, n]``, of ``A = P L U``, where the permutation P stays."""
    lower, upper, exchanged = step.tensor("L"), step.tensor("U"), step.tensor("P").mT
    is_plain = exchanged.shape == upper.shape
    unsupported_if(not is_plain, "its matrix is not square, or its rows stay where they are")
    below: list[Tensor] = []
    above: list[Tensor] = []
    for start, pairs in _by_degree(x):
        left = _less(exchanged @ start, pairs, below, above)
        half = torch.linalg.solve_triangular(lower, left, upper=False, unitriangular=True)
        both = torch.linalg.solve_triangular(upper, half, upper=True, left=False)
        below.append(lower @ both.tril(-1))
        above.append(both.triu() @ upper)
    return [_factor(x, below, lower), _factor(x, above, upper)]


def _singular_values(step: Step, x: Series) -> list[Series]:
    """Return U, ``[K, ..., m, p]``, the singular values D, ``[K, ..., p]``, and V^T.

    What turns the columns of U and those of V is solved for two elements at a time: (i, j) and
    (j, i) of ``(U^T U_k) D - D (V^T V_k)`` are known. Where U or V is not square, the rest of its
    columns is what D multiplies.
    """
    u, d, vt = step.tensor("U"), step.tensor("S"), step.tensor("Vh")
    size = d.shape[-1]
    unsupported_if(max(u.shape[-1], vt.shape[-2]) > size, "it adds columns to singular ones")
    rows, columns = d.unsqueeze(-1), d.unsqueeze(-2)
    zeros, is_diagonal = _zeros(x, size), torch.eye(size, dtype=torch.bool, device=d.device)
    gaps = ((columns - rows) * (columns + rows)).masked_fill(is_diagonal, 1)
    us: list[Tensor] = []
    ds: list[Tensor] = []
    vts: list[Tensor] = []
    products: list[Tensor] = []  # of U and D
    for start, pairs in _by_degree(x):
        cross = sum((us[a] * ds[b].unsqueeze(-2) for a, b in pairs), torch.zeros_like(u))
        left = _less(start - cross @ vt, pairs, products, vts)
        inner = u.mT @ left @ vt.mT
        of_u = _less(zeros, pairs, _mT(us), us)
        of_v = _less(zeros, pairs, vts, _mT(vts))
        one = inner - rows * of_v
        two = one.mT - rows * of_u + columns * of_v
        turn_u = ((columns * one + rows * two) / gaps).masked_fill(is_diagonal, 0)
        turn_v = ((rows * one + columns * two) / gaps).masked_fill(is_diagonal, 0)
        turn_u, turn_v = turn_u + _half_diagonal(of_u), turn_v + _half_diagonal(of_v)
        ds.append((one - turn_u * columns + rows * turn_v).diagonal(dim1=-2, dim2=-1))
        us.append(u @ turn_u)
        vts.append(turn_v.mT @ vt)
        if u.shape[-2] > size:
            us[-1] = us[-1] + (left @ vt.mT - u @ inner) / columns
        if vt.shape[-1] > size:
            vts[-1] = vts[-1] + (u.mT @ left - inner @ vt) / rows
        products.append(us[-1] * columns + u * ds[-1].unsqueeze(-2) + cross)
    return [_factor(x, us, u), _factor(x, ds, d), _factor(x, vts, vt)]


def _by_degree(x: Series) -> Iterator[tuple[Tensor, Pairs]]:
    """Yield each coefficient of a factor's matrix, and which lower ones have products there."""
    indices = x.algebra.generated(x.indices)
    pairs = pairs_of(contraction(x.algebra, indices, indices, indices))
    known = dict(zip(x.indices, x.full(-2, -1).unbind(0), strict=True))
    zero = x.stack.new_zeros(x.shape[-2:])
    for place, index in enumerate(indices):
        yield known.get(index, zero), pairs[place]


def _less(start: Tensor, pairs: Pairs, left: list[Tensor], right: list[Tensor]) -> Tensor:
    """Return ``start - sum_p left_p right_p`` of those of these matrices that are pairs."""
    result: Tensor = minus_products(
        start, [left[a] for a, _ in pairs], [right[b] for _, b in pairs]
    )
    return result


def _mT(matrices: list[Tensor]) -> list[Tensor]:  # noqa: N802 (as PyTorch has it)
    return [matrix.mT for matrix in matrices]


def _zeros(x: Series, size: int) -> Tensor:
    return x.stack.new_zeros(size, size)


def _factor(x: Series, found: list[Tensor], value: Tensor) -> Series:
    """Return the series of a factor with this value, whose rows are those of x."""
    series = x.changed(x.stack.new_zeros(0, *[1] * value.dim()), shape=value.shape, indices=())
    indices = x.algebra.generated(x.indices)
    return stacked(series, [each.expand(value.shape) for each in found], indices)


# --- What factors solve


def _solved_by_root(step: Step, b: Series | None, root: Series | None) -> Series | None:
    """Return the solution X of ``L L^T X = B``, ``[K, ..., n, m]``."""
    return _by_root(step, step.tensor("input2"), root, step.tensor("self"), b)


def _inverse_by_root(step: Step, root: Series) -> Series | None:
    """Return the inverse of ``L L^T``, ``[K, ..., n, n]``."""
    value = step.tensor("self")
    ones = torch.eye(value.shape[-1], dtype=value.dtype, device=value.device)
    return _by_root(step, value, root, ones.expand(value.shape), None)


def _by_root(
    step: Step, root: Tensor, of_root: Series | None, b: Tensor, of_b: Series | None
) -> Series | None:
    """Return the series of X, the result, where ``L L^T X = B``: solved for Y, ``L Y = B``."""
    upper, result = step.saved("upper"), step.tensor("result")
    lower, of_lower = (root.mT if upper else root), of_root
    if of_root is not None:
        of_root = linear(lambda t: t.triu() if upper else t.tril(), of_root)
        of_lower = of_root.transposed() if upper else of_root
    forth = _solved_by_triangle(lower, upper=False)
    half = torch.linalg.solve_triangular(lower, b, upper=False)
    of_half = solution(forth, lower, of_lower, of_b, half)
    back = _solved_by_triangle(lower.mT, upper=True)
    return solution(back, lower.mT, of_lower and of_lower.transposed(), of_half, result)


def _solved_by_triangle(value: Tensor, *, upper: bool) -> Solve:
    return columns_solved(
        lambda columns: torch.linalg.solve_triangular(value, columns, upper=upper)
    )


def _least_squares(step: Step, a: Series | None, b: Series | None) -> Series | None:
    """Return the X, ``[K, ..., n, m]``, nearest to ``A X = B``, or the shortest of them."""
    value, right = step.tensor("self"), step.tensor("b")
    unsupported_if(right.dim() < value.dim(), "its right side is a vector")
    _check_rank(value)
    return _nearest(value, a, right, b)


def _pseudoinverse(step: Step, a: Series) -> Series | None:
    """Return the pseudoinverse, ``[K, ..., n, m]``: the X nearest to ``A X = I``."""
    value, result = step.tensor("self"), step.tensor("result")
    _check_rank(result)
    is_inverse = torch.allclose(value @ result @ value, value)  # of all of it, not of a triangle
    unsupported_if(not is_inverse, "its matrix is not symmetric")
    ones = torch.eye(value.shape[-2], dtype=value.dtype, device=value.device)
    return _nearest(value, a, ones.expand(*value.shape[:-2], -1, -1), None)


def _check_rank(value: Tensor) -> None:
    """Raise where a matrix ``[..., m, n]`` may have less than full rank, where X is no solution."""
    unsupported_if(not may_look(value), "the rank of a matrix is not to be looked at")
    ranks = torch.linalg.matrix_rank(value.detach())
    unsupported_if(bool((ranks < min(value.shape[-2:])).any()), "a matrix has less than full rank")


def _nearest(value: Tensor, a: Series | None, right: Tensor, b: Series | None) -> Series | None:
    """Return the series of the X nearest to ``A X = B``, for A of full rank.

    It is a part of the solution of a system: of ``M X + Y = B`` and ``M^T Y = 0`` for M = A, where
    A has no more columns than rows, and else of ``X + M Y = 0`` and ``M^T X = B`` for M = A^T.
    """
    rows, columns = value.shape[-2:]
    is_tall = rows >= columns
    if not is_tall:
        value, a = value.mT, a and a.transposed()
    rest = (0, 0, 0, columns) if is_tall else (0, 0, columns, 0)
    system = _system(value, torch.eye(max(rows, columns), dtype=value.dtype, device=value.device))
    if a is not None:
        full = a.full(-2, -1)
        size = rows + columns
        whole = _system(full, full.new_zeros(max(rows, columns), max(rows, columns)))
        a = a.changed(whole, shape=(*a.shape[:-2], size, size))
    if b is not None:
        b = b.changed(pad(b.full(-2), rest), shape=(*b.shape[:-2], rows + columns, b.shape[-1]))
    result = torch.linalg.solve(system, pad(right, rest))
    found = solution(solved_by(system), system, a, b, result)
    return found and found.narrowed(-2, rows if is_tall else 0, columns)


def _system(m: Tensor, corner: Tensor) -> Tensor:
    """Return the matrices of four blocks, of a corner, M, M^T and zeros."""
    batch, columns = m.shape[:-2], m.shape[-1]
    zeros = m.new_zeros(columns, columns).expand(*batch, -1, -1)
    above = torch.cat([corner.expand(*batch, -1, -1), m], -1)
    return torch.cat([above, torch.cat([m.mT, zeros], -1)], -2)


RULES: dict[str, Rule] = {
    "LinalgQrBackward0": Rule(_orthogonal_and_triangle),
    "LinalgLuBackward0": Rule(_two_triangles),
    "LinalgSvdBackward0": Rule(_singular_values),
    "CholeskySolveBackward0": Rule(_solved_by_root),
    "CholeskyInverseBackward0": Rule(_inverse_by_root),
    "LinalgLstsqBackward0": Rule(_least_squares),
    "LinalgPinvBackward0": Rule(_pseudoinverse),
}
