"""Matrix products of a series with a constant, and of two matrices with values and series.

The product of series ``[K, ..., a, b]`` and ``[K, ..., b, c]`` with values A and B of the same
shapes is ``A B_k + A_k B + sum_j A_j B_{k-j}``, ``[K, ..., a, c]``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leafgrad._derivative.taylor.kernels.plans import contraction
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import unsupported_if


def times_constant(x: Series, matrix: Tensor) -> Series:
    """Return the series ``[K, ..., a, b]`` times a constant ``[..., b, c]``, by one product."""
    if matrix.dim() == 2:  # noqa: PLR2004
        return x.times(matrix)
    return x.changed(x.full(-1) @ matrix, shape=(*x.shape[:-1], matrix.shape[-1]))


def constant_times(matrix: Tensor, x: Series) -> Series:
    """Return a constant ``[..., a, b]`` times the series ``[K, ..., b, c]``."""
    shape = (*x.shape[:-2], matrix.shape[-2], x.shape[-1])
    if matrix.layout != torch.strided:  # PyTorch has no batched sparse product.
        unsupported_if(matrix.dim() != 2, "sparse-batch")  # noqa: PLR2004
        columns = x.full().movedim(0, 1)
        found = (matrix @ columns.flatten(1)).unflatten(1, columns.shape[1:])
        return x.changed(found.movedim(1, 0), shape=shape)
    return x.changed(matrix @ x.full(-2), shape=shape)


def product(one: Tensor, x: Series, two: Tensor, y: Series) -> Series:
    """Return the series ``[K, ..., a, c]`` of the product of two matrices.

    The first matrix has the value `one` and the series `x`, the second the value `two` and the
    series `y`.
    """
    linear = times_constant(x, two) + constant_times(one, y)
    mixed = _multiply_series(x, y, linear)
    return linear if mixed is None else linear + mixed


def _multiply_series(x: Series, y: Series, linear: Series) -> Series | None:
    """Return ``sum_j A_j B_{k-j}``, ``[K, ..., a, c]``, None if the algebra drops all products.

    `x` contains the A_j and `y` the B_j. The sum for each k is one matrix product: the A_j are
    concatenated along their columns, and the B_{k-j} along their rows. `linear` is the other part
    of the product. The result has its shape and dtype; its values are not read.
    """
    plan = contraction(x.algebra, x.indices, y.indices)
    if not plan.products:
        return None
    left, right = x.full(-1).unbind(0), y.full(-2).unbind(0)
    products = []
    for place in range(plan.sizes[2]):
        pairs = [(a, b) for a, b, c, _ in plan.products if c == place]
        products.append(
            joined([left[a] for a, _ in pairs], -1) @ joined([right[b] for _, b in pairs], -2)
        )
    indices = x.algebra.with_products(x.indices, y.indices)
    return linear.changed(torch.stack(products), indices=indices)


def joined(parts: list[Tensor], dim: int) -> Tensor:
    """Return parts ``[..., n_i, ...]`` joined along the axis `dim`: ``[..., sum n_i, ...]``."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)
