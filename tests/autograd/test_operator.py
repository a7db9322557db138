"""Facts about the operators behind nodes, one test each."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from leafgrad import _autograd


@pytest.mark.parametrize(
    ("node", "stem", "own_stem"),
    [
        ("MulBackward0", "Mul", "Mul"),
        ("CopyBackwards", "CopyBackwards", "Copy"),
        ("ZeroBackward", "Zero", "ZeroBackward"),  # the name of a custom function
        ("ThresholdBackwardBackward0", "ThresholdBackward", "ThresholdBackward"),
        ("AccumulateGrad", "AccumulateGrad", "AccumulateGrad"),
    ],
)
def test_stems_of_node_names(node: str, stem: str, own_stem: str) -> None:
    assert (_autograd.stem(node), _autograd.own_stem(node)) == (stem, own_stem)


# --- Formulas that return zeros


def leaf() -> torch.Tensor:
    return torch.tensor([1.2, 1.7], requires_grad=True)


ZERO: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "BernoulliBackward0": lambda x: torch.bernoulli(x / 2),
    "BernoulliBackward2": lambda x: (x * 1).bernoulli_(0.5),
    "CauchyBackward0": lambda x: (x * 1).cauchy_(),
    "CeilBackward0": torch.ceil,
    "DivBackward2": lambda x: torch.div(x, 2, rounding_mode="floor"),
    "EqBackward0": lambda x: (x * 1).eq_(2),
    "ExponentialBackward0": lambda x: (x * 1).exponential_(),
    "FillBackward2": lambda x: (x * 1).fill_(2.0),
    "FloorBackward0": torch.floor,
    "GeometricBackward0": lambda x: (x * 1).geometric_(0.5),
    "LogNormalBackward0": lambda x: (x * 1).log_normal_(),
    "NormalBackward0": lambda x: (x * 1).normal_(),
    "NormalBackward1": lambda x: torch.normal(x, 1.0),
    "PoissonBackward0": torch.poisson,
    "RandomBackward2": lambda x: (x * 1).random_(),
    "RoundBackward0": torch.round,
    "RoundBackward1": lambda x: x.round(decimals=1),
    "SgnBackward0": torch.sgn,
    "SignBackward0": torch.sign,
    "TruncBackward0": torch.trunc,
    "UniformBackward0": lambda x: (x * 1).uniform_(),
    "ZeroBackward0": lambda x: (x * 1).zero_(),
}
PASSING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "DivBackward0": lambda x: x / 2,
    "FracBackward0": torch.frac,
    "SgnBackward0": lambda x: torch.sgn(torch.complex(x, x)).real,
}


def node_of(y: torch.Tensor, name: str) -> Any:
    """Find the node of this name."""
    assert y.grad_fn is not None
    (node,) = (one for one in _autograd.walk([y.grad_fn]) if _autograd.node_name(one) == name)
    return node


@pytest.mark.parametrize("name", ZERO)
def test_zero_derivative_is_detected(name: str) -> None:
    x = leaf()
    y = ZERO[name](x)
    node = node_of(y, name)
    assert _autograd.may_give_zeros(node)
    assert _autograd.gives_zeros(node, 0)
    y.backward(torch.ones(2))
    assert torch.equal(x.grad, torch.zeros(2)) if x.grad is not None else False


@pytest.mark.parametrize("name", PASSING)
def test_nonzero_derivative_is_not_called_zero(name: str) -> None:
    x = leaf()
    y = PASSING[name](x)
    assert not _autograd.gives_zeros(node_of(y, name), 0)
    y.backward(torch.ones(2))
    assert name == "SgnBackward0" or (x.grad is not None and bool(x.grad.all()))


def test_overwritten_tensor_gets_zeros() -> None:
    node = node_of((leaf() * 1).copy_(leaf()), "CopyBackwards")
    assert [_autograd.gives_zeros(node, place) for place in (0, 1)] == [True, False]


STRAIGHT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "HardshrinkBackwardBackward0": torch.nn.functional.hardshrink,
    "HardtanhBackwardBackward0": lambda x: torch.nn.functional.hardtanh(x, -2, 2),
    "LeakyReluBackwardBackward0": torch.nn.functional.leaky_relu,
    "RreluWithNoiseBackwardBackward0": lambda x: torch.nn.functional.rrelu(x, training=True),
    "SoftshrinkBackwardBackward0": torch.nn.functional.softshrink,
    "ThresholdBackwardBackward0": torch.relu,
}


@pytest.mark.parametrize("name", STRAIGHT)
def test_second_derivative_of_piecewise_linear_is_zero(name: str) -> None:
    x = leaf()
    (slope,) = torch.autograd.grad(STRAIGHT[name](x).sum(), x, create_graph=True)
    node = node_of(slope, name)
    assert _autograd.may_give_zeros(node)
    assert [_autograd.gives_zeros(node, place) for place in (0, 1)] == [False, True]
    slope.sum().backward()
    assert x.grad is not None
    assert not x.grad.any()
