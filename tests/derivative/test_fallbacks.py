"""Operations without a Taylor rule agree with finite differences, or are refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from leafgrad import explain_derivative, hessian, higher_order_grad, laplacian
from tests.derivative.taylor.oracle import differences, rows

TARGET = torch.tensor([[0.1, 0.8], [0.4, 0.3], [0.9, 0.6]], dtype=torch.float64)
CLASSES = torch.tensor([1, 0, 1])
FACTORS = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(2, 12).sin()


def matrices(x: Tensor, size: int = 2) -> Tensor:
    """Return a matrix with three rows and `size` columns for each row of x.

    It has full rank, and no two entries are equal.
    """
    bumps = (x @ FACTORS[:, : 3 * size]).sin().reshape(-1, 3, size)
    return bumps + torch.eye(3, size, dtype=x.dtype) * torch.tensor([1.0, 2.0, 4.0][:size])


def of_rows(loss: Any, **options: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: loss(2 * x.sin(), TARGET, reduction="none", **options)


def force(x: Tensor) -> Tensor:
    leaf = x if x.requires_grad else x.detach().requires_grad_()
    with torch.enable_grad():
        energy = functional.gelu(leaf * leaf.flip(1)).sum()
        (slope,) = torch.autograd.grad(energy, leaf, create_graph=True)
    return slope


# The key is the node that has no rule.
FALLBACKS: dict[str, Callable[[Tensor], Tensor]] = {
    "LinalgQrBackward0": lambda x: torch.linalg.qr(matrices(x)).R[:, 0],
    "LinalgLuBackward0": lambda x: torch.linalg.lu(matrices(x, 3)).U[:, :, 2],
    "LinalgSvdBackward0": lambda x: torch.linalg.svdvals(matrices(x)),
    "CholeskySolveBackward0": lambda x: torch.cholesky_solve(
        x.exp()[..., None], matrices(x)[:, :2].tril()
    )[..., 0],
    "CholeskyInverseBackward0": lambda x: torch.cholesky_inverse(matrices(x)[:, :2].tril())[:, 0],
    "LinalgLstsqBackward0": lambda x: torch.linalg.lstsq(matrices(x), matrices(x).exp()).solution[
        ..., 0
    ],
    "LinalgPinvBackward0": lambda x: torch.linalg.pinv(matrices(x))[..., 0],
    "MseLossBackward0": of_rows(functional.mse_loss),
    "SmoothL1LossBackward0": of_rows(functional.smooth_l1_loss, beta=0.5),
    "HuberLossBackward0": of_rows(functional.huber_loss, delta=0.5),
    "SoftMarginLossBackward0": of_rows(functional.soft_margin_loss),
    "BinaryCrossEntropyBackward0": lambda x: functional.binary_cross_entropy(
        (x * x).sigmoid(), TARGET, reduction="none"
    ),
    "BinaryCrossEntropyWithLogitsBackward0": of_rows(functional.binary_cross_entropy_with_logits),
    "NllLossBackward0": lambda x: functional.nll_loss((x * x).sin(), CLASSES, reduction="none"),
    "GeluBackwardBackward0": force,
    "RenormBackward0": lambda x: (x * x).renorm(2, 0, 1),
    "LgammaBackward0": lambda x: (x * x + 1).lgamma(),
    "ErfinvBackward0": lambda x: (x * x / 9).erfinv(),
    "LogitBackward0": lambda x: (x * x / 9).logit(),
    "SpecialXlog1PyBackward0": lambda x: torch.special.xlog1py(x * x, x.exp()),
    "SpecialEntrBackward0": lambda x: torch.special.entr(x * x),
    "CopysignBackward0": lambda x: torch.copysign(x * x, TARGET - 1),
    "FmaxBackward0": lambda x: torch.fmax(x * x, x.exp()),
    "HardshrinkBackward0": lambda x: functional.hardshrink(x * x),
    "LerpBackward0": lambda x: torch.lerp(x * x, x.exp(), 0.3),
    "AddcdivBackward0": lambda x: torch.addcdiv(x, x * x, x.exp()),
    "KthvalueBackward0": lambda x: matrices(x).flatten(1).kthvalue(2, 1).values,
    "NansumBackward0": lambda x: (x * x).nansum(1),
    "StdMeanBackward0": lambda x: torch.std_mean(matrices(x).flatten(1), 1)[0],
    "TrilinearBackward0": lambda x: functional.bilinear(x, x.exp(), FACTORS.reshape(6, 2, 2)),
    "VdotBackward0": lambda x: torch.stack(
        [torch.vdot(row + 1j, row.exp() * 1j + row).imag for row in x.unbind(0)]
    ),
    "Im2ColBackward0": lambda x: functional.unfold(matrices(x)[:, None], 2).flatten(1),
    "PixelShuffleBackward0": lambda x: torch.pixel_shuffle(x.repeat(1, 2)[..., None, None], 2),
    "SliceScatterBackward0": lambda x: (x * x).slice_scatter(x[:, :1].exp(), 1, 1),
    "SelectScatterBackward0": lambda x: (x * x).select_scatter(x[:, 0].exp(), 1, 1),
    "AminmaxBackward0": lambda x: matrices(x).flatten(1).aminmax(dim=1).max,
    "TakeBackward0": lambda x: (x * x).take(torch.tensor([1, 3, 5])),
    "Rot90Backward0": lambda x: matrices(x).rot90(1, (1, 2)).flatten(1),
}


@pytest.mark.parametrize("name", FALLBACKS)
def test_reverse_mode_fallback_matches_finite_differences(name: str) -> None:
    if name == "AminmaxBackward0" and torch.__version__ < "2.11":
        pytest.skip("before 2.11, PyTorch has no derivative of aminmax")
    x, function = rows(3, 2), FALLBACKS[name]
    outputs = function(x)
    orders = [(1, 0), (1, 1), (0, 2)]
    assert name in explain_derivative(outputs, x, (2, 0)).because
    for order, found in zip(orders, higher_order_grad(outputs, x, orders), strict=True):
        expected = differences(function, x.detach(), order)
        torch.testing.assert_close(found, expected.detach(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["LinalgQrBackward0", "LinalgSvdBackward0", "LinalgPinvBackward0"])
def test_reverse_mode_refuses_rows_mixed_by_matrix_function(name: str) -> None:
    operations: dict[str, Callable[[Tensor], Tensor]] = {
        "LinalgQrBackward0": lambda a: torch.linalg.qr(a).R,
        "LinalgSvdBackward0": torch.linalg.svdvals,
        "LinalgPinvBackward0": torch.linalg.pinv,
    }
    x = rows(2, 2)
    message = f"each row of outputs must depend on the same row of inputs only, .* through {name}"
    with pytest.raises(RuntimeError, match=message):
        laplacian(operations[name](x.exp()) * x, x)


@pytest.mark.parametrize("loss", [functional.mse_loss, functional.huber_loss])
def test_mean_loss_is_refused_over_rows_and_right_for_a_single_point(loss: Any) -> None:
    x = rows(3, 2)
    with pytest.raises(RuntimeError, match="LossBackward0"):
        laplacian(loss(x.sin(), TARGET).expand(3), x)
    w = rows(2)
    found = hessian(loss((TARGET @ w).sin(), TARGET[:, 0]), w)
    expected = torch.autograd.functional.hessian(
        lambda w: loss((TARGET @ w).sin(), TARGET[:, 0]), w.detach()
    )
    torch.testing.assert_close(found.detach(), expected)
