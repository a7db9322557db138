"""All wrong formulas of PyTorch are in the list, and reverse mode refuses them."""

from collections.abc import Callable
from functools import partial
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from leafgrad import higher_order_grad
from tests.derivative.formulas import WRONG_FORMULAS, sweep, verdicts
from tests.tensors import Cube
from tests.trace.operators.operators import quiet_table


@pytest.mark.sweep
def test_list_of_wrong_formulas_matches_sweep_of_all_operators() -> None:
    assert sweep() == WRONG_FORMULAS, "python -m tests.derivative.formulas writes the list"


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("operator", "node"),
    [
        ("as_strided_scatter", "AsStridedScatterBackward0"),
        ("i0", "I0Backward0"),
        ("special.i1", "SpecialI1Backward0"),
        ("logcumsumexp", "LogcumsumexpBackward0"),
        ("nn.functional.batch_norm", "NativeBatchNormBackwardBackward0"),
        ("nn.functional.layer_norm", "NativeLayerNormBackwardBackward0"),
        ("nn.functional.max_unpool2d", "MaxUnpool2DBackward0"),
        ("normal", "NormalBackward3"),
    ],
)
def test_listed_formula_is_wrong_in_this_pytorch(operator: str, node: str) -> None:
    with quiet_table():
        verdict = next((each for each in verdicts([operator]) if each.wrong is not None), None)
    if node == "NativeBatchNormBackwardBackward0" and torch.__version__ >= "2.14.1":
        assert verdict is None  # The formula is right since this version, but still refused.
        return
    assert verdict is not None
    (kind,) = (kind for kind in verdict.nodes if kind.name == node)
    assert verdict.wrong == WRONG_FORMULAS[node][0] + 1 + kind.level


def features(x: Tensor) -> Tensor:
    return torch.cat([x.sin(), x.exp(), x**2, x], dim=1)


def normalised(h: Tensor) -> Tensor:
    mean, variance = h.mean(1, keepdim=True), h.var(1, correction=0, keepdim=True)
    return (h - mean) / (variance + 1e-5).sqrt()


Operation = Callable[[Tensor], Tensor]
# Each formula has an operation with it, an equivalent that is right, and the highest order at which
# PyTorch is right.
WRONG: dict[str, tuple[Operation, Operation, int]] = {
    "NativeLayerNormBackward0": (lambda h: functional.layer_norm(h, (4,)), normalised, 2),
    "NativeBatchNormBackward0": (
        lambda h: functional.instance_norm(h.unsqueeze(1)).squeeze(1),
        normalised,
        2,
    ),
    "LogcumsumexpBackward0": (lambda h: h.logcumsumexp(1), lambda h: h.exp().cumsum(1).log(), 2),
    "MaxUnpool2DBackward0": (
        lambda h: functional.max_unpool1d(
            h[:, None, :2], torch.ones(len(h), 1, 2, dtype=torch.int64), [2]
        )[:, 0],
        lambda h: torch.cat([h[:, :1] * 0, h[:, 1:2], h[:, :2] * 0], 1),
        0,
    ),
    "AsStridedScatterBackward0": (
        lambda h: torch.as_strided_scatter(h[:1], h[:1, :1], (1, 1), (1, 1)),
        lambda h: torch.cat([h[:1, :1], h[:1, 1:]], 1),
        0,
    ),
}


def cube(x: Tensor) -> Tensor:
    result: Tensor = Cube.apply(x)  # type: ignore[no-untyped-call]
    return result


def point() -> Tensor:
    return torch.full((1, 1), 0.7, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("node", WRONG)
def test_wrong_formula_is_refused_in_reverse_mode_and_named(node: str) -> None:
    operation, right, highest = WRONG[node]
    x = point()
    outputs, expected = operation(features(x)), right(features(x))
    message = f"outputs was computed through {node}, whose derivatives from order {highest + 1} on"
    for order, create_graph in product(range(1, 4), (False, True)):
        differentiate = partial(
            higher_order_grad, outputs, x, order, create_graph=create_graph, method="reverse"
        )
        if order + create_graph <= highest:
            torch.testing.assert_close(differentiate(), higher_order_grad(expected, x, order))
        else:
            with pytest.raises(RuntimeError, match=message):
                differentiate()


@pytest.mark.parametrize("node", WRONG)
def test_wrong_formula_is_never_used_by_auto(node: str) -> None:
    """Test each formula separately and together with a function without a Taylor rule."""
    operation, right, highest = WRONG[node]
    x = point()
    for order in range(1, 4):
        expected = higher_order_grad(right(features(x)), x, order)
        alone = operation(features(x))
        if node == "AsStridedScatterBackward0":
            with pytest.raises(RuntimeError, match=f"through {node}"):
                higher_order_grad(alone, x, order)
        else:
            torch.testing.assert_close(higher_order_grad(alone, x, order), expected)
        if order >= highest:
            with pytest.raises(RuntimeError, match=f"through {node}"):
                higher_order_grad(cube(alone), x, order)


def test_batch_norm_in_eval_mode_is_right_at_any_order() -> None:
    x, norm = point(), torch.nn.BatchNorm1d(4).double().eval()
    third = higher_order_grad(norm(features(x)), x, 3, method="reverse")
    torch.testing.assert_close(third, higher_order_grad(features(x) / (1 + 1e-5) ** 0.5, x, 3))


@pytest.mark.parametrize(
    "clamp",
    [
        lambda x: x.clamp(-1, 1),
        lambda x: x.clamp(torch.ones(1, dtype=x.dtype), None),
        lambda x: torch.clamp_min(x, 1),
        lambda x: torch.clamp_max(x, torch.ones(1, dtype=x.dtype)),
    ],
    ids=["numbers", "tensor", "clamp_min", "clamp_max"],
)
def test_derivative_at_limit_of_clamp_matches_reverse_mode(clamp: Operation) -> None:
    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    outputs = clamp(x) * x
    expected = higher_order_grad(outputs, x, 2, method="reverse")
    torch.testing.assert_close(higher_order_grad(outputs, x, 2), expected)
