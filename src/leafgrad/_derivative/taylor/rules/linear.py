"""Rules for matrix products, convolutions and other bilinear functions.

The product of series ``[K, ..., a, b]`` and ``[K, ..., b, c]`` with values A and B of the same
shapes is ``A B_k + A_k B + sum_j A_j B_{k-j}``, ``[K, ..., a, c]``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from leafgrad._derivative.taylor.jet import add
from leafgrad._derivative.taylor.matrix_products import constant_times, product, times_constant
from leafgrad._derivative.taylor.rule import Propagate, Rule, Step
from leafgrad._derivative.taylor.rules.arithmetic import product_of
from leafgrad._derivative.taylor.series import Series, together
from leafgrad._derivative.taylor.unsupported import Unsupported

Names = tuple[str, str]  # the names under which the values of two factors were saved


def _matmul(step: Step, x: Series | None, y: Series | None) -> Series | None:
    """Return the product of two matrices, which the node saved as `self` and `mat2`.

    None stands for a series that is zero.
    """
    return _of_matrices(step, ("self", "mat2"), x, y)


def _of_matrices(step: Step, names: Names, x: Series | None, y: Series | None) -> Series | None:
    """Return the product of two matrices saved under `names`, ``[K, ..., a, c]``.

    PyTorch saves a factor only if the other factor needs a gradient. No other values are read. None
    stands for a series that is zero.
    """
    if y is None:
        return None if x is None else times_constant(x, step.tensor(names[1]))
    if x is None:
        return constant_times(step.tensor(names[0]), y)
    return product(step.tensor(names[0]), x, step.tensor(names[1]), y)


def _add_product(
    multiply: Callable[[Step, Names, Series | None, Series | None], Series | None], names: Names
) -> Propagate:
    """Return the rule of ``beta * bias + alpha * (one @ two)``, ``[K, ..., a, c]``.

    `multiply` computes the product of the factors saved under `names`.
    """

    def rule(step: Step, bias: Series | None, x: Series | None, y: Series | None) -> Series | None:
        product = multiply(step, names, x, y)
        if product is not None:
            product = product.scaled(step.saved("alpha"))
        if bias is None:
            return product
        return add(bias.scaled(step.saved("beta")).broadcast(step.shape), product)

    return rule


def _matrix_times_vector(
    step: Step, names: Names, x: Series | None, y: Series | None
) -> Series | None:
    """Return the product ``[K, a]`` of a matrix ``[a, b]`` and a vector ``[b]``.

    The vector is multiplied as a matrix with one column. `names` are the names under which PyTorch
    saved the matrix and the vector, and `x` and `y` are their series. None stands for a series that
    is zero.
    """
    column = None if y is None else y.viewed((*y.shape, 1))
    if column is None:
        result = None if x is None else times_constant(x, step.tensor(names[1]).unsqueeze(-1))
    elif x is None:
        result = constant_times(step.tensor(names[0]), column)
    else:
        vector = step.tensor(names[1]).unsqueeze(-1)
        result = product(step.tensor(names[0]), x, vector, column)
    return None if result is None else result.viewed(result.shape[:-1])


def _dot(step: Step, x: Series | None, y: Series | None) -> Series | None:
    """Return the dot product of two vectors ``[b]``: ``[K]``.

    None stands for a series that is zero.
    """
    products = product_of(step, ("self", x), ("tensor", y))
    return None if products is None else products.summed([0], keepdim=False)


def _convolve(step: Step, x: Series | None, *constants: Series | None) -> Series:
    """Return the convolution of ``[K, rows, channels, ...]`` with the saved weight.

    Each coefficient is convolved separately, as additional rows. Raise `Unsupported` if the weight
    or the bias has a series.
    """
    if x is None or any(constant is not None for constant in constants):
        raise Unsupported("reason.weight")
    names = "stride", "padding", "dilation", "transposed", "output_padding", "groups"
    settings = [step.saved(name) for name in names]
    full = x.full(*range(1, x.ndim))
    out = torch.convolution(full.flatten(0, 1), step.tensor("weight"), None, *settings)
    return x.changed(out.unflatten(0, full.shape[:2]), shape=step.shape)


def _cross(step: Step, x: Series | None, y: Series | None) -> Series | None:
    """Return the cross product of two series along the saved axis, ``[K, ..., 3, ...]``.

    Coefficient k is ``A x B_k + A_k x B + sum_j A_j x B_{k-j}``, with the values A and B. None
    stands for a series that is zero.
    """
    dim = step.result_dim()
    by_x = None if x is None else _cross_with_constant(x, step.tensor("other"), dim)
    by_y = None if y is None else -_cross_with_constant(y, step.tensor("self"), dim)
    linear = add(by_x, by_y)
    if linear is None or x is None or y is None:
        return linear
    x, y = together(x, y)
    up = linear.plus_product(_roll_axis(x, 1, dim), _roll_axis(y, 2, dim))
    return up.plus_product(-_roll_axis(x, 2, dim), _roll_axis(y, 1, dim))


def _cross_with_constant(x: Series, other: Tensor, dim: int) -> Series:
    """Return the cross product of a series with the constant `other`, in the broadcast shape."""
    wide = x.broadcast(torch.broadcast_shapes(x.shape, other.shape))
    return wide.changed(torch.linalg.cross(wide.full(dim), other.unsqueeze(0), dim=dim))


def _roll_axis(x: Series, count: int, dim: int) -> Series:
    """Return x rolled by `count` positions along an axis, towards lower indices."""
    return x.changed(x.full(dim).roll(-count, dim))


RULES: dict[str, Rule] = {
    "MmBackward0": Rule(_matmul, has_exact_type=True, is_for_complex=True),
    "BmmBackward0": Rule(_matmul, is_for_complex=True),
    "AddmmBackward0": Rule(
        _add_product(_of_matrices, ("mat1", "mat2")),
        has_exact_type=True,
        is_for_complex=True,
    ),
    "SparseAddmmBackward0": Rule(_add_product(_of_matrices, ("mat1", "mat2"))),
    "BaddbmmBackward0": Rule(_add_product(_of_matrices, ("batch1", "batch2")), is_for_complex=True),
    "MvBackward0": Rule(
        lambda step, x, y: _matrix_times_vector(step, ("self", "vec"), x, y), is_for_complex=True
    ),
    "AddmvBackward0": Rule(_add_product(_matrix_times_vector, ("mat", "vec")), is_for_complex=True),
    "DotBackward0": Rule(_dot, is_for_complex=True),
    "ConvolutionBackward0": Rule(_convolve),
    "LinalgCrossBackward0": Rule(_cross),
}
