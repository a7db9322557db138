"""Rules for matrix products, convolutions and what else is linear in each of two factors."""

from __future__ import annotations

import torch
from torch import Tensor

from leafgrad._derivative.taylor import batch_axes
from leafgrad._derivative.taylor.jet import Jet, add, multiply
from leafgrad._derivative.taylor.kernels.plans import contraction
from leafgrad._derivative.taylor.rules.arithmetic import product_of
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.step import Propagate, Rule, Step
from leafgrad._derivative.taylor.unsupported import Unsupported, unsupported_if


def _times_constant(x: Series, matrix: Tensor) -> Series:
    """Multiply rows by a matrix, those of all coefficients at once."""
    batch_axes.free(x.axes, [-1])
    if matrix.dim() == 2:  # noqa: PLR2004
        return x.times(matrix)
    return x.changed(x.full(-1) @ matrix, shape=(*x.shape[:-1], matrix.shape[-1]))


def _constant_times(matrix: Tensor, x: Series) -> Series:
    batch_axes.free(x.axes, [-2])
    shape = (*x.shape[:-2], matrix.shape[-2], x.shape[-1])
    return x.changed(matrix @ x.full(-2), shape=shape)


def _product(one: Tensor, x: Series, two: Tensor, y: Series) -> Series:
    """Multiply matrices, with or without axes of a batch in front, that both have a series."""
    linear = _times_constant(x, two) + _constant_times(one, y)
    mixed = _mixed(x, y, linear)
    return linear if mixed is None else linear + mixed


def _mixed(x: Series, y: Series, linear: Series) -> Series | None:
    """Multiply the series alone; products with the same result are one product of long rows."""
    plan = contraction(x.algebra, x.indices, y.indices)
    if not plan.products:
        return None
    left, right = x.full(-1).unbind(0), y.full(-2).unbind(0)
    products = []
    for place in range(plan.sizes[2]):
        pairs = [(a, b) for a, b, c, _ in plan.products if c == place]
        products.append(
            _joined([left[a] for a, _ in pairs], -1) @ _joined([right[b] for _, b in pairs], -2)
        )
    indices = x.algebra.with_products(x.indices, y.indices)
    return linear.changed(torch.stack(products), indices=indices)


def _joined(parts: list[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


def _multiplied(names: tuple[str, str]) -> Propagate:
    """Make the rule of a product, whose factors PyTorch saves under these names, if it must."""

    def rule(step: Step, x: Series | None, y: Series | None) -> Series | None:
        return _of(step, names, x, y)

    return rule


def _of(step: Step, names: tuple[str, str], x: Series | None, y: Series | None) -> Series | None:
    """Multiply two matrices, of which PyTorch keeps only what the other's gradient needs."""
    if y is None:
        return None if x is None else _times_constant(x, step.tensor(names[1]))
    if x is None:
        return _constant_times(step.tensor(names[0]), y)
    return _product(step.tensor(names[0]), x, step.tensor(names[1]), y)


def product_of_matrices(one: Jet, two: Jet) -> Series | None:
    """Give the series of the product of two matrices."""
    if two.series is None:
        return None if one.series is None else _times_constant(one.series, two.value)
    if one.series is None:
        return _constant_times(one.value, two.series)
    return _product(one.value, one.series, two.value, two.series)


def _added(names: tuple[str, str]) -> Propagate:
    """Make the rule of ``beta * bias + alpha * (one @ two)``."""

    def rule(step: Step, bias: Series | None, x: Series | None, y: Series | None) -> Series | None:
        product = _of(step, names, x, y)
        if product is not None:
            product = product.scaled(step.saved("alpha"))
        if bias is None:
            return product
        return add(bias.scaled(step.saved("beta")).broadcast(step.shape), product)

    return rule


def _matrix_times_vector(step: Step, x: Series | None, y: Series | None) -> Series | None:
    return _column(step, ("self", "vec"), x, y)


def _column(
    step: Step, names: tuple[str, str], x: Series | None, y: Series | None
) -> Series | None:
    """Multiply by a vector as by a matrix of one column."""
    column = None if y is None else y.viewed((*y.shape, 1))
    if column is None:
        product = None if x is None else _times_constant(x, step.tensor(names[1]).unsqueeze(-1))
    elif x is None:
        product = _constant_times(step.tensor(names[0]), column)
    else:
        vector = step.tensor(names[1]).unsqueeze(-1)
        product = _product(step.tensor(names[0]), x, vector, column)
    return None if product is None else product.viewed(product.shape[:-1])


def _added_vector(
    step: Step, bias: Series | None, x: Series | None, y: Series | None
) -> Series | None:
    product = _column(step, ("mat", "vec"), x, y)
    if product is not None:
        product = product.scaled(step.saved("alpha"))
    return add(None if bias is None else bias.scaled(step.saved("beta")), product)


def _dot(step: Step, x: Series | None, y: Series | None) -> Series | None:
    products = product_of(step, ("self", x), ("tensor", y))
    return None if products is None else products.summed([0], keepdim=False)


def _bilinear(
    step: Step, x: Series | None, weight: Series | None, y: Series | None
) -> Series | None:
    """Multiply the one by all matrices of the weight at once, and what comes out by the other."""
    unsupported_if(weight is not None, "its weight depends on inputs")
    matrices = step.tensor("i2")
    wide = (*step.shape, matrices.shape[-1])
    matrix = matrices.transpose(0, 1).flatten(1)
    turned = None if x is None else _times_constant(x, matrix).viewed(wide)
    if y is None:
        product = None if turned is None else turned.scaled(step.tensor("i3").unsqueeze(1))
    else:
        value = (step.tensor("i1") @ matrix).reshape(wide)
        other = y.viewed((y.shape[0], 1, y.shape[1]))
        if turned is None:
            product = other.scaled(value)
        else:
            product = multiply(Jet(value, turned), Jet(step.tensor("i3").unsqueeze(1), other))
    return None if product is None else product.summed([-1], keepdim=False)


def _convolved(step: Step, x: Series | None, *constants: Series | None) -> Series:
    if x is None or any(constant is not None for constant in constants):
        raise Unsupported("its weight depends on inputs")
    batch_axes.free(x.axes, range(1, x.ndim))
    names = "stride", "padding", "dilation", "transposed", "output_padding", "groups"
    settings = [step.saved(name) for name in names]
    full = x.full(*range(1, x.ndim))
    out = torch.convolution(full.flatten(0, 1), step.tensor("weight"), None, *settings)
    return x.changed(out.unflatten(0, full.shape[:2]), shape=step.shape)


RULES: dict[str, Rule] = {
    "MmBackward0": Rule(
        _multiplied(("self", "mat2")), rowwise=True, shared=(1,), has_exact_type=True
    ),
    "BmmBackward0": Rule(_multiplied(("self", "mat2"))),
    "AddmmBackward0": Rule(
        _added(("mat1", "mat2")), rowwise=True, shared=(2,), has_exact_type=True
    ),
    "BaddbmmBackward0": Rule(_added(("batch1", "batch2"))),
    "MvBackward0": Rule(_matrix_times_vector),
    "AddmvBackward0": Rule(_added_vector),
    "DotBackward0": Rule(_dot),
    "TrilinearBackward0": Rule(_bilinear),
    "ConvolutionBackward0": Rule(_convolved),
}
