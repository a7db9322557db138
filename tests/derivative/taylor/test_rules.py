"""Each rule agrees with nested reverse mode, on PyTorch's table of operators and on other cases."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from leafgrad import higher_order_grad, laplacian, trace_graph
from leafgrad._derivative.taylor.rules import RULES
from tests.derivative.taylor.operators import outcomes
from tests.derivative.taylor.oracle import assert_same, assert_same_thrice, mixed, rows
from tests.messages import message
from tests.trace.operators.operators import operators

Function = Callable[[Tensor, Tensor], Tensor]

CONSTANT = torch.linspace(-1, 1, 8, dtype=torch.float64)
MATRIX = CONSTANT.view(2, 4)
ALL = slice(None)
PLACES = torch.tensor([2, 0])
CENTRES = 3 + CONSTANT.view(4, 2)
# A causal mask, and one that also has finite values.
LATER = torch.zeros(3, 3, dtype=torch.float64).masked_fill(
    torch.ones(3, 3, dtype=torch.bool).triu(1), -torch.inf
)
MASK = LATER + torch.linspace(-1, 1, 9, dtype=torch.float64).view(3, 3)
EVEN = torch.tensor([[1.0, 2.0, 2.0, 4.0], [0.0, 1.0, 1.0, 3.0]], dtype=torch.float64)


def elementwise(function: Callable[[Tensor], Tensor]) -> Function:
    """Apply a function to a nonlinear function of x and the weight w."""
    return lambda x, w: function(w * x + 0.1 * x * x)


def vectors(x: Tensor) -> Tensor:
    """Return a vector with three entries for each point with two."""
    return torch.cat([x, x.prod(-1, keepdim=True)], -1)


def square(x: Tensor, size: int) -> Tensor:
    """Return a matrix ``(size, size)`` for each point, none near singular."""
    factors = torch.linspace(-1, 1, 2 * size**2, dtype=x.dtype).reshape(2, -1)
    matrix = (x @ factors).sin().reshape(*x.shape[:-1], size, size)
    return matrix / size + torch.eye(size, dtype=x.dtype)


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
    """Return complex numbers that depend on x and the weight w, none near zero."""
    return torch.complex((w * x).sin(), x * x * w + 0.3)


def of_complex(function: Callable[[Tensor], Tensor]) -> Function:
    """Apply a function to complex numbers. Return the real and the imaginary part of the result."""

    def parts(x: Tensor, w: Tensor) -> Tensor:
        result = function(point(x, w))
        return torch.cat([result.real, result.imag], -1)

    return parts


def along_two(x: Tensor, w: Tensor) -> Tensor:
    """Return a matrix for each row of x, which also depends on the weight w."""
    return (w * x[:, :, None] * x[:, None] + x[:, :, None]).exp()


def spectral_layer(x: Tensor, w: Tensor) -> Tensor:
    """Keep and mix the low frequencies of a signal, as a Fourier neural operator does.

    The signal depends on x and the weight w.
    """
    signal = ((w * x).exp() @ MATRIX).sin()
    modes = torch.zeros(len(x), 3, dtype=torch.complex128)
    modes[:, :2] = torch.fft.rfft(signal)[:, :2] @ torch.complex(w, w * w).expand(2, 2)
    result: Tensor = torch.fft.irfft(modes, n=4)
    return result


def attended(x: Tensor, w: Tensor, moving: str, heads: int) -> Iterator[Any]:
    """Yield query, key and value of attention with three tokens each.

    The query has two heads; key and value have as many `heads`. Those whose letters (q, k, v) are
    in `moving` depend on x.
    """
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
    """Return symmetric matrices with distinct eigenvalues, which depend on x and the weight w."""
    matrix = w * square(x, 3)
    return matrix + matrix.mT + torch.diag(torch.tensor([0.0, 3.0, 7.0], dtype=x.dtype))


Draw = Callable[[Tensor], Tensor]


def sent(function: Draw, given: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of `given`, if `gradient` is that of the function's result."""
    h = given if given.requires_grad else given.requires_grad_()
    (slope,) = torch.autograd.grad(function(h), h, gradient, create_graph=True)
    return slope


def slopes(function: Draw) -> list[Function]:
    """Return three networks that compute a derivative of `function` in their forward pass.

    Both the input and the gradient depend on x, or only the input does, or only the gradient.
    """
    return [
        lambda x, w: sent(function, (w * x - 0.9).sin() @ MATRIX, (w * x).exp() @ MATRIX),
        lambda x, w: sent(function, (w * x - 0.9).sin(), w * CONSTANT[:2].expand(3, 2)),
        lambda x, w: x[:, :1] * sent(function, w * MATRIX[:1].repeat(3, 1), (w * x).exp() @ MATRIX),
    ]


def drawn(draw: Draw, x: Tensor, w: Tensor) -> Tensor:
    """Apply `draw` to an image for each row, with 4 channels of 4 by 6 pixels.

    The images depend on x and the weight w.
    """
    factors = torch.linspace(-3, 3, 192, dtype=x.dtype).sin().view(2, 96)
    return draw((w * x @ factors).sin().view(-1, 4, 4, 6)).flatten(1)


def block(draw: Draw) -> Draw:
    """Apply `draw` to images in blocks of 2 by 4 by 6."""
    return lambda h: draw(h.unflatten(1, (2, 2)).transpose(1, 2))


def unpool(dim: int, size: tuple[int, ...], h: Tensor) -> Tensor:
    """Keep the largest element of each patch of this size, and set the others to zero."""
    pool, back = (getattr(functional, f"max_{name}pool{dim}d") for name in ("", "un"))
    result: Tensor = back(*pool(h, size, return_indices=True), size)
    return result


def unpool_written_out(dim: int, size: tuple[int, ...], h: Tensor) -> Tensor:
    largest = getattr(functional, f"max_pool{dim}d")(h, size)
    return h * (h == functional.interpolate(largest, scale_factor=[float(n) for n in size]))


# --- Nodes and branches that no sample of the table reaches

ELEMENTWISE: list[Callable[[Tensor], Tensor]] = [
    lambda h: torch.pow(1.7, h),
    lambda h: h.sin().clamp(0.7, 0.9),
    lambda h: h.sin().clamp(None, 0.9),
    lambda h: h.sin().clamp_max(0.8),
    lambda h: 1.5 - h.sin(),
    lambda h: h.sin().remainder(0.3) ** 2,
    lambda h: h.sin().fmod(0.3) ** 2,
    lambda h: torch.xlogy(2.0, h),
    lambda h: torch.xlogy(h, 2.0),
    lambda h: functional.elu(h.sin() - 0.8, 1.3),
    lambda h: torch.ops.aten.alias(h.sin()),
]
OF_COMPLEX: list[Callable[[Tensor], Tensor]] = [
    torch.exp,
    torch.exp2,
    torch.expm1,
    torch.log,
    torch.log2,
    torch.log1p,
    torch.sqrt,
    torch.rsqrt,
    torch.sin,
    torch.cos,
    torch.tan,
    torch.sinh,
    torch.cosh,
    torch.tanh,
    torch.sigmoid,
    lambda z: 1 / z,
    lambda z: z**2,
    lambda z: z**-3,
    lambda z: z**2.5,
    lambda z: z ** (1 + 2j),
    lambda z: (1 + 1j) ** z,
    lambda z: torch.addcmul(z, z, z.exp()),
    lambda z: torch.where(z.real > 0.6, z, z.exp() * z.abs()),
    lambda z: z.masked_fill(z.real > 0.6, 1j).exp(),
    lambda z: (z @ torch.polar(MATRIX, MATRIX)).exp(),
    lambda z: torch.einsum("ij,ik->ijk", z, z.mH.mT.exp()).flatten(1),
    lambda z: z.flip(1).exp().cumsum(1).mean(1, keepdim=True),
    lambda z: put(z, (ALL, 0), z[:, 1].exp()),
    lambda z: z.conj() * z.exp(),
    lambda z: z.conj_physical() * z.exp(),
    torch.sgn,
    lambda z: z * z,
]
SLOPES: list[Draw] = [
    torch.tanh,
    torch.sigmoid,
    partial(functional.softplus, beta=2, threshold=1),
    functional.logsigmoid,
    partial(functional.elu, alpha=1.5),
    torch.relu,
    partial(torch.softmax, dim=1),
]
PICTURES: list[Draw] = [
    lambda h: functional.pad(h, (2, 1, 1, 0), "reflect"),
    block(lambda h: functional.pad(h, (1, 1, 2, 0, 1, 1), "reflect")),
    block(lambda h: functional.pad(h, (1, 1, 2, 0, 1, 1), "replicate")),
    partial(functional.interpolate, scale_factor=1.7, mode="nearest"),
    block(partial(functional.interpolate, size=(3, 5, 7), mode="nearest")),
    partial(functional.interpolate, size=(6, 5), mode="nearest-exact"),
    block(partial(functional.interpolate, size=(3, 5, 7), mode="nearest-exact")),
    partial(functional.interpolate, size=(3, 4), mode="bicubic", antialias=True),
]
CASES: list[Function] = [
    *map(elementwise, ELEMENTWISE),
    *map(of_complex, OF_COMPLEX),
    *(case for function in SLOPES for case in slopes(function)),
    *(partial(drawn, draw) for draw in PICTURES),
    lambda x, w: torch.func.vmap(lambda row: (w * row).sin() @ MATRIX)(x).tanh(),
    lambda x, w: (w * x)[:, None].clone().transpose_(1, 2).sin(),
    lambda x, w: (w * x)[:, None].clone().squeeze_(1).sin(),
    lambda x, w: (x.sin() @ (w * MATRIX)).unsafe_split_with_sizes([1, 3], 1)[1].tanh(),
    lambda x, w: (w * x).sin().sort(dim=1, stable=True).values,
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
    lambda x, w: (w * x).sin().index_add(1, torch.tensor([1, 1]), x.exp(), alpha=3),
    lambda x, w: torch.ones(3, 4, dtype=x.dtype).index_add(1, PLACES, (w * x).exp()),
    lambda x, w: (w * x).sin().index_fill(1, torch.tensor([1]), 3.0),
    lambda x, w: (w * x).sin().scatter(1, torch.ones(3, 1, dtype=torch.int64), 0.5),
    lambda x, w: point(x, w).conj().imag.exp(),
    lambda x, w: torch.ops.aten._native_batch_norm_legit_no_training(
        x.sin(), w.repeat(2), w.repeat(2), CONSTANT[:2], CONSTANT[2:4].exp(), 0.1, 0.01
    )[0],
    lambda x, w: torch.fft.rfft(along_two(x, w), n=5).abs().flatten(1),
    lambda x, w: torch.fft.fft(along_two(x, w), norm="ortho").imag.flatten(1),
    lambda x, w: torch.fft.rfft2(along_two(x, w), norm="forward").imag.flatten(1),
    lambda x, w: (w * square(x, 3)).matrix_exp().flatten(1),
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
    lambda x, w: (point(x, w) + 1).abs(),
    lambda x, w: torch.complex((w * x).exp(), x.detach()).log().imag,
    lambda x, w: torch.complex(x.detach(), (w * x).exp()).log().imag,
    lambda x, w: torch.complex((w * x[:, :1]).exp(), (w * x).sin()).sqrt().imag,
    lambda x, w: torch.polar((w * x).exp(), x * x).sin().imag,
    lambda x, w: (torch.polar((w * x).exp(), x * x) + 1).abs(),
    lambda x, w: torch.polar((w * x).exp(), x.detach()).imag,
    lambda x, w: torch.polar(x.detach(), w * x * x).imag,
    lambda x, w: point(x, w).angle(),
    lambda x, w: (w * x).angle() + x * w,
    lambda x, w: ((1 + 1j) ** (w * x)).imag,
    lambda x, w: ((w * x) ** (1 + 2j)).imag,
    lambda x, w: (point(x, w) * (w * x).exp()).imag,
    lambda x, w: ((w * x).exp() / point(x, w)).imag,
    lambda x, w: ((w * x).exp() + point(x, w)).log().imag,
    lambda x, w: w * x * x.sgn(),
    spectral_layer,
    written_and_read,
    lambda x, w: torch.ops.aten.norm.ScalarOpt_dim(w * x.exp(), 2, [1]),
]
# Functions that reverse mode cannot differentiate or gets wrong, beside equivalents that it can.
WRITTEN_OUT: list[tuple[Function, ...]] = [
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
    (
        lambda x, w: ((w * x).sin() @ MATRIX).logcumsumexp(1),
        lambda x, w: ((w * x).sin() @ MATRIX).exp().cumsum(1).log(),
    ),
    (
        lambda x, w: along_two(x, w).sin().logcumsumexp(1).flatten(1),
        lambda x, w: along_two(x, w).sin().exp().cumsum(1).log().flatten(1),
    ),
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
        lambda x, w: (w * square(x, 2) - 2 - x.exp()[:, None]).square().sum(-1).sqrt()[..., None],
    ),
    (
        lambda x, w: torch.cdist(CENTRES.expand(3, 4, 2), w * x.exp()[:, None]),
        lambda x, w: (CENTRES - w * x.exp()[:, None]).square().sum(-1).sqrt()[..., None],
    ),
    (
        lambda x, w: torch.cdist((w * x).sin(), CENTRES, compute_mode="use_mm_for_euclid_dist"),
        lambda x, w: ((w * x).sin()[:, None] - CENTRES).square().sum(-1).sqrt(),
    ),
    (
        lambda x, w: torch.view_as_complex((w * x).exp()).log().imag,
        lambda x, w: torch.atan2(*(w * x).exp().flip(1).unbind(1)),
    ),
    (lambda x, w: functional.hardsigmoid(w * x.sin()), lambda x, w: (w * x.sin() + 3) / 6),
    (lambda x, w: functional.hardsigmoid(5 + w * x.sin()), lambda x, w: 0 * w * x.sin()),
    (
        elementwise(lambda h: torch.i0(h + 5)),
        elementwise(lambda h: torch.special.i0e(h + 5) * (h + 5).exp()),
    ),
    (
        elementwise(lambda h: torch.special.i1(h + 5)),
        elementwise(lambda h: torch.special.i1e(h + 5) * (h + 5).exp()),
    ),
    *(
        (
            partial(drawn, wrap(partial(unpool, *shape))),
            partial(drawn, wrap(partial(unpool_written_out, *shape))),
        )
        for shape, wrap in (((2, (2, 2)), lambda draw: draw), ((3, (2, 2, 2)), block))
    ),
]
OF_A_POINT: list[Function] = [lambda x, w: torch.ops.aten.norm.Scalar(w * x.exp(), 2)]
PAIRS = [
    *((rows(3, 2), (case, case)) for case in CASES),
    *((rows(3, 2), pair) for pair in WRITTEN_OUT),
    *((rows(2), (case, case)) for case in OF_A_POINT),
]
each_pair = pytest.mark.parametrize(("points", "functions"), PAIRS)
ORDERS = [(1, 0), (0, 2), (1, 1), (2, 1)]
# Nodes that exist only on GPUs, and one in single precision, which test_recurrent.py checks.
NOT_HERE = {
    *(
        f"ScaledDotProduct{kind}Backward0"
        for kind in (
            "FlashAttention",
            "EfficientAttention",
            "CudnnAttention",
            "FusedAttentionOverrideable",
        )
    ),
    "MkldnnRnnLayerBackward0",
}


def normalised(h: Tensor) -> Tensor:
    mean, variance = h.mean(1, keepdim=True), h.var(1, correction=0, keepdim=True)
    return (h - mean) / (variance + 1e-5).sqrt()


def parameter() -> Tensor:
    return torch.tensor(0.9, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("name", sorted(NOT_HERE - {"MkldnnRnnLayerBackward0"}))
def test_attention_nodes_of_gpus_save_the_attributes_that_the_rule_reads(name: str) -> None:
    kept = dir(getattr(torch._C._functions, name))
    names = {"query", "key", "value", "dropout_p", "is_causal", "scale"}
    assert {f"_saved_{each}" for each in names} <= set(kept)
    is_masked = not name.startswith("ScaledDotProductFlash")
    assert ("_saved_attn_bias" in kept) == is_masked


@pytest.mark.sweep
def test_operator_table_matches_reverse_mode_and_covers_every_rule() -> None:
    """A rule that is reached nowhere needs a function in CASES or WRITTEN_OUT."""
    wrong, compared = dict[str, float](), set[str]()
    for name in operators():
        for kinds, difference in outcomes(name):
            if difference is not None:
                compared |= kinds
                if not difference < 1e-10:
                    wrong[name] = difference
    assert wrong == {}
    for points, (function, _) in PAIRS:
        compared |= {node.name for node in trace_graph(function(points, parameter())).nodes}
    assert set(RULES) - compared == NOT_HERE


@each_pair
def test_rule_matches_reverse_mode_of_equal_function(points: Tensor, functions: Any) -> None:
    x, w = points.detach().requires_grad_(), parameter()
    ours, theirs = (function(x, w) for function in functions)
    found = [*higher_order_grad(ours, x, ORDERS, method="taylor")]
    found.append(laplacian(ours, x, method="taylor"))
    if x.dim() > 1:
        found, theirs = [*map(mixed, found)], mixed(theirs)
    expected = [*higher_order_grad(theirs, x, [*ORDERS, (2, 0)], method="reverse")]
    expected[-1] = expected[-1] + expected[1]
    assert_same_thrice(found, expected, [w, x], times=2)


@each_pair
@pytest.mark.sweep
def test_orders_up_to_eight_match_nested_reverse_mode(
    points: Tensor, functions: tuple[Function, Function]
) -> None:
    x, w = points.detach().requires_grad_(), parameter()
    orders = [(order, 0) for order in range(1, 9)]
    outputs, others = (function(x, w).reshape(*x.shape[:-1], -1)[..., 0] for function in functions)
    if {"SpecialI0EBackward0", "SpecialI1EBackward0"} & {n.name for n in trace_graph(others).nodes}:
        pytest.skip("PyTorch's own derivatives of Bessel functions are wrong from order 3 on")
    ours = higher_order_grad(outputs, x, orders, create_graph=False, method="taylor")
    # With nested passes, the graph grows threefold with each order. So beyond the fifth order, they
    # start from the result of Taylor mode, which has been compared up to there.
    fifth = higher_order_grad(outputs, x, (5, 0), method="taylor")
    lower = higher_order_grad(others, x, orders[:5], create_graph=False, method="reverse")
    higher = higher_order_grad(fifth, x, orders[:3], create_graph=False, method="reverse")
    for one, other in zip(ours, lower + higher, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12 * other.abs().amax().item())


# The result of this operator is constant, so its fifth derivative is only a rounding error in both
# modes.
ROUNDED = {"nn.functional.multi_head_attention_forward"}


@pytest.mark.sweep
def test_high_orders_of_operators_match_reverse_mode() -> None:
    found = {
        name: difference
        for name in operators().keys() - ROUNDED
        for _, difference in outcomes(name, orders=[(4, 0), (5, 0)], samples=1)
        if difference is not None and not difference < 1e-8
    }
    assert found == {}


# --- Edge cases


@pytest.mark.parametrize("method", ["taylor", "reverse"])
def test_norm_at_zero_has_only_a_first_derivative(method: Any) -> None:
    x = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    outputs = torch.linalg.vector_norm(x, dim=1)
    first, second = higher_order_grad(outputs, x, [(1, 0), (2, 0)], method=method)
    assert first.tolist() == [0.0] * 3
    assert second.isnan().all()


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(
    "function", [functional.elu, lambda x: functional.celu(x, 2), functional.selu]
)
def test_derivatives_at_kink_of_higher_order_match_reverse_mode(
    function: Callable[[Tensor], Tensor], order: int
) -> None:
    x, y = (torch.zeros(1, 1, dtype=torch.float64, requires_grad=True) for _ in range(2))
    ours = higher_order_grad(function(x), x, order, method="taylor")
    theirs = higher_order_grad(function(y), y, order, method="reverse")
    assert_same_thrice([ours], [theirs], [x], [y])


@pytest.mark.parametrize("function", [functional.elu, functional.celu])
def test_derivative_of_elu_at_nan_is_nan(function: Any) -> None:
    x = torch.full((1, 1), torch.nan, dtype=torch.float64, requires_grad=True)
    assert higher_order_grad(function(x), x, 1, method="taylor").isnan().all()


def test_standard_deviation_of_equal_values_has_zero_derivatives() -> None:
    x, w = rows(3, 2), parameter()
    outputs = (w * x[:, :1]).expand(3, 2).std(1)
    second = higher_order_grad(outputs, x, (2, 0), method="taylor")
    assert second.tolist() == [0.0] * 3
    assert torch.autograd.grad(second.sum(), w)[0].item() == 0.0


def test_integer_powers_given_as_tensor_are_exact_at_zero() -> None:
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


def test_fully_masked_attention_has_zero_derivatives() -> None:
    x, w = rows(3, 2), parameter()
    mask = torch.full((3, 3), -torch.inf, dtype=torch.float64).masked_fill(LATER == 0, 0)
    mask[1] = -torch.inf
    outputs = attention(attn_mask=mask)(x, w).view(3, 2, 3, 2)
    derivative = higher_order_grad(outputs, x, (2, 0), method="taylor")
    assert derivative.select(2, 1).abs().max() == 0
    assert derivative.select(2, 2).abs().min() > 0
    assert torch.autograd.grad(derivative.sum(), w)[0].isfinite()


def test_saturated_softmax_has_exact_derivatives() -> None:
    x = torch.tensor([[300.0, 1.0]], dtype=torch.float64, requires_grad=True)
    outputs = (x**2).softmax(1), (x**2).log_softmax(1)[:, 0], (x**2).logsumexp(1)
    for output, expected in zip(outputs, ([0.0, 0.0], 0.0, 0.0), strict=True):
        third = higher_order_grad(output, x, (3, 0), method="taylor")
        assert third.tolist() == [expected]


@pytest.mark.parametrize("value", [30.0, -30.0, 400.0])
def test_saturated_activations_have_no_nan(value: float) -> None:
    x = torch.full((1, 1), value, dtype=torch.float64, requires_grad=True)
    for function in (torch.tanh, torch.sigmoid, functional.softplus, functional.elu):
        (third,) = higher_order_grad(function(x), x, [3], method="taylor")
        assert abs(third.item()) < 1e-12
        assert torch.autograd.grad(third, x, allow_unused=True, materialize_grads=True)[
            0
        ].isfinite()


def test_sigmoid_is_exact_where_it_is_tiny() -> None:
    x = torch.full((1, 1), -40.0, dtype=torch.float64, requires_grad=True)
    fourth = higher_order_grad(torch.sigmoid(x), x, 4, method="taylor")
    torch.testing.assert_close(fourth, torch.exp(x.detach()), rtol=1e-14, atol=0)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: torch.sinc(point(x, x)).imag, message("derivative.reason.complex")),
        (lambda x: (x ** torch.full_like(x, 2).mul(1j)).imag, message("derivative.reason.complex")),
    ],
    ids=["sinc", "a complex power"],
)
def test_unsupported_complex_operations_are_refused(
    function: Callable[[Tensor], Tensor], why: str
) -> None:
    x = rows(3, 2)
    with pytest.raises(RuntimeError, match=why):
        higher_order_grad(function(x), x, (2, 0), method="taylor")


@pytest.mark.parametrize("function", [torch.fft.fft, torch.fft.ifft, torch.fft.fft2])
def test_fourier_transform_along_rows_is_refused(function: Callable[..., Tensor]) -> None:
    x = rows(3, 2)
    outputs = torch.view_as_real(function(x.exp() + 0j, dim=(0, 1) if "2" in str(function) else 0))
    for method in ("auto", "taylor", "reverse"):
        with pytest.raises(RuntimeError, match="row"):
            higher_order_grad(outputs, x, (2, 0), method=method)


def test_complex_numbers_in_single_precision_are_precise_at_high_order() -> None:
    x, w = rows(3, 2), parameter()
    single = x.detach().float().requires_grad_()
    for order in [(2, 0), (1, 1), (0, 4), (0, 9)]:
        ours = higher_order_grad(point(single, w.float()).log().imag, single, order)
        theirs = higher_order_grad(point(x, w).log().imag, x, order)
        assert ours.dtype == torch.float32
        scale = theirs.detach().abs().max().item() + 1e-3
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=1e-4 * scale)


def test_transposed_tensor_viewed_as_complex_works_in_both_methods() -> None:
    x, w = rows(3, 2), parameter()
    phase = torch.view_as_complex(along_two(x, w).mT.contiguous()).log().imag
    derivatives = [higher_order_grad(phase, x, (2, 0), method=m) for m in ("taylor", "reverse")]
    assert_same(derivatives[:1], derivatives[1:])


def test_complex_functions_at_zero_have_zero_derivatives() -> None:
    x = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
    z = torch.complex(x[:, 0], x[:, 1])
    for outputs in (z.abs(), z.angle(), z.sgn().imag):
        for order in [(1, 0), (0, 2)]:
            found = higher_order_grad(outputs, x, order, method="taylor")
            assert torch.equal(found, torch.zeros(2, dtype=torch.float64))


def test_grid_sample_of_single_pixel_has_zero_derivatives() -> None:
    x = rows(3, 2)
    outputs = functional.grid_sample(
        x.new_ones(1, 2, 1, 1), x[None, None], padding_mode="reflection", align_corners=True
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
def test_removable_singularities_at_zero_are_filled(
    function: Callable[[Tensor], Tensor], derivatives: list[float]
) -> None:
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    found = higher_order_grad(function(x), x, [1, 2, 3, 4], method="taylor")
    expected = [x.new_tensor([each]) for each in derivatives]
    assert_same(found, expected)


@pytest.mark.parametrize("function", [torch.i0, torch.special.i1])
def test_bessel_functions_match_first_derivative_of_reverse_mode(
    function: Callable[[Tensor], Tensor],
) -> None:
    x = rows(3, 2)
    options: dict[str, Any] = {"create_graph": False}
    found = [
        higher_order_grad(function(x), x, (1, 0), method=method, **options)
        for method in ("taylor", "reverse")
    ]
    assert_same(found[:1], found[1:])
