"""The rule of each kind of node gives what nested reverse mode gives, and so do its derivatives."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from itertools import accumulate
from operator import mul
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from leafgrad import _autograd, higher_order_grad, laplacian
from leafgrad._derivative import double_backward
from leafgrad._derivative.taylor import propagate
from leafgrad._derivative.taylor.rule import Rule, Step
from leafgrad._derivative.taylor.rules import RULES
from leafgrad._derivative.taylor.series import Series
from tests.derivative.taylor.oracle import (
    assert_same,
    assert_same_thrice,
    gradients,
    marks_of,
    mixed,
    nested_passes,
    rows,
)

Function = Callable[[Tensor, Tensor], Tensor]


@pytest.fixture(autouse=True)
def at_points_where_formulas_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let reverse mode answer for all kinds: the listed formulas are right at the points here."""
    monkeypatch.setattr(double_backward, "WRONG_FORMULAS", {})


CONSTANT = torch.linspace(-1, 1, 8, dtype=torch.float64)
MATRIX = CONSTANT.view(2, 4)
CLASSES = torch.tensor([1, 0, 1])


def elementwise(function: Callable[[Tensor], Tensor]) -> Function:
    """Apply a function to what depends on inputs and parameter, and is not linear."""
    return lambda x, w: function(w * x + 0.1 * x * x)


def constant_channels(x: Tensor) -> Tensor:
    return torch.ones(len(x), 2, dtype=x.dtype)


def vectors(x: Tensor) -> Tensor:
    """Make vectors of three entries of points with two."""
    return torch.cat([x, x.prod(-1, keepdim=True)], -1)


def power_of(exponent: float) -> Callable[[Tensor], Tensor]:
    return lambda h: h**exponent


def square(x: Tensor, size: int) -> Tensor:
    """Make matrices of points, none near singular."""
    factors = torch.linspace(-1, 1, 2 * size**2, dtype=x.dtype).reshape(2, -1)
    matrix = (x @ factors).sin().reshape(*x.shape[:-1], size, size)
    return matrix / size + torch.eye(size, dtype=x.dtype)


def definite(x: Tensor, size: int) -> Tensor:
    matrix = square(x, size)
    return matrix @ matrix.mT


def apart(x: Tensor, size: int) -> Tensor:
    """Make matrices whose singular values differ."""
    return square(x, size) * torch.arange(1, size + 1, dtype=x.dtype)


def put(base: Tensor, places: Any, source: Tensor) -> Tensor:
    base = base.clone()
    base[places] = source
    return base


def put_in_turn(base: Tensor, writes: list[tuple[Any, Any]]) -> Tensor:
    base = base * 1
    for places, source in writes:
        base[places] = source
    return base


def added_to_a_column(x: Tensor, w: Tensor) -> Tensor:
    result = (w * x).sin()
    result[:, 0].add_(x[:, 1].exp() * w)
    return result


def written_and_read(x: Tensor, w: Tensor) -> Tensor:
    result = (w * x).sin()
    column = result[:, 0]
    column.copy_(x[:, 1].exp() * w)
    return column * result[:, 1]


def point(x: Tensor, w: Tensor) -> Tensor:
    """Make complex numbers whose real and imaginary part both move, none near zero."""
    return torch.complex((w * x).sin(), x * x * w + 0.3)


def of_complex(function: Callable[[Tensor], Tensor]) -> Function:
    """Apply a function to complex numbers, and tell both parts of what comes out."""

    def parts(x: Tensor, w: Tensor) -> Tensor:
        result = function(point(x, w))
        return torch.cat([result.real, result.imag], -1)

    return parts


def along_two(x: Tensor, w: Tensor) -> Tensor:
    """Make a table for each row."""
    return (w * x[:, :, None] * x[:, None] + x[:, :, None]).exp()


def spectral_layer(x: Tensor, w: Tensor) -> Tensor:
    """Keep and mix the low frequencies of a signal, as a Fourier neural operator does."""
    signal = ((w * x).exp() @ MATRIX).sin()
    modes = torch.zeros(len(x), 3, dtype=torch.complex128)
    modes[:, :2] = torch.fft.rfft(signal)[:, :2] @ torch.complex(w, w * w).expand(2, 2)
    result: Tensor = torch.fft.irfft(modes, n=4)
    return result


def transformed(h: Tensor, sign: int = -1) -> Tensor:
    """Write a discrete Fourier transform along the last axis out."""
    number = torch.arange(h.shape[-1], dtype=torch.float64)
    turns = torch.outer(number, number) * (sign * 2 * torch.pi / h.shape[-1])
    result: Tensor = h.to(torch.complex128) @ torch.polar(torch.ones_like(turns), turns)
    return result


PICTURE = torch.linspace(-2, 2, 24, dtype=torch.float64).sin().view(1, 2, 3, 4)
BLOCK = torch.linspace(-2, 2, 24, dtype=torch.float64).cos().view(1, 1, 2, 3, 4)


def sampled(**options: Any) -> Function:
    """Read one picture at the points."""

    def read(x: Tensor, w: Tensor) -> Tensor:
        points = (w * x).sin()[None, None] * 1.7 - 0.4
        found = functional.grid_sample(PICTURE * w, points, align_corners=False, **options)
        result: Tensor = found[0, :, 0].t()
        return result

    return read


def sampled_each(x: Tensor, w: Tensor) -> Tensor:
    """Read a picture of its own for each row, at points of its own."""
    pictures = PICTURE * (w * x).sin()[:, :, None, None]
    points = (w * x).cos()[:, None, None].expand(-1, 2, 1, 2)
    return functional.grid_sample(pictures, points, align_corners=True).flatten(1)


def sampled_fixed(x: Tensor, w: Tensor, mode: str) -> Tensor:
    """Read a picture that moves at points that do not."""
    pictures = PICTURE * (w * x).sin()[:, :, None, None]
    points = CONSTANT.view(1, 2, 2, 2).expand(len(x), -1, -1, -1)
    return functional.grid_sample(pictures, points, mode, align_corners=True).flatten(1)


def sampled_in_space(x: Tensor, w: Tensor) -> Tensor:
    points = vectors((w * x).sin())[None, None, None]
    return functional.grid_sample(BLOCK * w, points, align_corners=True)[0, 0, 0, 0]


ALL = slice(None)
UPPERALL = slice(None)
UPPER = torch.ones(3, 3, dtype=torch.bool).triu(1)
PLACES = torch.tensor([2, 0])
SIDE = torch.tensor([True, False, True])
CENTRES = 3 + CONSTANT.view(4, 2)


# Minus infinity for what comes later; and a mask of the same kind with other numbers besides.
LATER = torch.zeros(3, 3, dtype=torch.float64).masked_fill(
    torch.ones(3, 3, dtype=torch.bool).triu(1), -torch.inf
)
MASK = LATER + torch.linspace(-1, 1, 9, dtype=torch.float64).view(3, 3)


def attended(x: Tensor, w: Tensor, moving: str, heads: int) -> Iterator[Any]:
    """Make query, key and value of two heads with three tokens each, or of fewer they share."""
    for name in "qkv":
        count = 2 if name == "q" else heads
        h = x if name in moving else x.detach()
        tokens = torch.linspace(-1, 1, 12 * count, dtype=x.dtype).view(2, -1) * ord(name) / 50
        yield (w * h @ tokens).sin().view(-1, count, 3, 2)


def attention(moving: str = "qkv", heads: int = 2, **options: Any) -> Function:
    return lambda x, w: functional.scaled_dot_product_attention(
        *attended(x, w, moving, heads), **options
    ).flatten(1)


def attention_written_out(
    moving: str = "qkv", heads: int = 2, scale: float = 0.5**0.5, mask: Tensor | float = 0.0
) -> Function:
    def function(x: Tensor, w: Tensor) -> Tensor:
        q, k, v = attended(x, w, moving, heads)
        result: Tensor = ((scale * q @ k.mT + mask).softmax(-1) @ v).flatten(1)
        return result

    return function


def separated(x: Tensor, w: Tensor) -> Tensor:
    """Make symmetric matrices whose eigenvalues are apart."""
    matrix = w * square(x, 3)
    return matrix + matrix.mT + torch.diag(torch.tensor([0.0, 3.0, 7.0], dtype=x.dtype))


def embedded(padding: int | None) -> Function:
    """Look rows of a table up that the points make."""
    places = torch.tensor([1, 0, 1])
    return lambda x, w: functional.embedding(places, (w * x).sin().t().exp(), padding).t()


def put_together(x: Tensor, w: Tensor, *, kind: str, joins: bool) -> Tensor:
    """Put four elements in two of three places."""
    base, places = (w * x.sin())[:, [0, 1, 0]], torch.tensor([[0, 0, 2, 2]] * 3)
    source = (w * x).exp() @ MATRIX
    return torch.scatter_reduce(base, 1, places, source, kind, include_self=joins)


TARGET = CONSTANT[:6].view(3, 2).abs()


def cross_entropies(weight: Tensor | None) -> tuple[Function, Function]:
    """Make the cross entropy of what is true or false, and the same written out."""

    def loss(x: Tensor, w: Tensor) -> Tensor:
        share = (w * x).sigmoid()
        return functional.binary_cross_entropy(share, TARGET, weight, reduction="none")

    def written_out(x: Tensor, w: Tensor) -> Tensor:
        share = (w * x).sigmoid()
        found = TARGET * share.log() + (1 - TARGET) * (1 - share).log()
        return -found if weight is None else -found * weight

    return loss, written_out


EVEN = torch.tensor([[1.0, 2.0, 2.0, 4.0], [0.0, 1.0, 1.0, 3.0]], dtype=torch.float64)


def of_some_rows(x: Tensor, w: Tensor, rows: Any, base: Tensor) -> Tensor:
    """Put something else in some rows of a base."""
    return put(base, rows, (w * x[rows]).exp().tanh())


Draw = Callable[[Tensor], Tensor]


def sent(function: Draw, given: Tensor, gradient: Tensor) -> Tensor:
    """Send a gradient back through a function."""
    h = given if given.requires_grad else given.requires_grad_()
    (slope,) = torch.autograd.grad(function(h), h, gradient, create_graph=True)
    return slope


def pulled(function: Draw, x: Tensor, w: Tensor) -> Tensor:
    """Send back what depends on the points through what depends on them as well."""
    return sent(function, (w * x - 0.9).sin() @ MATRIX, (w * x).exp() @ MATRIX)


def pushed(function: Draw, x: Tensor, w: Tensor) -> Tensor:
    """Send back what does not depend on the points."""
    return sent(function, (w * x - 0.9).sin(), w * CONSTANT[:2].expand(3, 2))


def sent_back(function: Draw, x: Tensor, w: Tensor) -> Tensor:
    """Send back what depends on the points through what does not."""
    return (
        sent(function, w * CONSTANT.view(2, 4)[:1].repeat(3, 1), (w * x).exp() @ MATRIX) * x[:, :1]
    )


def drawn(draw: Draw, x: Tensor, w: Tensor) -> Tensor:
    """Draw something of a picture of each row, 4 channels of 4 by 6 pixels."""
    factors = torch.linspace(-3, 3, 192, dtype=x.dtype).sin().view(2, 96)
    return draw((w * x @ factors).sin().view(-1, 4, 4, 6)).flatten(1)


def resized(size: int | tuple[int, ...], mode: str, **options: Any) -> Draw:
    return lambda h: functional.interpolate(h, size, mode=mode, **options)


def scaled(factor: float, mode: str, **options: Any) -> Draw:
    return lambda h: functional.interpolate(h, scale_factor=factor, mode=mode, **options)


def line(draw: Draw) -> Draw:
    """Draw in lines."""
    return lambda h: draw(h.flatten(2))


def block(draw: Draw) -> Draw:
    """Draw in blocks of 2 by 4 by 6."""
    return lambda h: draw(h.unflatten(1, (2, 2)).transpose(1, 2))


BACKWARD: dict[str, Draw] = {
    "TanhBackward": torch.tanh,
    "SigmoidBackward": torch.sigmoid,
    "SoftplusBackward": partial(functional.softplus, beta=2, threshold=1),
    "LogSigmoidBackward": functional.logsigmoid,
    "GeluBackward": functional.gelu,
    "EluBackward": partial(functional.elu, alpha=1.5),
    "ThresholdBackward": torch.relu,
    "SoftmaxBackwardData": partial(torch.softmax, dim=1),
}
PICTURES: dict[str, list[Draw]] = {
    "AvgPool2D": [
        lambda h: functional.avg_pool2d(h, 2),
        lambda h: functional.avg_pool2d(h, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        lambda h: functional.avg_pool2d(h, 2, divisor_override=3),
    ],
    "AvgPool3D": [block(lambda h: functional.avg_pool3d(h, 2, 1))],
    "AdaptiveAvgPool2D": [lambda h: functional.adaptive_avg_pool2d(h, (3, 4))],
    "AdaptiveAvgPool3D": [block(lambda h: functional.adaptive_avg_pool3d(h, (1, 3, 4)))],
    "MaxPool2DWithIndices": [
        lambda h: functional.max_pool2d(h, 2),
        lambda h: functional.max_pool2d(h, 3, 1, 1),
    ],
    "MaxPool3DWithIndices": [block(lambda h: functional.max_pool3d(h, 2))],
    "AdaptiveMaxPool2D": [lambda h: functional.adaptive_max_pool2d(h, 3)],
    "AdaptiveMaxPool3D": [block(lambda h: functional.adaptive_max_pool3d(h, 2))],
    "FractionalMaxPool2D": [
        lambda h: functional.fractional_max_pool2d(
            h, 2, 3, _random_samples=torch.full((len(h), 4, 2), 0.3, dtype=h.dtype)
        )
    ],
    "FractionalMaxPool3D": [
        block(
            lambda h: functional.fractional_max_pool3d(
                h,
                (1, 2, 2),
                (1, 2, 3),
                _random_samples=torch.full((len(h), 2, 3), 0.3, dtype=h.dtype),
            )
        )
    ],
    "MaxUnpool2D": [
        lambda h: functional.max_unpool2d(*functional.max_pool2d(h, 2, return_indices=True), (2, 2))
    ],
    "MaxUnpool3D": [
        block(
            lambda h: functional.max_unpool3d(
                *functional.max_pool3d(h, 2, return_indices=True), (2, 2, 2)
            )
        )
    ],
    "ReflectionPad1D": [line(lambda h: functional.pad(h, (2, 1), "reflect"))],
    "ReflectionPad2D": [lambda h: functional.pad(h, (2, 1, 1, 0), "reflect")],
    "ReflectionPad3D": [block(lambda h: functional.pad(h, (1, 1, 2, 0, 1, 1), "reflect"))],
    "ReplicationPad1D": [line(lambda h: functional.pad(h, (2, 1), "replicate"))],
    "ReplicationPad2D": [lambda h: functional.pad(h, (2, 1, 1, -1), "replicate")],
    "ReplicationPad3D": [block(lambda h: functional.pad(h, (1, 1, 2, 0, 1, 1), "replicate"))],
    "UpsampleNearest1D": [line(resized(30, "nearest"))],
    "UpsampleNearest2D": [resized((6, 5), "nearest"), scaled(1.7, "nearest")],
    "UpsampleNearest3D": [block(resized((3, 5, 7), "nearest"))],
    "UpsampleNearestExact1D": [line(resized(30, "nearest-exact"))],
    "UpsampleNearestExact2D": [resized((6, 5), "nearest-exact")],
    "UpsampleNearestExact3D": [block(resized((3, 5, 7), "nearest-exact"))],
    "UpsampleLinear1D": [line(resized(30, "linear", align_corners=True))],
    "UpsampleBilinear2D": [resized((6, 5), "bilinear"), scaled(1.7, "bilinear")],
    "UpsampleBicubic2D": [scaled(1.7, "bicubic", align_corners=True)],
    "UpsampleTrilinear3D": [block(scaled(1.7, "trilinear"))],
    "UpsampleBilinear2DAa": [resized((3, 4), "bilinear", antialias=True)],
    "UpsampleBicubic2DAa": [resized((3, 4), "bicubic", antialias=True)],
    "Im2Col": [lambda h: functional.unfold(h, (2, 3), stride=2, padding=1)],
    "Col2Im": [lambda h: functional.fold(h.flatten(2)[:, :, :6], (3, 4), 2)],
    "PixelShuffle": [lambda h: functional.pixel_shuffle(h, 2)],
    "PixelUnshuffle": [lambda h: functional.pixel_unshuffle(h, 2)],
    "ChannelShuffle": [lambda h: functional.channel_shuffle(h, 2)],
    "Unfold": [lambda h: h.unfold(2, 2, 1), lambda h: h[:, 0, 0].unfold(1, 3, 2)],
}


CASES: dict[str, list[Function]] = {
    # --- Smooth functions of each element
    "TanhBackward0": [
        elementwise(torch.tanh),
        lambda x, w: (w * x[:, 0] * x[:, 1]).tanh(),
        lambda x, w: (w * x[:, 1]).tanh(),
    ],
    "SigmoidBackward0": [elementwise(torch.sigmoid)],
    "SinBackward0": [elementwise(torch.sin), lambda x, w: (w * x[:, 0] * x[:, 1]).sin()],
    "CosBackward0": [elementwise(torch.cos)],
    "TanBackward0": [elementwise(lambda h: torch.tan(h / 2))],
    "SinhBackward0": [elementwise(torch.sinh)],
    "CoshBackward0": [elementwise(torch.cosh)],
    "ExpBackward0": [elementwise(torch.exp), lambda x, w: (w * x[:, 0] * x[:, 1]).exp()],
    "Expm1Backward0": [elementwise(torch.expm1)],
    "Exp2Backward0": [elementwise(torch.exp2)],
    "LogBackward0": [elementwise(torch.log)],
    "Log2Backward0": [elementwise(torch.log2)],
    "Log10Backward0": [elementwise(torch.log10)],
    "Log1PBackward0": [elementwise(torch.log1p)],
    "SqrtBackward0": [elementwise(torch.sqrt), lambda x, w: (w * x[:, 0] * x[:, 1]).sqrt()],
    "RsqrtBackward0": [elementwise(torch.rsqrt)],
    "ReciprocalBackward0": [
        elementwise(torch.reciprocal),
        lambda x, w: (w * x[:, 0] * x[:, 1]).reciprocal(),
    ],
    "PowBackward0": [elementwise(power_of(p)) for p in (0, 1, 2, 3, 5, -1, -2, 2.5, 0.5, -0.3)],
    "PowBackward1": [
        elementwise(lambda h: torch.pow(h, 1.05 + h)),
        lambda x, w: torch.pow(w * x, torch.tensor([2.0, 1.3], dtype=x.dtype)),
        lambda x, w: torch.pow(w * (x - 1.5), torch.tensor([2.0, 3.0], dtype=x.dtype)),
        lambda x, w: torch.pow(x, (2 * w).expand(2)),
        lambda x, w: torch.pow(w * x, torch.tensor([40, 3])) / 1e3,
        lambda x, w: torch.pow(w.expand(2), x),
    ],
    "PowBackward2": [elementwise(lambda h: torch.pow(1.7, h))],
    "AsinBackward0": [elementwise(lambda h: torch.asin(h / 4))],
    "AcosBackward0": [elementwise(lambda h: torch.acos(h / 4))],
    "AtanBackward0": [elementwise(torch.atan)],
    "AsinhBackward0": [elementwise(torch.asinh)],
    "AcoshBackward0": [elementwise(lambda h: torch.acosh(1.5 + h))],
    "AtanhBackward0": [elementwise(lambda h: torch.atanh(h / 4))],
    "ErfBackward0": [elementwise(torch.erf)],
    "ErfcBackward0": [elementwise(torch.erfc)],
    "LogSigmoidBackward0": [elementwise(functional.logsigmoid)],
    "SoftplusBackward0": [elementwise(lambda h: functional.softplus(h, beta=2, threshold=3))],
    "Atan2Backward0": [
        lambda x, w: torch.atan2(w * x[:, 0], x[:, 1]),
        lambda x, w: torch.atan2(w * x[:, 0], w),
        lambda x, w: torch.atan2(w, x[:, 1]),
    ],
    "SiluBackward0": [elementwise(functional.silu)],
    "MishBackward0": [elementwise(functional.mish)],
    "GeluBackward0": [
        elementwise(functional.gelu),
        elementwise(lambda h: functional.gelu(h, approximate="tanh")),
    ],
    "GluBackward0": [elementwise(functional.glu)],
    "LgammaBackward0": [elementwise(torch.lgamma)],
    "DigammaBackward0": [elementwise(torch.digamma)],
    "PolygammaBackward0": [elementwise(lambda h: torch.polygamma(2, h))],
    "ErfinvBackward0": [elementwise(lambda h: torch.erfinv(h / 4))],
    "SpecialLogNdtrBackward0": [elementwise(torch.special.log_ndtr)],
    "LogitBackward0": [
        elementwise(lambda h: torch.logit(h / 4)),
        elementwise(lambda h: torch.logit(h / 4, 0.3)),
    ],
    "SpecialEntrBackward0": [elementwise(torch.special.entr)],
    # --- Functions in pieces
    "ReluBackward0": [elementwise(lambda h: torch.relu(h.sin() - 0.8))],
    "ThresholdBackward0": [elementwise(lambda h: functional.threshold(h.sin(), 0.8, 0.3))],
    "LeakyReluBackward0": [elementwise(lambda h: functional.leaky_relu(h.sin() - 0.8, 0.3))],
    "AbsBackward0": [
        elementwise(lambda h: (h.sin() - 0.8).abs()),
        lambda x, w: point(x, w).abs(),
    ],
    "ClampBackward0": [
        elementwise(lambda h: h.sin().clamp(torch.tensor(0.7), torch.tensor(0.9))),
    ],
    "ClampBackward1": [
        elementwise(lambda h: h.sin().clamp(0.7, 0.9)),
        elementwise(lambda h: h.sin().clamp(None, 0.9)),
        elementwise(lambda h: h.sin().clamp(0.7)),
    ],
    "ClampMinBackward0": [elementwise(lambda h: h.sin().clamp_min(0.8))],
    "ClampMinBackward1": [elementwise(lambda h: h.sin().clamp_min(torch.tensor(0.8)))],
    "ClampMaxBackward0": [elementwise(lambda h: h.sin().clamp_max(0.8))],
    "ClampMaxBackward1": [elementwise(lambda h: h.sin().clamp_max(torch.tensor(0.8)))],
    "HardtanhBackward0": [elementwise(lambda h: functional.hardtanh(h.sin(), -0.8, 0.8))],
    "HardswishBackward0": [elementwise(lambda h: functional.hardswish(6 * h.sin() - 2))],
    "HardshrinkBackward0": [elementwise(lambda h: functional.hardshrink(h.sin(), 0.8))],
    "SoftshrinkBackward0": [elementwise(lambda h: functional.softshrink(h.sin(), 0.8))],
    "EluBackward0": [
        elementwise(lambda h: functional.elu(h.sin() - 0.8, 1.3)),
        elementwise(lambda h: functional.selu(h.sin() - 0.8)),
    ],
    "CeluBackward0": [elementwise(lambda h: functional.celu(h.sin() - 0.8, 2))],
    "PreluKernelBackward0": [lambda x, w: functional.prelu(x.sin() - 0.8, w.reshape(1))],
    "WhereBackward0": [
        lambda x, w: torch.where(x > 1, (w * x).sin(), x**3),
        lambda x, w: torch.where(x > 1, w, x**3),
        lambda x, w: torch.where(x > 1, x**3 * w, 0.5),
    ],
    "MaskedFillBackward0": [lambda x, w: (w * x).sin().masked_fill(x > 1, 0.5)],
    "MaskedFillBackward1": [
        lambda x, w: (w * x).sin().masked_fill(x > 1, torch.tensor(0.5, dtype=x.dtype))
    ],
    "MaximumBackward0": [
        lambda x, w: torch.maximum((w * x).sin(), x**3),
        lambda x, w: torch.maximum(w * x, w * x) ** 2,
        lambda x, w: torch.maximum(w * x, CONSTANT[-2:]) ** 2,
        lambda x, w: torch.maximum(CONSTANT[-2:], w * x) ** 2,
    ],
    "MinimumBackward0": [lambda x, w: torch.minimum((w * x).sin(), x**3)],
    "FloorBackward0": [elementwise(lambda h: h.floor() * h.sin())],
    "CeilBackward0": [elementwise(lambda h: h.ceil() * h.sin())],
    "RoundBackward0": [elementwise(lambda h: h.round() * h.sin())],
    "RoundBackward1": [elementwise(lambda h: h.round(decimals=1) * h.sin())],
    "TruncBackward0": [elementwise(lambda h: h.trunc() * h.sin())],
    "SignBackward0": [elementwise(lambda h: h.sign() * h.sin())],
    "FracBackward0": [elementwise(lambda h: h.sin().frac())],
    # --- Arithmetic
    "AddBackward0": [
        lambda x, w: torch.add(x.sin(), w * x**2, alpha=0.3),
        lambda x, w: w + x.sin(),
        lambda x, w: x.sin() + w,
        lambda x, _: x.sin() + 1.5,
    ],
    "AddBackward1": [elementwise(lambda h: functional.rms_norm(h, (2,)) + h)],
    "SubBackward0": [
        lambda x, w: torch.sub(x.sin(), w * x**2, alpha=0.3),
        lambda x, w: w - x.sin(),
        lambda x, _: x.sin() - 1.5,
    ],
    "SubBackward1": [lambda x, w: torch.ops.aten.sub.Scalar((w * x).sin(), 0.5, 2)],
    "RsubBackward0": [
        lambda x, w: torch.rsub(x.sin(), w * x**2, alpha=0.3),
        lambda x, w: torch.rsub(w, x.sin()),
    ],
    "RsubBackward1": [lambda x, w: 1.5 - (w * x).sin()],
    "NegBackward0": [elementwise(lambda h: -(h.sin()))],
    "MulBackward0": [
        lambda x, w: (w * x).sin() * x.exp(),
        lambda x, w: x[:, :1] * (w * x).sin(),
        lambda x, w: w * x.sin(),
        lambda x, w: x.sin() * w * 1.5,
        lambda x, _: x[:, 0] * x[:, 1],
    ],
    "MulBackward1": [lambda x, w: torch.ops.aten.mul.Scalar((w * x).sin(), 1.5)],
    "DivBackward0": [
        lambda x, w: (w * x).sin() / x.exp(),
        lambda x, w: w / x,
        lambda x, w: x.sin() / w,
        lambda x, _: x.sin() / 2.1,
    ],
    "DivBackward1": [lambda x, w: torch.ops.aten.div.Scalar((w * x).sin(), 1.5)],
    "AddcmulBackward0": [
        lambda x, w: torch.addcmul(x.sin(), w * x, x.exp(), value=0.3),
        lambda x, w: torch.addcmul(x.sin(), w, w),
        lambda x, w: torch.addcmul(w, x, w.expand(2), value=2),
    ],
    "LerpBackward0": [
        lambda x, w: torch.lerp(x.sin(), w * x**2, 0.3),
        lambda x, w: torch.lerp(w.expand(2), x.sin(), 0.3),
    ],
    # --- Compounds
    "HypotBackward0": [
        lambda x, w: torch.hypot(w * x.sin(), x.exp()),
        lambda x, w: torch.hypot(w, x.exp()),
        lambda x, w: torch.hypot(x.exp(), w),
    ],
    "LogaddexpBackward0": [
        lambda x, w: torch.logaddexp(w * x.sin(), x**2),
        lambda x, w: torch.logaddexp(w, x**2),
        lambda x, w: torch.logaddexp(x**2, w),
        lambda x, w: torch.logaddexp(w * x, w * x),
        lambda x, w: torch.logaddexp(torch.where(x > 1, w * x, -torch.inf), LATER[0, 1:]).exp(),
    ],
    "RemainderBackward0": [elementwise(lambda h: h.sin().remainder(0.3) ** 2)],
    "RemainderBackward1": [
        elementwise(lambda h: h.sin().remainder(torch.tensor(0.3, dtype=h.dtype)) ** 2)
    ],
    "FmodBackward0": [elementwise(lambda h: h.sin().fmod(0.3) ** 2)],
    "FmodBackward1": [elementwise(lambda h: h.sin().fmod(torch.tensor(0.3, dtype=h.dtype)) ** 2)],
    "DivBackward2": [
        lambda x, w: x.sin() + torch.div(w * x.exp(), x, rounding_mode="floor"),
        lambda x, w: torch.div(w * x.exp(), x, rounding_mode=None),
    ],
    "DivBackward3": [
        lambda x, w: x.sin() + torch.ops.aten.div.Scalar_mode(w * x, 0.3, rounding_mode="trunc"),
        lambda x, w: torch.ops.aten.div.Scalar_mode((w * x).sin(), 0.3, rounding_mode=None),
    ],
    "AddcdivBackward0": [
        lambda x, w: torch.addcdiv(x.sin(), w * x, 2 + x, value=0.3),
        lambda x, w: torch.addcdiv(w, w * x.sin(), w),
        lambda x, w: torch.addcdiv(x.sin(), w, w),
        lambda x, w: torch.addcdiv(w, w, 2 + x),
    ],
    "LinalgCrossBackward0": [
        lambda x, w: torch.linalg.cross(vectors(w * x.sin()), vectors(x.exp())),
        lambda x, w: torch.linalg.cross(vectors(w * x.sin()), w * CONSTANT[None, :3]),
        lambda x, w: torch.linalg.cross(w * CONSTANT[None, :3], vectors(x.exp())),
        lambda x, w: torch.linalg.cross(
            vectors(x)[..., None], vectors(w * x.sin())[..., None], dim=1
        ),
    ],
    "DiagEmbedBackward0": [
        lambda x, w: (w * x).sin().diag_embed(),
        lambda x, w: (x.sin() @ (w * MATRIX)).diag_embed(-1, 2, 1).sin(),
    ],
    "Deg2RadBackward0": [elementwise(lambda h: h.sin().deg2rad())],
    "Rad2DegBackward0": [elementwise(lambda h: h.sin().rad2deg())],
    # --- Products of matrices
    "MmBackward0": [
        lambda x, w: (x.sin() @ (w * MATRIX)).tanh(),
        lambda x, w: (w * MATRIX.t() @ x.t().sin()).t().tanh(),
    ],
    "AddmmBackward0": [
        lambda x, w: torch.addmm(w, x.sin(), MATRIX, beta=0.5, alpha=2).tanh(),
        lambda x, w: torch.addmm((w * x).sin(), x @ MATRIX, MATRIX.t()),
        lambda x, w: torch.addmm(x.sin(), w.expand(len(x), 3), torch.ones(3, 2, dtype=x.dtype)),
        lambda x, w: torch.addmm(x.sin()[:, :1], w.expand(len(x), 4), MATRIX.t()).tanh(),
    ],
    "BmmBackward0": [
        lambda x, w: (w * x).sin()[:, :, None] @ x.exp()[:, None, :],
        lambda x, w: (x.sin()[:, :, None] @ w.expand(len(x), 1, 3)).tanh(),
        lambda x, w: (w.expand(len(x), 3, 1) @ x.sin()[:, None, :]).tanh(),
    ],
    "TrilinearBackward0": [
        lambda x, w: functional.bilinear((w * x).sin(), x.exp(), CONSTANT.view(2, 2, 2)),
        lambda x, w: functional.bilinear(x.sin(), w * constant_channels(x), CONSTANT.view(2, 2, 2)),
        lambda x, w: functional.bilinear(
            constant_channels(x), x.sin(), w * CONSTANT.view(2, 2, 2), w.expand(2)
        ),
        lambda x, _: functional.bilinear(x.sin(), constant_channels(x), CONSTANT.view(2, 2, 2)),
        lambda x, _: functional.bilinear(constant_channels(x), x.sin(), CONSTANT.view(2, 2, 2)),
    ],
    "BaddbmmBackward0": [
        lambda x, w: torch.baddbmm(w, (w * x).sin()[:, :, None], x[:, None, :], beta=2, alpha=3)
    ],
    "MvBackward0": [
        lambda x, w: ((x.sin() @ MATRIX) @ (w * CONSTANT[:4])).tanh(),
    ],
    "AddmvBackward0": [
        lambda x, w: torch.addmv((w * x[:, 0]).sin(), x.exp(), CONSTANT[:2], beta=2, alpha=3),
        lambda x, w: torch.addmv(x[:, 0].sin(), w.expand(len(x), 2), CONSTANT[:2]),
    ],
    "ConvolutionBackward0": [
        lambda x, w: functional.conv1d((x.sin() @ MATRIX)[:, None], w.expand(2, 1, 3), padding=1),
        lambda x, w: functional.conv_transpose1d(
            (w * x).sin()[:, None], CONSTANT.view(1, 4, 2), CONSTANT[:4], stride=2
        ),
    ],
    # --- Views
    "AliasBackward0": [lambda x, w: torch.ops.aten.alias((w * x).sin())],
    "CloneBackward0": [lambda x, w: (w * x).sin().clone()],
    "ToCopyBackward0": [
        lambda x, w: (w * x).sin().to(torch.float64, copy=True),
        lambda x, w: ((w * x).to(torch.complex128) * 1j).exp().imag,
    ],
    "ViewBackward0": [
        lambda x, w: (w * x).sin().view(-1, 1, 2),
        lambda x, w: ((x[:, None] @ MATRIX).view(-1, 2, 2) * w).sin().view(-1, 4),
        lambda x, w: (
            (x.expand(2, *x.shape).transpose(0, 1) * w).reshape(-1, 2).sin().view(len(x), 4)
        ),
    ],
    "UnsafeViewBackward0": [lambda x, w: (x.sin()[:, None] @ (w * MATRIX)).tanh()],
    "ReshapeAliasBackward0": [
        lambda x, w: torch.ops.aten._reshape_alias((w * x).sin(), [len(x), 1, 2], [2, 2, 1])
    ],
    "SqueezeBackward0": [lambda x, w: (w * x).sin()[:, None].squeeze()],
    "SqueezeBackward1": [lambda x, w: (w * x).sin()[:, None].squeeze(1)],
    "SqueezeBackward2": [lambda x, w: (w * x).sin()[:, None, :, None].squeeze((1, 3))],
    "SqueezeBackward5": [
        lambda x, w: torch.func.vmap(lambda row: (w * row).sin() @ MATRIX)(x).tanh()
    ],
    "UnsqueezeBackward0": [lambda x, w: (w * x).sin().unsqueeze(1)],
    "ExpandBackward0": [lambda x, w: (w * x).sin()[:, None].expand(-1, 3, 2)],
    "RepeatBackward0": [lambda x, w: (w * x).sin().repeat(1, 3)],
    "TBackward0": [lambda x, w: (w * x).t().sin().t()],
    "TransposeBackward0": [lambda x, w: (w * x)[:, None].transpose(1, 2).sin()],
    "PermuteBackward0": [lambda x, w: (w * x)[:, None].permute(1, 2, 0).sin().permute(2, 1, 0)],
    # --- Parts
    "SliceBackward0": [
        lambda x, w: (w * x).sin()[:, 1:],
        lambda x, w: (x.sin() @ (w * MATRIX))[:, ::2].tanh(),
        lambda x, w: (x.sin() @ (w * MATRIX))[:, -3:-1].tanh(),
    ],
    "SelectBackward0": [lambda x, w: (w * x).sin()[:, 1], lambda x, w: (w * x).sin()[..., -2]],
    "UnbindBackward0": [lambda x, w: (w * x).sin().unbind(1)[1] * x.unbind(1)[0]],
    "TransposeBackward1": [lambda x, w: (w * x)[:, None].clone().transpose_(1, 2).sin()],
    "UnsafeSplitBackward0": [
        lambda x, w: torch.unsafe_split(x.sin() @ (w * MATRIX), 3, 1)[1].tanh()
    ],
    "SplitBackward0": [lambda x, w: (x.sin() @ (w * MATRIX)).split(3, 1)[1].tanh()],
    "SplitWithSizesBackward0": [lambda x, w: (x.sin() @ (w * MATRIX)).split([1, 3], 1)[1].tanh()],
    "DiagonalBackward0": [lambda x, w: ((w * x).sin()[:, :, None] * x[:, None]).diagonal(1, 1, 2)],
    "IndexBackward0": [
        lambda x, w: (w * x).sin()[:, [1, 0, 1]],
        lambda x, w: (w * x).sin()[:, torch.tensor([[1, 0], [-1, 1]])],
        lambda x, w: (w * x).sin()[:, torch.tensor([False, True])],
        lambda x, w: (w * x).sin()[torch.tensor(True)][0],
        lambda x, w: square(w * x, 3)[:, [0, 2, 1], [1, 1, -1]],
        lambda x, w: square(w * x, 3)[:, torch.ones(3, 3, dtype=torch.bool).triu()],
        lambda x, w: (
            square(w * x, 4).unflatten(1, (2, 2))[:, [[0], [1]], :, [1, 2]].permute(2, 0, 1, 3)
        ),
    ],
    "UnsafeSplitWithSizesBackward0": [
        lambda x, w: (x.sin() @ (w * MATRIX)).unsafe_split_with_sizes([1, 3], 1)[1].tanh()
    ],
    "IndexSelectBackward0": [lambda x, w: (w * x).sin().index_select(1, torch.tensor([1, 0, 1]))],
    "GatherBackward0": [
        lambda x, w: (w * x).sin().gather(1, torch.ones(len(x), 3, dtype=torch.int64))
    ],
    "SortBackward0": [lambda x, w: (w * x).sin().sort(1).values],
    "SortBackward1": [lambda x, w: (w * x).sin().sort(dim=1, stable=True).values],
    "TopkBackward0": [lambda x, w: (w * x).sin().topk(1, 1).values],
    "MaxBackward0": [
        lambda x, w: (w * x).sin().max(1).values,
        lambda x, w: (w * x).sin().max(1, keepdim=True).values,
    ],
    "MinBackward0": [lambda x, w: (w * x).sin().min(1).values],
    "AmaxBackward0": [
        lambda x, w: (w * x).sin().amax(1),
        lambda x, w: (w * x).sin()[:, [0, 1, 0, 1]].amax(1, keepdim=True),
    ],
    "AminBackward0": [lambda x, w: (w * x).sin().amin(1)],
    # --- What is written into views
    "CopySlices": [
        lambda x, w: put_in_turn((w * x).sin(), [((ALL, 0), (w * x[:, 1]).exp())]),
        lambda x, w: put_in_turn((w * x).sin(), [((ALL, slice(1, 2)), 0.5)]),
        lambda x, w: put_in_turn(torch.ones(3, 4, dtype=x.dtype), [((ALL, slice(1, 3)), w * x**2)]),
        lambda x, w: put_in_turn(
            (w * x).sin(), [((ALL, 0), x[:, 1].exp()), ((ALL, 1), (w * x).prod(1))]
        ),
        lambda x, w: put_in_turn(square(w * x, 3), [((ALL, slice(None, None, 2), 1), x.exp())]),
        lambda x, w: put_in_turn((w * x).sin().float(), [((ALL, 0), x[:, 1])]).double(),
        added_to_a_column,
        lambda x, w: functional.pad((w * x).sin()[:, None], (1, 2), mode="circular"),
    ],
    "CopyBackwards": [lambda x, w: (w * x).sin().copy_(x.exp() * w)],
    "AsStridedBackward0": [
        written_and_read,
        lambda x, w: square(w * x, 2).as_strided((3, 2), (4, 3)),
    ],
    # --- What is put in places
    "IndexPutBackward0": [
        lambda x, w: of_some_rows(x, w, SIDE, torch.zeros_like(x)),
        lambda x, w: of_some_rows(x, w, SIDE, (w * x).sin()),
        lambda x, w: of_some_rows(x, w, torch.tensor([2, -3]), (w * x).sin()),
        lambda x, w: of_some_rows(x, w, torch.tensor([2, -3]), w * x),
        lambda x, w: put((w * x).sin(), SIDE, (w * x[SIDE])[:, :1].exp()),
        lambda x, w: of_some_rows(x, w, SIDE & ~SIDE, (w * x).sin()),
        lambda x, w: put(square(w * x, 3), (ALL, [0, 2], [1, -1]), x.exp()),
        lambda x, w: put(square(w * x, 3), (ALL, UPPER), x[:, :1].exp()),
        lambda x, w: torch.ops.aten.index_put(
            square(w * x, 3), [None, PLACES, PLACES * 0], x.exp(), accumulate=True
        ),
        lambda x, w: put(square(w * x, 3), (ALL, [0, 2], [1, -1]), w),
        lambda x, w: put(torch.ones(3, 3, dtype=x.dtype), (ALL, [0, 2]), w * x.exp()),
        lambda x, w: put(torch.ones(3, 3, dtype=x.dtype), (ALL, [0, 2]), w * x[:, :1].exp()),
    ],
    "IndexCopyBackward0": [
        lambda x, w: square(w * x, 3).index_copy(
            1, PLACES, (w * x).exp()[:, :, None].expand(3, 2, 3)
        ),
        lambda x, w: square(w * x, 3).index_copy(-1, PLACES, torch.ones(3, 3, 2, dtype=x.dtype)),
        lambda x, w: torch.ones(3, 4, dtype=x.dtype).index_copy(1, PLACES, (w * x).exp()),
    ],
    "IndexAddBackward0": [
        lambda x, w: (w * x).sin().index_add(1, torch.tensor([1, 1]), x.exp(), alpha=3),
        lambda x, w: torch.ones(3, 4, dtype=x.dtype).index_add(1, PLACES, (w * x).exp()),
    ],
    "IndexFillBackward0": [lambda x, w: (w * x).sin().index_fill(1, torch.tensor([1]), 3.0)],
    "ScatterBackward0": [
        lambda x, w: square(w * x, 2).flatten(1).scatter(1, PLACES.expand(3, 2), (w * x).exp()),
        lambda x, w: torch.ones(3, 4, dtype=x.dtype).scatter(
            1, PLACES[:1].expand(3, 1), w * x[:, :1].exp()
        ),
    ],
    "ScatterBackward1": [
        lambda x, w: (w * x).sin().scatter(1, torch.ones(3, 1, dtype=torch.int64), 0.5)
    ],
    "ScatterAddBackward0": [
        lambda x, w: (w * x).sin().scatter_add(1, torch.ones(3, 2, dtype=torch.int64), x.exp()),
    ],
    "SliceScatterBackward0": [
        lambda x, w: square(w * x, 3).slice_scatter(
            x[:, :, None].exp().expand(3, 2, 3), 1, 0, 3, 2
        ),
        lambda x, w: square(w * x, 3).slice_scatter(torch.ones(3, 1, 3, dtype=x.dtype), 1, 2),
    ],
    "SelectScatterBackward0": [
        lambda x, w: square(w * x, 2).select_scatter((w * x).exp(), 1, -1),
        lambda x, w: square(w * x, 2).select_scatter(torch.ones(3, 2, dtype=x.dtype), 2, 0),
        lambda x, w: torch.ones(3, 2, 2, dtype=x.dtype).select_scatter((w * x).exp(), 2, 0),
    ],
    # --- Joints
    "CatBackward0": [
        lambda x, w: torch.cat([(w * x).sin(), x**2, x[:, :1]], 1),
        lambda x, w: torch.cat([constant_channels(x), (w * x).sin()], 1) ** 2,
        lambda x, w: torch.cat([w.expand(len(x), 2), (w * x).sin(), constant_channels(x)], -1),
        lambda x, w: torch.cat([x[:, :1] ** 2, x[:, 1:] * w], 1).sum(1).sin(),
    ],
    "StackBackward0": [
        lambda x, w: torch.stack([(w * x).sin(), constant_channels(x), x**2], 1),
        lambda x, w: torch.stack([(w * x).sin(), x**2], -1),
    ],
    # --- Sums
    "SumBackward1": [
        lambda x, w: (w * x).sin().sum(1),
        lambda x, w: (w * x).sin().sum(-1, keepdim=True),
    ],
    "MeanBackward1": [lambda x, w: (w * x).sin().mean(1)],
    "CumsumBackward0": [lambda x, w: (w * x).sin().cumsum(1)],
    "FlipBackward0": [lambda x, w: (w * x).sin().flip(1)],
    "RollBackward0": [lambda x, w: (w * x).sin().roll(1, 1)],
    "TrilBackward0": [lambda x, w: ((w * x).sin()[:, :, None] * x[:, None]).tril()],
    "TriuBackward0": [lambda x, w: ((w * x).sin()[:, :, None] * x[:, None]).triu(1)],
    "ConstantPadNdBackward0": [lambda x, w: functional.pad((w * x).sin(), (1, 2), value=0.3)],
    # --- Statistics
    "LinalgVectorNormBackward0": [
        lambda x, w: torch.linalg.vector_norm((w * x - 0.9).sin(), 1, dim=1),
        lambda x, w: torch.linalg.vector_norm(w * x.exp(), dim=1),
        lambda x, w: torch.linalg.vector_norm(w * x.exp(), dim=1, keepdim=True),
        lambda x, w: torch.linalg.vector_norm(w * x.exp() @ MATRIX, 3, dim=1),
        lambda x, w: torch.linalg.vector_norm(w * x.exp() @ MATRIX, 4, dim=1, keepdim=True),
        lambda x, w: torch.linalg.vector_norm(w * x.exp() @ MATRIX, torch.inf, dim=1),
        lambda x, w: torch.linalg.vector_norm(point(x, w), dim=1),
    ],
    "NormBackward1": [lambda x, w: torch.ops.aten.norm.ScalarOpt_dim(w * x.exp(), 2, [1])],
    "ProdBackward1": [lambda x, w: (w * x).sin().prod(1, keepdim=True)],
    "VarBackward0": [
        lambda x, w: (w * x.exp() @ MATRIX).var(1),
        lambda x, w: (w * x.exp() @ MATRIX).var(1, correction=0, keepdim=True),
    ],
    "StdBackward0": [lambda x, w: (w * x.exp() @ MATRIX).std(1)],
    "VarMeanBackward0": [
        lambda x, w: torch.stack(torch.var_mean(w * x.exp() @ MATRIX, 1), 1),
        lambda x, w: torch.cat(torch.var_mean(w * x.exp() @ MATRIX, 1, keepdim=True), 1),
    ],
    "SoftmaxBackward0": [lambda x, w: (w * x.exp()).softmax(1)],
    "SafeSoftmaxBackward0": [lambda x, w: torch._safe_softmax(w * x.exp(), 1)],
    "LogSoftmaxBackward0": [lambda x, w: (w * x.exp()).log_softmax(-1)],
    "LogsumexpBackward0": [
        lambda x, w: (w * x.exp()).logsumexp(1),
        lambda x, w: (w * x.exp()).logsumexp(1, keepdim=True),
    ],
    # --- Matrices
    "LinalgDetBackward0": [
        lambda x, w: torch.linalg.det(w * square(x, 1)),
        lambda x, w: torch.linalg.det(w * square(x, 2)),
        lambda x, w: torch.linalg.det(w * square(x, 5)),
        lambda x, w: torch.linalg.det(w * square(x, 9)),
        lambda x, w: torch.linalg.det(w * square(x, 3)[:, None] * CONSTANT[:2, None, None].exp()),
    ],
    "LinalgSlogdetBackward0": [
        lambda x, w: torch.linalg.slogdet(square(w * x, 1)).logabsdet,
        lambda x, w: torch.linalg.slogdet(square(w * x, 4)).logabsdet,
        lambda x, w: torch.logdet(definite(w * x, 2)),
        lambda x, w: (
            torch.linalg.slogdet(torch.stack([square(w * x, 2), square(x, 2)], 1)).logabsdet
        ),
    ],
    "LinalgInvExBackward0": [lambda x, w: torch.linalg.inv(w * square(x, 3))],
    "LinalgSolveExBackward0": [
        lambda x, w: torch.linalg.solve(w * square(x, 3), square(x, 3)[:, :, :2].exp()),
        lambda x, w: torch.linalg.solve(w * square(x, 3), square(x, 3)[:, :2].exp(), left=False),
        lambda x, w: torch.linalg.solve(square(w * x, 2), x.exp()),
        lambda x, w: torch.linalg.solve(square(w * x, 2), CONSTANT[:2]),
        lambda x, w: torch.linalg.solve(square(w * x, 2), w * MATRIX),
        lambda x, w: torch.linalg.solve(w * square(CONSTANT[:2], 2), x.exp().unsqueeze(-1)),
        lambda x, w: torch.linalg.solve(w * square(CONSTANT[:2], 2), x.exp().mT).mT,
    ],
    "LinalgSolveTriangularBackward0": [
        lambda x, w: torch.linalg.solve_triangular(
            w * square(x, 3), square(x, 3)[:, :, :2].exp(), upper=True
        ),
        lambda x, w: torch.linalg.solve_triangular(
            w * square(x, 3), square(x, 3)[:, :2].exp(), upper=False, left=False
        ),
        lambda x, w: torch.linalg.solve_triangular(
            w * square(x, 3), CONSTANT[:3, None], upper=False, unitriangular=True
        ),
        lambda x, w: torch.linalg.solve_triangular(
            w * square(CONSTANT[:2], 2), x.exp().unsqueeze(-1), upper=True
        ),
    ],
    "LinalgCholeskyExBackward0": [
        lambda x, w: torch.linalg.cholesky(w * definite(x, 3)),
        lambda x, w: torch.linalg.cholesky(definite(w * x, 2), upper=True),
    ],
    "LinalgQrBackward0": [
        lambda x, w: torch.linalg.qr(w * square(x, 3)).Q,
        lambda x, w: torch.linalg.qr(square(w * x, 3)[:, :, :2]).R,
        lambda x, w: torch.linalg.qr(square(w * x, 3)[:, :, :2]).Q,
        lambda x, w: torch.linalg.qr(square(w * x, 3)[:, :2]).R,
        lambda x, w: torch.linalg.qr(square(w * x, 3)[:, :2], mode="complete").Q,
    ],
    "LinalgLuBackward0": [
        lambda x, w: torch.linalg.lu(w * square(x, 3).flip(1)).L,
        lambda x, w: torch.linalg.lu(square(w * x, 3).flip(1)).U,
    ],
    "LinalgSvdBackward0": [
        lambda x, w: torch.linalg.svdvals(w * apart(x, 3)),
        lambda x, w: torch.linalg.svd(apart(w * x, 2)).U.abs(),
        lambda x, w: torch.linalg.svd(apart(w * x, 3)[:, :, :2], full_matrices=False).U.abs(),
        lambda x, w: torch.linalg.svd(apart(w * x, 3)[:, :2], full_matrices=False).Vh.abs(),
        lambda x, w: torch.linalg.matrix_norm(w * apart(x, 2), "nuc"),
    ],
    "CholeskySolveBackward0": [
        lambda x, w: torch.cholesky_solve(square(x, 2), torch.linalg.cholesky(w * definite(x, 2))),
        lambda x, w: torch.cholesky_solve(
            CONSTANT[:2, None], torch.linalg.cholesky(definite(w * x, 2), upper=True), upper=True
        ),
        lambda x, w: torch.cholesky_solve(w * x.exp()[..., None], square(CONSTANT[:2], 2).tril()),
        lambda x, w: torch.cholesky_solve(CONSTANT[:2, None], w * square(x, 2).tril()),
    ],
    "CholeskyInverseBackward0": [
        lambda x, w: torch.cholesky_inverse(torch.linalg.cholesky(w * definite(x, 3))),
        lambda x, w: torch.cholesky_inverse(w * square(x, 2).triu(), upper=True),
    ],
    "LinalgLstsqBackward0": [
        lambda x, w: torch.linalg.lstsq(w * square(x, 3)[:, :, :2], square(x, 3).exp()).solution,
        lambda x, w: torch.linalg.lstsq(square(w * x, 3)[:, :2], x.exp()[..., None]).solution,
        lambda x, w: torch.linalg.lstsq(square(w * x, 2), MATRIX.expand(3, 2, 4)).solution,
        lambda x, w: (
            torch.linalg.lstsq(square(CONSTANT[:2], 2).expand(3, 2, 2), w * square(x, 2)).solution
        ),
    ],
    "LinalgPinvBackward0": [
        lambda x, w: torch.linalg.pinv(w * square(x, 3)[:, :, :2]),
        lambda x, w: torch.linalg.pinv(square(w * x, 3)[:, :2]),
        lambda x, w: torch.linalg.pinv(w * definite(x, 2), hermitian=True),
    ],
    # --- Special functions
    "SincBackward0": [elementwise(torch.sinc), elementwise(lambda h: torch.sinc(h * 2 + 2))],
    "XlogyBackward0": [
        lambda x, w: torch.xlogy(w * x, 1 + x.exp()),
        lambda x, w: torch.xlogy(w * x[:, :1] ** 2, x.detach()),
        lambda x, w: torch.xlogy(x.detach(), w * x),
    ],
    "XlogyBackward1": [elementwise(lambda h: torch.xlogy(2.0, h))],
    "XlogyBackward2": [elementwise(lambda h: torch.xlogy(h, 2.0))],
    "SpecialXlog1PyBackward0": [lambda x, w: torch.special.xlog1py(w * x, x.exp())],
    "SpecialXlog1PyBackward1": [elementwise(lambda h: torch.special.xlog1py(2.0, h))],
    "SpecialXlog1PyBackward2": [elementwise(lambda h: torch.special.xlog1py(h, 2.0))],
    "I0Backward0": [
        elementwise(lambda h: torch.i0(h + 5)),
        elementwise(lambda h: torch.i0(h + 40)),
    ],
    "SpecialI1Backward0": [elementwise(lambda h: torch.special.i1(h + 5))],
    "SpecialI0EBackward0": [
        elementwise(lambda h: torch.special.i0e(h + 2)),
        elementwise(lambda h: torch.special.i0e(-h - 2)),
    ],
    "SpecialI1EBackward0": [elementwise(lambda h: torch.special.i1e(h + 2))],
    "Logaddexp2Backward0": [
        lambda x, w: torch.logaddexp2(w * x, x.exp()),
        lambda x, w: torch.logaddexp2(x.detach(), w * x * x),
    ],
    "FmaxBackward0": [lambda x, w: torch.fmax(w * x * x, x.sin())],
    "FminBackward0": [lambda x, w: torch.fmin(w * x * x, torch.full_like(x, torch.nan))],
    "CopysignBackward0": [lambda x, w: torch.copysign(w * x.exp(), -x)],
    "CopysignBackward1": [elementwise(lambda h: torch.copysign(h.exp(), -2.0))],
    "NanToNumBackward0": [elementwise(lambda h: h.masked_fill(h > 1, torch.inf).nan_to_num())],
    "KthvalueBackward0": [lambda x, w: vectors(w * x.exp()).kthvalue(2, 1).values],
    "ModeBackward0": [lambda x, w: vectors(w * x.exp()).mode(1).values],
    "MedianBackward1": [lambda x, w: vectors(w * x.exp()).median(1, keepdim=True).values],
    "NanmedianBackward1": [lambda x, w: vectors(w * x.exp()).nanmedian(1).values],
    "CummaxBackward0": [lambda x, w: vectors(w * x.exp()).cummax(1).values],
    "CumminBackward0": [lambda x, w: vectors(w * x.exp()).cummin(1).values],
    # --- Complex numbers, on the way from real ones to real ones
    "ComplexBackward0": [
        of_complex(lambda z: z * z),
        lambda x, w: (point(x, w) + 1).abs(),
        lambda x, w: torch.complex((w * x).exp(), x.detach()).log().imag,
        lambda x, w: torch.complex(x.detach(), (w * x).exp()).log().imag,
        lambda x, w: torch.complex((w * x[:, :1]).exp(), (w * x).sin()).sqrt().imag,
    ],
    "PolarBackward0": [
        lambda x, w: torch.polar((w * x).exp(), x * x).sin().imag,
        lambda x, w: (torch.polar((w * x).exp(), x * x) + 1).abs(),
        lambda x, w: torch.polar((w * x).exp(), x.detach()).imag,
        lambda x, w: torch.polar(x.detach(), w * x * x).imag,
    ],
    "ViewAsRealBackward0": [
        of_complex(torch.exp),
        of_complex(torch.exp2),
        of_complex(torch.expm1),
        of_complex(torch.log),
        of_complex(torch.log2),
        of_complex(torch.log1p),
        of_complex(torch.sqrt),
        of_complex(torch.rsqrt),
        of_complex(torch.sin),
        of_complex(torch.cos),
        of_complex(torch.tan),
        of_complex(torch.sinh),
        of_complex(torch.cosh),
        of_complex(torch.tanh),
        of_complex(torch.sigmoid),
        of_complex(lambda z: 1 / z),
        of_complex(lambda z: z**2),
        of_complex(lambda z: z**-3),
        of_complex(lambda z: z**2.5),
        of_complex(lambda z: z ** (1 + 2j)),
        of_complex(lambda z: (1 + 1j) ** z),
        of_complex(lambda z: torch.addcmul(z, z, z.exp())),
        of_complex(lambda z: torch.addcdiv(z, z.exp(), 2 + z)),
        of_complex(lambda z: torch.where(z.real > 0.6, z, z.exp() * z.abs())),
        of_complex(lambda z: z.masked_fill(z.real > 0.6, 1j).exp()),
        of_complex(lambda z: (z @ torch.polar(MATRIX, MATRIX)).exp()),
        of_complex(lambda z: torch.einsum("ij,ik->ijk", z, z.mH.mT.exp()).flatten(1)),
        of_complex(lambda z: z.flip(1).exp().cumsum(1).mean(1, keepdim=True)),
        of_complex(lambda z: put(z, (ALL, 0), z[:, 1].exp())),
        lambda x, w: ((1 + 1j) ** (w * x)).imag,
        lambda x, w: ((w * x) ** (1 + 2j)).imag,
        lambda x, w: (point(x, w) * (w * x).exp()).imag,
        lambda x, w: ((w * x).exp() / point(x, w)).imag,
        lambda x, w: ((w * x).exp() + point(x, w)).log().imag,
    ],
    "ConjBackward0": [
        of_complex(lambda z: z.conj() * z.exp()),
        lambda x, w: (point(x, w).conj() + 1).abs(),
    ],
    "ConjPhysicalBackward0": [
        of_complex(lambda z: z.conj_physical() * z.exp()),
        lambda x, w: (point(x, w).conj_physical() + 1).abs(),
    ],
    "NegViewBackward0": [lambda x, w: point(x, w).conj().imag.exp()],
    "AngleBackward0": [
        lambda x, w: point(x, w).angle(),
        lambda x, w: (w * x).angle() + x * w,
    ],
    "SgnBackward0": [of_complex(torch.sgn), lambda x, w: w * x * x.sgn()],
    "FftR2CBackward0": [
        lambda x, w: torch.fft.rfft(along_two(x, w), n=5).abs().flatten(1),
        lambda x, w: torch.fft.fft(along_two(x, w), norm="ortho").imag.flatten(1),
        lambda x, w: torch.fft.rfft2(along_two(x, w), norm="forward").imag.flatten(1),
    ],
    "FftC2CBackward0": [
        lambda x, w: torch.fft.ifft(torch.fft.fft(along_two(x, w)) ** 2).real.flatten(1),
        lambda x, w: torch.fft.ifft2(torch.fft.fft2(along_two(x, w)) ** 2).real.flatten(1),
    ],
    "FftC2RBackward0": [
        lambda x, w: torch.fft.irfft(torch.fft.rfft(along_two(x, w)).exp(), n=3).flatten(1),
        lambda x, w: torch.fft.hfft(point(x, w), n=4),
        spectral_layer,
    ],
    # --- Pictures that are read between their pixels
    "GridSampler2DBackward0": [
        *(
            sampled(mode=mode, padding_mode=padding)
            for mode in ("bilinear", "bicubic")
            for padding in ("zeros", "border", "reflection")
        ),
        sampled_each,
        lambda x, w: sampled_fixed(x, w, "bilinear"),
        lambda x, w: sampled_fixed(x, w, "nearest") + w * x.repeat(1, 4),
    ],
    "GridSampler3DBackward0": [sampled_in_space],
    "NativeGroupNormBackward0": [
        lambda x, w: functional.group_norm(x.exp() @ MATRIX, 2, w.expand(4), w.expand(4), 0.1),
        lambda x, w: functional.group_norm(w * x.exp() @ MATRIX, 2, eps=0.1),
    ],
    "NativeBatchNormBackward0": [
        lambda x, w: functional.batch_norm(
            x.sin(), CONSTANT[:2].exp(), CONSTANT[2:4].exp(), w.repeat(2), w.repeat(2)
        ),
        lambda x, w: functional.batch_norm(w * x.sin(), CONSTANT[:2], CONSTANT[2:4].exp()),
    ],
    "NativeBatchNormLegitNoTrainingBackward0": [
        lambda x, w: torch.ops.aten._native_batch_norm_legit_no_training(
            x.sin(), w.repeat(2), w.repeat(2), CONSTANT[:2], CONSTANT[2:4].exp(), 0.1, 0.01
        )[0],
    ],
    # --- Norms, products along an axis and losses
    "StdMeanBackward0": [
        lambda x, w: torch.cat(torch.std_mean(w * x.exp() @ MATRIX, 1, keepdim=True), 1)
    ],
    "NansumBackward0": [lambda x, w: torch.where(UPPER[:, :2], torch.nan, (w * x).exp()).nansum(1)],
    "CumprodBackward0": [lambda x, w: along_two(x, w).cumprod(-2).flatten(1)],
    "MseLossBackward0": [
        lambda x, w: functional.mse_loss((w * x).sin(), x.exp(), reduction="none"),
        lambda x, w: functional.mse_loss(w * x, CENTRES[:3], reduction="none"),
        lambda x, w: functional.mse_loss(CENTRES[:3] * w, x.exp(), reduction="none"),
    ],
    "NllLossBackward0": [
        lambda x, w: functional.nll_loss((w * x).sin(), CLASSES, reduction="none"),
        lambda x, w: functional.nll_loss(
            (w * x).sin(), CLASSES, CONSTANT[:2], ignore_index=0, reduction="none"
        ),
    ],
    "NllLoss2DBackward0": [
        lambda x, w: functional.nll_loss(
            along_two(x, w), CLASSES[:, None].expand(3, 2), CONSTANT[:2], reduction="none"
        ),
    ],
    "SmoothL1LossBackward0": [
        lambda x, w: functional.smooth_l1_loss(
            2 * w * x.sin(), x.detach(), reduction="none", beta=0.5
        )
    ],
    "HuberLossBackward0": [
        lambda x, w: functional.huber_loss(2 * w * x.sin(), x.detach(), "none", 0.5),
    ],
    "BinaryCrossEntropyWithLogitsBackward0": [
        lambda x, w: functional.binary_cross_entropy_with_logits(
            w * x.exp(), TARGET, reduction="none"
        ),
        lambda x, w: functional.binary_cross_entropy_with_logits(
            w * x.exp(), TARGET, CONSTANT[2:4].exp(), reduction="none", pos_weight=CENTRES[0]
        ),
    ],
    "SoftMarginLossBackward0": [
        lambda x, w: functional.soft_margin_loss(
            w * x.exp(), CONSTANT[:6].view(3, 2), reduction="none"
        )
    ],
    # --- Elements by their places
    "LerpBackward1": [
        lambda x, w: torch.lerp((w * x).sin(), x.exp(), w * x.square()),
        lambda x, w: torch.lerp((w * x).sin(), x.exp(), CONSTANT[:2]),
        lambda x, w: torch.lerp(CONSTANT[:2], CONSTANT[2:4], (w * x).sin()),
        lambda x, w: torch.lerp((w * x).sin(), CONSTANT[:2], CONSTANT[2:4]),
    ],
    "EmbeddingBackward0": [embedded(None), embedded(0)],
    "AminmaxBackward0": [
        lambda x, w: torch.cat(torch.aminmax((w * x).sin() @ MATRIX, dim=1, keepdim=True), 1),
        lambda x, w: torch.stack(torch.aminmax((w * x).sin() @ MATRIX, dim=1), 1),
    ],
    "ScatterReduceBackward0": [
        partial(put_together, kind=kind, joins=joins)
        for kind in ("sum", "mean", "amax", "amin")
        for joins in (True, False)
    ],
    # --- Pictures
    **{
        f"{name}Backward0": [partial(drawn, draw) for draw in draws]
        for name, draws in PICTURES.items()
    },
    # --- Backward passes of activations
    **{
        f"{name}Backward0": [
            partial(pulled, function),
            partial(pushed, function),
            partial(sent_back, function),
        ]
        for name, function in BACKWARD.items()
    },
    # --- Functions of matrices
    "LinalgMatrixExpBackward0": [lambda x, w: (w * square(x, 3)).matrix_exp().flatten(1)],
    "LinalgEighBackward0": [
        lambda x, w: torch.linalg.eigvalsh(separated(x, w)),
        lambda x, w: torch.linalg.eigvalsh((w * x @ EVEN).view(-1, 2, 2)),
        lambda x, w: torch.linalg.eigh(separated(x, w)).eigenvectors.square().flatten(1),
        lambda x, w: (
            (
                torch.linalg.eigh(separated(x, w)).eigenvectors
                @ torch.linalg.eigh(separated(x, w)).eigenvalues.unsqueeze(-1)
            )
            .square()
            .flatten(1)
        ),
    ],
    "Rot90Backward0": [lambda x, w: along_two(x, w).rot90(1, (1, 2)).flatten(1)],
}

# With one point alone, whose axes are all those of its columns.
OF_A_POINT: dict[str, list[Function]] = {
    "MulBackward0": [lambda x, w: w * x.sum() * x.sin()],
    "MvBackward0": [
        lambda x, w: torch.mv(w * MATRIX.t(), x.sin()).tanh(),
        lambda x, w: torch.mv(w * x.sin()[:, None] * x, x.exp()),
    ],
    "SplitBackward0": [lambda x, w: (w * x).split(2)[0].sin()],
    "DotBackward0": [
        lambda x, w: torch.dot((w * x).sin(), x.exp()),
        lambda x, w: torch.dot(x.sin(), w.expand(2)),
    ],
    "VdotBackward0": [
        lambda x, w: torch.vdot(point(x, w), point(w * x, w).exp()).imag,
        lambda x, w: torch.vdot(point(x, w), point(x.detach(), w)).imag,
        lambda x, w: torch.vdot(point(x.detach(), w), point(x, w)).imag,
    ],
    "SumBackward0": [lambda x, w: (w * x).sin().sum()],
    "MeanBackward0": [lambda x, w: (w * x).sin().mean()],
    "MaxBackward1": [lambda x, w: (w * x).sin().max()],
    "MinBackward1": [lambda x, w: (w * x).sin().min()],
    "ProdBackward0": [lambda x, w: (w * x).sin().prod()],
    "NormBackward0": [lambda x, w: torch.ops.aten.norm.Scalar(w * x.exp(), 2)],
    "VarBackward0": [lambda x, w: (w * x.exp() @ MATRIX).var()],
    "RollBackward0": [lambda x, w: (w * x).sin().roll(1)],
    "SqueezeBackward4": [lambda x, w: functional.linear(x.sin(), w * MATRIX.t()).tanh()],
    "UnbindBackward0": [lambda x, w: (w * x).sin().unbind()[0] * x[1]],
    "SmoothL1LossBackward0": [
        lambda x, w: functional.smooth_l1_loss((w * x).sin(), CONSTANT[:2], beta=0.5)
    ],
    "HuberLossBackward0": [lambda x, w: functional.huber_loss(2 * (w * x).sin(), CONSTANT[:2])],
    "SoftMarginLossBackward0": [
        lambda x, w: functional.soft_margin_loss((w * x).sin(), CONSTANT[:2].sign())
    ],
    "BinaryCrossEntropyWithLogitsBackward0": [
        lambda x, w: functional.binary_cross_entropy_with_logits(w * x.exp(), TARGET[0])
    ],
    "LinalgVectorNormBackward0": [
        lambda x, w: torch.linalg.vector_norm(point(x, w)),
        lambda x, w: torch.linalg.vector_norm(point(x, w), 3),
        lambda x, w: torch.linalg.vector_norm(x.exp() * w, -torch.inf),
    ],
    "TraceBackward0": [lambda x, w: (w * x.sin() @ MATRIX).view(2, 2).trace()],
    "AddrBackward0": [
        lambda x, w: torch.addr(x.exp(), (w * x).sin(), x.cos(), beta=2, alpha=3),
        lambda x, w: torch.addr(w.expand(2, 2), (w * x).sin(), CONSTANT[:2]),
        lambda x, w: torch.addr(x.exp(), w * CONSTANT[:2], x.cos()),
        lambda x, w: torch.addr(x.exp(), w * CONSTANT[:2], CONSTANT[2:4]).sin(),
    ],
    "AddbmmBackward0": [
        lambda x, w: torch.addbmm(
            x.exp(), *2 * [(w * x.sin() @ MATRIX).view(1, 2, 2).expand(3, 2, 2)], alpha=2
        ),
        lambda x, w: torch.addbmm(x.exp(), *2 * [MATRIX.view(2, 2, 2) * w]).sin(),
    ],
    "DistBackward0": [
        lambda x, w: torch.dist(w * x.sin(), CENTRES),
        lambda x, w: torch.dist(CENTRES, w * x.sin(), 3),
        lambda x, w: torch.dist(w * x.sin(), x.exp(), torch.inf),
    ],
    "MedianBackward0": [lambda x, w: ((w * x).sin() @ MATRIX).median()],
    "NanmedianBackward0": [
        lambda x, w: torch.where(MATRIX[0] > 0.5, torch.nan, (w * x).sin() @ MATRIX).nanmedian()
    ],
    "TakeBackward0": [lambda x, w: (w * x.sin() @ MATRIX).take(torch.tensor([[3, 0], [0, 1]]))],
    "MaskedSelectBackward0": [lambda x, w: (w * x.sin() @ MATRIX).masked_select(MATRIX > 0)],
    "AminmaxBackward0": [lambda x, w: torch.stack(torch.aminmax((w * x).sin() @ MATRIX))],
    "MseLossBackward0": [
        lambda x, w: functional.mse_loss((w * x).sin(), CONSTANT[:2]),
        lambda x, w: functional.mse_loss((w * x).sin(), CONSTANT[:2], reduction="sum"),
    ],
    "Rot90Backward0": [lambda x, w: (w * x.sin() @ MATRIX).view(2, 2).rot90(-1)],
    "NllLossBackward0": [
        lambda x, w: functional.nll_loss((w * x).sin(), CLASSES[0]),
        lambda x, w: functional.nll_loss((w * x).exp() @ MATRIX, CLASSES[1], reduction="sum"),
        lambda x, w: functional.nll_loss(
            ((w * x).exp() @ MATRIX).view(2, 2), CLASSES[:2], CONSTANT[-2:], ignore_index=7
        ),
    ],
}
# What PyTorch cannot differentiate as often, or not rightly, or not for many gradients at once,
# beside the same written out. By small factors of a product it divides, which costs six digits at
# order 8.
WRITTEN_OUT: dict[str, list[tuple[Function, Function]]] = {
    "MmBackward0": [
        (
            lambda x, w: (MATRIX.t().to_sparse() @ (w * x.sin()).t()).t().tanh(),
            lambda x, w: ((w * x.sin()) @ MATRIX).tanh(),
        ),
        (
            lambda x, w: ((w * x).sin() @ MATRIX.to_sparse()).tanh(),
            lambda x, w: ((w * x).sin() @ MATRIX).tanh(),
        ),
    ],
    "SparseAddmmBackward0": [
        (
            lambda x, w: torch.sparse.mm(MATRIX.to_sparse().t(), (w * x).exp().t()).t(),
            lambda x, w: (w * x).exp() @ MATRIX,
        ),
        (
            lambda x, w: torch.sparse.addmm(
                (w * x).t(), MATRIX[:, :2].to_sparse(), (w * x).exp().t(), beta=0.5, alpha=2
            ).t(),
            lambda x, w: 0.5 * w * x + 2 * (w * x).exp() @ MATRIX[:, :2].t(),
        ),
    ],
    "CumprodBackward0": [
        (
            lambda x, w: ((w * x).sin() @ MATRIX).cumprod(1),
            lambda x, w: torch.stack([*accumulate(((w * x).sin() @ MATRIX).unbind(1), mul)], 1),
        ),
    ],
    "LogcumsumexpBackward0": [
        (
            lambda x, w: ((w * x).sin() @ MATRIX).logcumsumexp(1),
            lambda x, w: ((w * x).sin() @ MATRIX).exp().cumsum(1).log(),
        ),
        (
            lambda x, w: along_two(x, w).sin().logcumsumexp(1).flatten(1),
            lambda x, w: along_two(x, w).sin().exp().cumsum(1).log().flatten(1),
        ),
    ],
    "BinaryCrossEntropyBackward0": [cross_entropies(None), cross_entropies(CENTRES[0])],
    "ProdBackward1": [
        (
            lambda x, w: ((w * x).sin() @ MATRIX).prod(1),
            lambda x, w: reduce(torch.mul, ((w * x).sin() @ MATRIX).unbind(1)),
        ),
    ],
    "NativeLayerNormBackward0": [
        (
            lambda x, w: functional.layer_norm((w * x.exp() @ MATRIX).sin(), (4,)),
            lambda x, w: normalised((w * x.exp() @ MATRIX).sin()),
        ),
        (
            lambda x, w: functional.layer_norm(
                (x.exp() @ MATRIX).sin(), (4,), w.expand(4), w.expand(4)
            ),
            lambda x, w: w * normalised((x.exp() @ MATRIX).sin()) + w,
        ),
    ],
    "NativeBatchNormBackward0": [
        (
            lambda x, w: functional.instance_norm((w * x.exp() @ MATRIX).sin()[:, None])[:, 0],
            lambda x, w: normalised((w * x.exp() @ MATRIX).sin()),
        ),
        (
            lambda x, w: functional.instance_norm(
                (x.exp() @ MATRIX).sin().view(-1, 1, 4), weight=w.expand(1), bias=w.expand(1)
            )[:, 0],
            lambda x, w: w * normalised((x.exp() @ MATRIX).sin()) + w,
        ),
    ],
    "ScaledDotProductFlashAttentionForCpuBackward0": [
        (attention(), attention_written_out()),
        (attention(scale=0.3), attention_written_out(scale=0.3)),
        (attention(scale=0.0), attention_written_out(scale=0.0)),
        (attention(is_causal=True), attention_written_out(mask=LATER)),
        (attention(attn_mask=MASK), attention_written_out(mask=MASK)),
        (attention(attn_mask=MASK > -2), attention_written_out(mask=LATER)),
        (attention(heads=1, enable_gqa=True), attention_written_out(heads=1)),
        (attention(moving="q"), attention_written_out(moving="q")),
        (attention(moving="k"), attention_written_out(moving="k")),
        (attention(moving="v"), attention_written_out(moving="v")),
    ],
    # Of these, PyTorch has no second derivative.
    "CdistBackward0": [
        (
            lambda x, w: torch.cdist((w * x).exp()[:, None], w * square(x, 2), p=1),
            lambda x, w: ((w * x).exp()[:, None] - w * square(x, 2)).abs().sum(-1)[:, None],
        ),
        (
            lambda x, w: torch.cdist((w * x).sin(), CENTRES),
            lambda x, w: ((w * x).sin()[:, None] - CENTRES).square().sum(-1).sqrt(),
        ),
        (
            lambda x, w: torch.cdist(w * square(x, 2), 2 + x.exp()[:, None]),
            lambda x, w: (
                (w * square(x, 2) - 2 - x.exp()[:, None]).square().sum(-1).sqrt()[..., None]
            ),
        ),
        (
            lambda x, w: torch.cdist(CENTRES.expand(3, 4, 2), w * x.exp()[:, None]),
            lambda x, w: (CENTRES - w * x.exp()[:, None]).square().sum(-1).sqrt()[..., None],
        ),
    ],
    "EuclideanDistBackward0": [
        (
            lambda x, w: torch.cdist((w * x).sin(), CENTRES, compute_mode="use_mm_for_euclid_dist"),
            lambda x, w: ((w * x).sin()[:, None] - CENTRES).square().sum(-1).sqrt(),
        ),
    ],
    "ScatterBackward0": [
        (
            lambda x, w: torch.ones(3, 4, dtype=x.dtype).scatter(
                1, PLACES[:1].expand(3, 1), w * x.exp()
            ),
            lambda x, w: functional.pad(w * x[:, :1].exp(), (2, 1), value=1.0),
        ),
    ],
    "ViewAsComplexBackward0": [
        (
            lambda x, w: torch.view_as_complex((w * x).exp()).log().imag,
            lambda x, w: torch.atan2(*(w * x).exp().flip(1).unbind(1)),
        ),
    ],
    "FftR2CBackward0": [
        (
            lambda x, w: torch.fft.rfft(along_two(x, w)[:, 0]).imag,
            lambda x, w: transformed(along_two(x, w)[:, 0])[:, :2].imag,
        ),
    ],
    "FftC2RBackward0": [
        (
            lambda x, w: torch.fft.irfft(torch.complex(vectors(w * x), 0 * vectors(x)).exp(), n=4),
            lambda x, w: transformed(vectors(w * x).exp()[:, [0, 1, 2, 1]], sign=1).real / 4,
        ),
    ],
    "HardsigmoidBackward0": [
        (
            lambda x, w: functional.hardsigmoid(w * x.sin()),
            lambda x, w: (w * x.sin() + 3) / 6,
        ),
        (lambda x, w: functional.hardsigmoid(5 + w * x.sin()), lambda x, w: 0 * w * x.sin()),
    ],
}
ORDERS = [(1, 0), (0, 2), (1, 1), (2, 1)]


def normalised(h: Tensor) -> Tensor:
    mean, variance = h.mean(1, keepdim=True), h.var(1, correction=0, keepdim=True)
    return (h - mean) / (variance + 1e-5).sqrt()


def parameter() -> Tensor:
    return torch.tensor(0.9, dtype=torch.float64, requires_grad=True)


def by_name(cases: dict[str, list[Any]]) -> list[Any]:
    return [
        pytest.param(name, case, id=f"{name}-{number}", marks=marks_of(name))
        for name, functions in cases.items()
        for number, case in enumerate(functions)
    ]


def names_between(outputs: Tensor, inputs: Tensor) -> set[str]:
    path = _autograd.path_between(outputs, inputs)
    return set(map(_autograd.node_name, path.nodes if path else ()))


# The same operation where the CPU does not compute it, and what its rule reads there.
ELSEWHERE = {
    f"ScaledDotProduct{kind}Backward0"
    for kind in (
        "FlashAttention",
        "EfficientAttention",
        "CudnnAttention",
        "FusedAttentionOverrideable",
    )
}


NOT_HERE = ELSEWHERE | {"MkldnnRnnLayerBackward0"}  # of single precision alone: test_recurrent


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_attention_keeps_the_same_elsewhere(name: str) -> None:
    kept = dir(getattr(torch._C._functions, name))
    names = {"query", "key", "value", "dropout_p", "is_causal", "scale"}
    assert {f"_saved_{each}" for each in names} <= set(kept)
    is_masked = not name.startswith("ScaledDotProductFlash")
    assert ("_saved_attn_bias" in kept) == is_masked


def test_each_rule_has_a_case() -> None:
    assert set(RULES) - NOT_HERE == {*CASES, *OF_A_POINT, *WRITTEN_OUT}


@pytest.mark.parametrize(("name", "function"), by_name(CASES))
@pytest.mark.sweep
def test_a_rule_gives_what_nested_reverse_mode_gives(name: str, function: Function) -> None:
    x, w = rows(3, 2), parameter()
    outputs = function(x, w)
    assert name in names_between(outputs, x)
    ours = higher_order_grad(outputs, x, ORDERS, method="taylor")
    with nested_passes():
        theirs = higher_order_grad(mixed(outputs), x, ORDERS, method="reverse")
    assert_same_thrice([*map(mixed, ours)], theirs, [w, x])


@pytest.mark.parametrize(
    ("name", "function"),
    by_name({name: CASES[name] for name, rule in RULES.items() if rule.has_exact_type}),
)
def test_what_is_not_fitted_to_its_result_fits(
    name: str, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted, results = [], propagate.results_of

    def compare(rule: Rule, step: Step, inputs: Sequence[Series | None]) -> Sequence[Series | None]:
        found = results(rule, step, inputs)
        if step.name == name:
            (series,), (result,) = found, step.results
            fitted.append(series and (series.shape, series.dtype) == (step.shape, result.dtype))
        return found

    monkeypatch.setattr(propagate, "results_of", compare)
    x = rows(3, 2)
    higher_order_grad(function(x, parameter()), x, ORDERS, method="taylor")
    assert fitted
    assert all(fitted)


@pytest.mark.parametrize(("name", "function"), by_name(OF_A_POINT))
def test_a_rule_gives_what_nested_reverse_mode_gives_for_a_point(
    name: str, function: Function
) -> None:
    x, w = rows(2), parameter()
    outputs = function(x, w)
    assert name in names_between(outputs, x)
    ours = higher_order_grad(outputs, x, ORDERS, method="taylor")
    theirs = higher_order_grad(outputs, x, ORDERS, method="reverse")
    assert_same_thrice(ours, theirs, [w, x])


@pytest.mark.parametrize(("name", "pair"), by_name(WRITTEN_OUT))
def test_a_rule_gives_what_its_function_written_out_gives(
    name: str, pair: tuple[Function, Function]
) -> None:
    x, w = rows(3, 2), parameter()
    outputs, written_out = (function(x, w) for function in pair)
    assert name in names_between(outputs, x)
    ours = higher_order_grad(outputs, x, ORDERS, method="taylor")
    theirs = higher_order_grad(mixed(written_out), x, ORDERS, method="reverse")
    assert_same_thrice([*map(mixed, ours)], theirs, [w, x])


@pytest.mark.parametrize(("name", "function"), by_name(CASES))
def test_a_rule_carries_laplacians_as_well(name: str, function: Function) -> None:
    x, w = rows(3, 2), parameter()
    outputs = function(x, w)
    assert name in names_between(outputs, x)
    ours = mixed(laplacian(outputs, x, method="taylor"))
    with nested_passes():
        theirs = laplacian(mixed(outputs), x, method="reverse")
    assert_same((ours, *gradients((ours,), [w, x])), (theirs, *gradients((theirs,), [w, x])))


# --- High orders


PAIRS = {
    name: [*[(function, function) for function in CASES.get(name, [])], *WRITTEN_OUT.get(name, [])]
    for name in {**CASES, **WRITTEN_OUT}
}


@pytest.mark.parametrize(("name", "functions"), by_name(PAIRS))
@pytest.mark.sweep
def test_orders_up_to_eight_are_those_of_nested_reverse_mode(
    name: str, functions: tuple[Function, Function]
) -> None:
    x, w = rows(3, 2), parameter()
    orders = [(order, 0) for order in range(1, 9)]
    outputs, others = (function(x, w).reshape(3, -1)[:, :1] for function in functions)
    assert name in names_between(outputs, x)
    ours = higher_order_grad(outputs, x, orders, create_graph=False, method="taylor")
    # A graph grows threefold with each order: beyond the fifth, passes go through that of Taylor
    # mode, which has been compared then and knows of no higher coefficient.
    fifth = higher_order_grad(outputs, x, (5, 0), method="taylor")
    with nested_passes():
        lower = higher_order_grad(others, x, orders[:5], create_graph=False, method="reverse")
        higher = higher_order_grad(fifth, x, orders[:3], create_graph=False, method="reverse")
    for one, other in zip(ours, lower + higher, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12 * other.abs().amax().item())


# --- Edges


@pytest.mark.parametrize("method", ["taylor", "reverse"])
def test_the_norm_of_nothing_but_zeros_has_the_first_derivative_only(method: Any) -> None:
    x = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    outputs = torch.linalg.vector_norm(x, dim=1)
    first, second = higher_order_grad(outputs, x, [(1, 0), (2, 0)], method=method)
    assert first.tolist() == [0.0] * 3
    assert second.isnan().all()


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(
    "function", [functional.elu, lambda x: functional.celu(x, 2), functional.selu]
)
def test_a_kink_of_higher_order_is_what_it_is_in_reverse_mode(
    function: Callable[[Tensor], Tensor], order: int
) -> None:
    x, y = (torch.zeros(1, 1, dtype=torch.float64, requires_grad=True) for _ in range(2))
    ours = higher_order_grad(function(x), x, order, method="taylor")
    theirs = higher_order_grad(function(y), y, order, method="reverse")
    assert_same_thrice([ours], [theirs], [x], [y])


@pytest.mark.parametrize("function", [functional.elu, functional.celu])
def test_the_derivative_where_nothing_is_known_is_unknown(function: Any) -> None:
    x = torch.full((1, 1), torch.nan, dtype=torch.float64, requires_grad=True)
    assert higher_order_grad(function(x), x, 1, method="taylor").isnan().all()


def test_what_does_not_deviate_at_all_has_derivatives_of_zero() -> None:
    x, w = rows(3, 2), parameter()
    outputs = (w * x[:, :1]).expand(3, 2).std(1)
    second = higher_order_grad(outputs, x, (2, 0), method="taylor")
    assert second.tolist() == [0.0] * 3
    assert torch.autograd.grad(second.sum(), w)[0].item() == 0.0


def test_a_whole_power_that_is_a_tensor_is_exact_at_zero_too() -> None:
    x = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    outputs = torch.pow(x, torch.tensor([[0.0, 1.0, 2.0, 3.0]], dtype=x.dtype))
    derivatives = higher_order_grad(outputs, x, [1, 2, 3, 4], method="taylor")
    assert [row[0] for row in map(Tensor.tolist, derivatives)] == [
        [0.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 2.0, 0.0],
        [0.0, 0.0, 0.0, 6.0],
        [0.0, 0.0, 0.0, 0.0],
    ]
    (gradient,) = torch.autograd.grad(derivatives[1].sum(), x)
    assert gradient.item() == 6.0


def test_what_may_attend_to_nothing_has_derivatives_of_zero() -> None:
    x, w = rows(3, 2), parameter()
    mask = torch.full((3, 3), -torch.inf, dtype=torch.float64).masked_fill(LATER == 0, 0)
    mask[1] = -torch.inf
    outputs = attention(attn_mask=mask)(x, w).view(3, 2, 3, 2)
    derivative = higher_order_grad(outputs, x, (2, 0), method="taylor")
    assert derivative.select(2, 1).abs().max() == 0
    assert derivative.select(2, 2).abs().min() > 0
    assert torch.autograd.grad(derivative.sum(), w)[0].isfinite()


def test_softmax_is_exact_where_it_is_saturated() -> None:
    x = torch.tensor([[300.0, 1.0]], dtype=torch.float64, requires_grad=True)
    outputs = (x**2).softmax(1), (x**2).log_softmax(1)[:, 0], (x**2).logsumexp(1)
    for output, expected in zip(outputs, ([0.0, 0.0], 0.0, 0.0), strict=True):
        third = higher_order_grad(output, x, (3, 0), method="taylor")
        assert third.tolist() == [expected]


@pytest.mark.parametrize("value", [30.0, -30.0, 400.0])
def test_what_is_saturated_has_derivatives_and_gradients_without_nan(value: float) -> None:
    x = torch.full((1, 1), value, dtype=torch.float64, requires_grad=True)
    for function in (torch.tanh, torch.sigmoid, functional.softplus, functional.elu):
        (third,) = higher_order_grad(function(x), x, [3], method="taylor")
        assert abs(third.item()) < 1e-12
        assert torch.autograd.grad(third, x, allow_unused=True, materialize_grads=True)[
            0
        ].isfinite()


def test_the_logistic_function_is_exact_where_it_is_tiny() -> None:
    x = torch.full((1, 1), -40.0, dtype=torch.float64, requires_grad=True)
    fourth = higher_order_grad(torch.sigmoid(x), x, 4, method="taylor")
    torch.testing.assert_close(fourth, torch.exp(x.detach()), rtol=1e-14, atol=0)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: torch.sinc(point(x, x)).imag, "computes with complex numbers"),
        (lambda x: (x ** torch.full_like(x, 2).mul(1j)).imag, "computes with complex numbers"),
    ],
    ids=["sinc", "a complex power"],
)
def test_what_a_rule_does_not_know_is_refused(
    function: Callable[[Tensor], Tensor], why: str
) -> None:
    x = rows(3, 2)
    with pytest.raises(RuntimeError, match=why):
        higher_order_grad(function(x), x, (2, 0), method="taylor")


@pytest.mark.parametrize("function", [torch.fft.fft, torch.fft.ifft, torch.fft.fft2])
def test_a_transform_along_the_rows_is_refused(function: Callable[..., Tensor]) -> None:
    x = rows(3, 2)
    outputs = torch.view_as_real(function(x.exp() + 0j, dim=(0, 1) if "2" in str(function) else 0))
    for method in ("auto", "taylor", "reverse"):
        with pytest.raises(RuntimeError, match="row"):
            higher_order_grad(outputs, x, (2, 0), method=method)


def test_complex_numbers_in_single_precision_are_computed_in_double_where_orders_ask() -> None:
    x, w = rows(3, 2), parameter()
    single = x.detach().float().requires_grad_()
    for order in [(2, 0), (1, 1), (0, 4), (0, 9)]:
        ours = higher_order_grad(point(single, w.float()).log().imag, single, order)
        theirs = higher_order_grad(point(x, w).log().imag, x, order)
        assert ours.dtype == torch.float32
        scale = theirs.detach().abs().max().item() + 1e-3
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=1e-4 * scale)


def test_what_was_turned_makes_complex_numbers_in_reverse_mode_too() -> None:
    x, w = rows(3, 2), parameter()
    phase = torch.view_as_complex(along_two(x, w).mT.contiguous()).log().imag
    derivatives = [higher_order_grad(phase, x, (2, 0), method=m) for m in ("taylor", "reverse")]
    assert_same(derivatives[:1], derivatives[1:])


def test_at_zero_complex_numbers_have_the_slope_of_the_formula() -> None:
    x = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
    z = torch.complex(x[:, 0], x[:, 1])
    for outputs in (z.abs(), z.angle(), z.sgn().imag):
        for order in [(1, 0), (0, 2)]:
            found = higher_order_grad(outputs, x, order, method="taylor")
            assert torch.equal(found, torch.zeros(2, dtype=torch.float64))


def test_a_picture_of_one_pixel_is_read() -> None:
    x = rows(3, 2)
    outputs = functional.grid_sample(
        PICTURE[..., :1, :1], x[None, None], padding_mode="reflection", align_corners=True
    )
    found = higher_order_grad(outputs[0, :, 0].t(), x, [(1, 0), (0, 2)], method="taylor")
    assert all(torch.equal(each, torch.zeros(3, 2, dtype=x.dtype)) for each in found)


@pytest.mark.parametrize(
    ("function", "derivatives"),
    [
        (torch.sinc, [0, -(torch.pi**2) / 3, 0, torch.pi**4 / 5]),
        (torch.special.i0, [0, 1 / 2, 0, 3 / 8]),
        (torch.special.i1, [1 / 2, 0, 3 / 8, 0]),
    ],
)
def test_at_zero_a_series_has_no_hole(
    function: Callable[[Tensor], Tensor], derivatives: list[float]
) -> None:
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    found = higher_order_grad(function(x), x, [1, 2, 3, 4], method="taylor")
    expected = [x.new_tensor([each]) for each in derivatives]
    assert_same(found, expected)
