"""Rules for means, norms, variances, softmax and normalisations.

Each rule reduces some axes of a series ``[K, *shape]``, or divides the series by a reduction. Until
the end, reduced axes are kept with size 1, as in ``[K, ..., 1, ...]``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce
from itertools import accumulate

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.taylor import jet
from leafgrad._derivative.taylor.rule import Propagate, Rule, Step
from leafgrad._derivative.taylor.rules.complex_numbers import absolute
from leafgrad._derivative.taylor.rules.shape import concatenate
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import Unsupported, unsupported_if


def _mean(x: Series, dims: Sequence[int], *, keepdim: bool = True) -> Series:
    """Return the mean along `dims`. These axes are dropped, or kept with size 1 if `keepdim`."""
    count = math.prod(x.shape[dim] for dim in dims)
    return x.summed(dims, keepdim=keepdim).scaled(1 / count)


def _mean_along(step: Step, x: Series) -> Series:
    """Return the mean along the saved axes, which are kept with size 1 or dropped, as saved."""
    return _mean(x, step.dims(x), keepdim=step.saved("keepdim"))


# --- Norms and variances


def _norm(step: Step, x: Series, kind: str, dims: Sequence[int], *, keepdim: bool) -> Series | None:
    """Return the series of the norm of x along `dims`.

    The node saved the order p of the norm under the name `kind`. None stands for a series that is
    zero.
    """
    value, result = step.tensor("self"), step.tensor("result")
    series = _norm_of(value, _restore_axes(result, x, dims), x, float(step.saved(kind)), dims)
    return series if keepdim or series is None else series.summed(dims, keepdim=False)


def _restore_axes(result: Tensor, x: Series, dims: Sequence[int]) -> Tensor:
    """Return the result of a reduction of x along `dims`, with size 1 along these axes."""
    gone = {dim % x.ndim for dim in dims}
    return result.reshape([1 if n in gone else size for n, size in enumerate(x.shape)])


def _norm_of(
    value: Tensor, result: Tensor, x: Series, power: float, dims: Sequence[int]
) -> Series | None:
    """Return the series ``[K, ..., 1, ...]`` of the norm of order `power` along `dims`.

    `value`, ``[*shape]``, and `x` are the value a and the series of the argument. `result` is the
    value r of the norm. Divided by r, the norm is the p-th root of ``1 + sum(|x / r|**p - |a /
    r|**p)``. None stands for a series that is zero.
    """
    if value.is_complex():
        value, x = value.abs(), absolute(value, x)
    if power == 2:  # noqa: PLR2004
        return _root_of_squares(result, jet.square(value, x).summed(dims, keepdim=True))
    sign = value.sgn()
    if power == 1:
        return x.scaled(sign).summed(dims, keepdim=True)
    if math.isinf(power):
        is_largest = (value.abs() == result).to(x.dtype)
        share = sign * is_largest / is_largest.sum([*dims], keepdim=True)
        return x.scaled(share).summed(dims, keepdim=True)
    is_whole = power > 0 and power.is_integer()
    unsupported_if(not is_whole, "norm")
    size = result.masked_fill(result == 0, 1)
    if power % 2 == 0:
        ratio = jet.Jet(value / size, x.scaled(1 / size))
    else:  # At zero, PyTorch's formula returns a zero derivative.
        ratio = jet.Jet((value.abs() / size).masked_fill(value == 0, 1), x.scaled(sign / size))
    total = (ratio**power).sum(dims, keepdim=True)
    at_one = jet.Jet(torch.ones_like(size), total.series and total.series.masked(result != 0))
    return (at_one ** (1 / power) * size).series


def _root_of_squares(result: Tensor, total: Series) -> Series:
    """Return the series ``[K, *shape]`` of the square root of `total`, a sum of squares.

    `result` is the value of the root. At zero, PyTorch's formula returns zero for the first
    derivative, and the second derivative does not exist.
    """
    series = jet.sqrt_from(result, total)
    keep = (result != 0) | (series.degrees() > 1)
    return series.changed(torch.where(keep, series.stack, 0))


def _distances(step: Step, x: Series | None, y: Series | None) -> Series | None:
    """Return the series of the distances between the rows of two tensors, ``[..., n, k]``.

    The tensors are ``[..., n, m]`` and ``[..., k, m]``. Their differences, ``[K, ..., n, k, m]``,
    are computed explicitly, because expanding the squares would lose digits by cancellation. The
    distance is recomputed, because PyTorch has no second derivative of the saved one. None stands
    for a series that is zero.
    """
    power = float(step.saved("p")) if _autograd.keeps(step.node, "p") else 2.0
    one, two = step.tensor("x1").unsqueeze(-2), step.tensor("x2").unsqueeze(-3)
    apart = [] if x is None else [x.viewed((*x.shape[:-1], 1, x.shape[-1]))]
    if y is not None:
        apart.append(-y.viewed((*y.shape[:-2], 1, *y.shape[-2:])))
    value = one - two
    series = sum(apart[1:], apart[0]).broadcast(value.shape)
    result = torch.linalg.vector_norm(value, power, dim=-1, keepdim=True)
    found = _norm_of(value, result, series, power, [-1])
    return found and found.summed([-1], keepdim=False)


def _norm_along(kind: str) -> Propagate:
    """Return the rule of a norm along the saved axes, which are kept with size 1 or dropped.

    The node saved the order of the norm under the name `kind`.
    """
    return lambda step, x: _norm(step, x, kind, step.dims(x), keepdim=step.saved("keepdim"))


def _variance(step: Step, x: Series) -> Series:
    """Return the series of the variance along the saved axes, with the saved correction.

    Raise `Unsupported` if there are no degrees of freedom.
    """
    dims, keepdim, correction = step.dims(x), step.saved("keepdim"), step.saved("correction")
    count = math.prod(x.shape[dim] for dim in dims) - (1 if correction is None else correction)
    unsupported_if(count <= 0, "freedom")
    centred = _center(step.tensor("self"), dims)
    return jet.square(centred, x - _mean(x, dims)).summed(dims, keepdim=keepdim).scaled(1 / count)


def _center(value: Tensor, dims: Sequence[int]) -> Tensor:
    """Return a value ``[*shape]`` minus its mean along `dims`."""
    return value - value.mean(list(dims), keepdim=True)


def _deviation(step: Step, x: Series, name: str = "result") -> Series:
    """Return the series of the standard deviation along the saved axes.

    The node saved its value under `name`.
    """
    result = step.tensor(name)
    is_flat = result == 0  # At zero, PyTorch's formula returns a zero derivative.
    return jet.sqrt_from(result.masked_fill(is_flat, 1), _variance(step, x)).masked(~is_flat)


# --- Products along an axis


def _product_of_all(step: Step, x: Series) -> Series | None:
    """Return the series ``[K]`` of the product of all elements.

    None stands for a series that is zero.
    """
    flat = x.viewed((math.prod(x.shape),))
    return _product(jet.Jet(step.tensor("self").reshape(-1), flat), -1)


def _product_along(step: Step, x: Series) -> Series | None:
    """Return the series of the product along the saved axis, kept with size 1 or dropped.

    None stands for a series that is zero.
    """
    dim, keepdim = x.from_end(step.saved("dim")), step.saved("keepdim")
    series = _product(step.jet("self", x), dim)
    if series is None or not keepdim:
        return series
    return series.viewed(step.shape)


def _product(x: jet.Jet, dim: int) -> Series | None:
    """Return the series of the product of a jet along the axis `dim`, which is dropped.

    None stands for a series that is zero.
    """
    return reduce(jet.Jet.__mul__, _split_places(x, dim)).series


def _split_places(x: jet.Jet, dim: int) -> list[jet.Jet]:
    """Return one jet for each position of a jet along the axis `dim`, which they lack."""
    places = range(x.value.shape[dim])
    return [
        x.to(x.value.select(dim, n), partial(Series.selected, dim=dim, place=n)) for n in places
    ]


def _cumprod(step: Step, x: Series) -> Series:
    """Return the cumulative product along the saved axis, in the shape of x."""
    dim = x.from_end(step.saved("dim"))
    shape = list(x.shape)
    shape[dim] = 1
    found = accumulate(_split_places(step.jet("self", x), dim), jet.Jet.__mul__)
    parts = [each.series and each.series.viewed(shape) for each in found]
    return concatenate(parts, [1] * len(parts), dim)


# --- Softmax and its logarithm


def _softmax(step: Step, x: Series) -> Series:
    """Return the softmax along the saved axis, in the shape of x."""
    return jet.softmax_from(step.tensor("result"), x, step.dims(x))


def _log_softmax(step: Step, x: Series) -> Series:
    """Return ``x - log(sum(exp(x)))``, summed along the saved axis, in the shape of x."""
    return x - _log_of_sum(x, step.tensor("result").exp(), step.dims(x), keepdim=True)


def _log_sum_exp(step: Step, x: Series) -> Series:
    """Return ``log(sum(exp(x)))`` along the saved axes, which are kept with size 1 or dropped."""
    dims, result = step.dims(x), step.tensor("result")
    alone = [1 if n - x.ndim in dims else size for n, size in enumerate(x.shape)]
    weights = (step.tensor("self") - result.reshape(alone)).exp()
    return _log_of_sum(x, weights, dims, keepdim=step.saved("keepdim"))


def _log_cumsum_exp(step: Step, x: Series) -> Series:
    """Return ``log(cumsum(exp(x)))`` along the saved axis, in the shape of x."""
    dim = x.from_end(step.saved("dim")) % x.ndim
    order = [*(n for n in range(x.ndim) if n != dim), dim]
    moved, size = x.permuted(order), x.shape[dim]
    value = step.tensor("self").movedim(dim, -1).unsqueeze(-1)
    is_later = torch.ones(size, size, dtype=torch.bool, device=value.device).tril(-1)
    weights = value.masked_fill(is_later, -torch.inf).softmax(-2)  # [..., summed, result]
    wide = moved.viewed((*moved.shape, 1)).broadcast((*moved.shape, size))
    found = _log_of_sum(wide, weights, [-2], keepdim=False)
    return found.permuted(sorted(range(x.ndim), key=order.__getitem__))


def _log_of_sum(x: Series, weights: Tensor, dims: Sequence[int], *, keepdim: bool) -> Series:
    """Return the series of ``log(sum(exp(x)))`` along `dims`.

    `weights`, ``[*shape]``, is the share of each exponential in the sum at order 0. Let h be the
    series `x`, and m the mean of h with these weights. The result is
    ``m + log(1 + sum(weights (exp(h - m) - 1)))``.
    """
    mean = jet.weighted_mean(x, weights, dims)
    terms = jet.exp_of(x - mean).scaled(weights)
    total = mean + jet.log_of(terms.summed(dims, keepdim=True))
    return total if keepdim else total.summed(dims, keepdim=False)


# --- Normalisations


def _layer_norm(step: Step, x: Series | None, *constants: Series | None) -> Series:
    """Return x normalised along the last axes (layer norm), times the weight."""
    x = _check_constants(x, constants)
    dims = list(range(-len(step.saved("normalized_shape")), 0))
    normal = _normalise(step.tensor("input"), x, dims, step.tensor("result2"))
    weight = step.saved("weight")  # It broadcasts to x.
    return normal if weight is None else normal.scaled(weight)


def _group_norm(step: Step, x: Series | None, *constants: Series | None) -> Series:
    """Return x normalised in each group of channels (axis 1), times the weight."""
    x = _check_constants(x, constants)
    count, groups = step.saved("N"), step.saved("group")
    wide = (count, groups, x.shape[1] // groups, *x.shape[2:])
    dims = list(range(2 - len(wide), 0))
    value, scale = step.tensor("input").reshape(wide), step.tensor("result2")
    scale = scale.reshape(count, groups, *[1] * len(dims))
    normal = _normalise(value, x.viewed(wide), dims, scale).viewed(x.shape)
    return _weight_channels(normal, step.saved("weight"))


def _batch_norm(step: Step, x: Series | None, *constants: Series | None) -> Series:
    """Return x normalised in each channel (axis 1), times the weight."""
    x = _check_constants(x, constants)
    if _autograd.keeps(step.node, "training") and step.saved("training"):
        # The statistics are taken over all axes but the channels. InstanceNorm has rows and
        # channels on one axis, so its rows stay apart.
        dims = [dim for dim in range(-x.ndim, 0) if dim != 1 - x.ndim]
        scale = _per_channel(step.tensor("result2"), x)
        normal = _normalise(step.tensor("input"), x, dims, scale)
    else:
        scale = (step.tensor("running_var") + step.saved("eps")).rsqrt()
        normal = x.scaled(_per_channel(scale, x))
    return _weight_channels(normal, step.saved("weight"))


def _check_constants(x: Series | None, constants: Sequence[Series | None]) -> Series:
    """Return the series ``[K, *shape]`` of the input. `constants` are those of other arguments.

    Raise `Unsupported` unless only the input has a series.
    """
    if x is None or any(constant is not None for constant in constants):
        raise Unsupported("reason.weight-or-bias")
    return x


def _per_channel(weight: Tensor, x: Series) -> Tensor:
    """Return a weight ``[channels]`` as ``[channels, 1, ...]``, to multiply axis 1 of x."""
    return weight.reshape(-1, *[1] * (x.ndim - 2))


def _weight_channels(x: Series, weight: Tensor | None) -> Series:
    """Return x ``[K, rows, channels, ...]`` times the weight ``[channels]``."""
    return x if weight is None else x.scaled(_per_channel(weight, x))


def _normalise(value: Tensor, x: Series, dims: Sequence[int], scale: Tensor) -> Series:
    """Return x ``[K, *shape]`` minus its mean along `dims`, divided by its standard deviation.

    The saved `scale` is one over the standard deviation, computed with eps. Only its value is used,
    not its graph, because PyTorch cannot differentiate it any number of times. The graph comes from
    the mean square, which is recomputed.
    """
    if not x.indices:
        return x
    value, x = _center(value, dims), x - _mean(x, dims)
    square = value.square().mean(list(dims), keepdim=True)
    moved = square - square.detach() + scale.detach() ** -2
    mean_square = _mean(jet.square(value, x), dims)
    root = moved.rsqrt()
    inverse = jet.rsqrt_from(root, mean_square)
    return (x.scaled(root) + inverse.scaled(value)).plus_product(x, inverse)


RULES: dict[str, Rule] = {
    "MeanBackward0": Rule(lambda _, x: _mean(x, range(x.ndim), keepdim=False), is_for_complex=True),
    "MeanBackward1": Rule(_mean_along, is_for_complex=True),
    "LinalgVectorNormBackward0": Rule(_norm_along("ord"), is_for_complex=True),
    "NormBackward0": Rule(
        lambda step, x: _norm(step, x, "p", range(x.ndim), keepdim=False), is_for_complex=True
    ),
    "NormBackward1": Rule(_norm_along("p"), is_for_complex=True),
    "CdistBackward0": Rule(_distances),
    "EuclideanDistBackward0": Rule(_distances),
    "VarBackward0": Rule(_variance),
    "StdBackward0": Rule(_deviation),
    "VarMeanBackward0": Rule(lambda step, x: [_variance(step, x), _mean_along(step, x)]),
    "CumprodBackward0": Rule(_cumprod, is_for_complex=True),
    "ProdBackward0": Rule(_product_of_all, is_for_complex=True),
    "ProdBackward1": Rule(_product_along, is_for_complex=True),
    "SoftmaxBackward0": Rule(_softmax),
    "SafeSoftmaxBackward0": Rule(_softmax),
    "LogSoftmaxBackward0": Rule(_log_softmax),
    "LogsumexpBackward0": Rule(_log_sum_exp),
    "LogcumsumexpBackward0": Rule(_log_cumsum_exp),
    "NativeLayerNormBackward0": Rule(_layer_norm),
    "NativeGroupNormBackward0": Rule(_group_norm),
    "NativeBatchNormBackward0": Rule(_batch_norm),
    # The node of a batch norm in compiled code.
    "NativeBatchNormLegitNoTrainingBackward0": Rule(_batch_norm),
}
