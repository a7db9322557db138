"""Each network that people differentiate for physics goes through Taylor mode, and rightly so."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from leafgrad import higher_order_grad, laplacian
from tests.derivative.taylor.networks import NETWORKS, WRITTEN_OUT
from tests.derivative.taylor.oracle import assert_same_thrice, rows

pytestmark = pytest.mark.sweep

Maker = Callable[[], nn.Module]
ORDERS = [(1, 0), (0, 2), (1, 1), (2, 1)]


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
def test_a_network_is_differentiated_without_falling_back(make: Maker) -> None:
    x, network = rows(3, 2), make()
    outputs = network(x)
    sources = [x, *network.parameters()]
    ours = higher_order_grad(outputs, x, ORDERS, method="taylor")
    theirs = higher_order_grad(outputs, x, ORDERS, method="reverse")
    assert_same_thrice(ours, theirs, sources)
    assert_same_thrice(
        [laplacian(outputs, x, method="taylor")],
        [laplacian(outputs, x, method="reverse")],
        sources,
    )


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_a_network_that_reverse_mode_cannot_differentiate_often_is_as_if_written_out(
    name: str,
) -> None:
    x, (network, written_out) = rows(3, 2), (make() for make in WRITTEN_OUT[name])
    assert_same_thrice(
        higher_order_grad(network(x), x, ORDERS, method="taylor"),
        higher_order_grad(written_out(x), x, ORDERS, method="reverse"),
        [x, *network.parameters()],
        [x, *written_out.parameters()],
        times=2 if name == "transformer" else 3,  # as PyTorch differentiates its attention once
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
def test_a_network_is_differentiated_in_less_precision(make: Maker, dtype: torch.dtype) -> None:
    x = rows(3, 2).detach().to(dtype).requires_grad_()
    network = make().to(dtype)
    derivative = higher_order_grad(network(x), x, (0, 1), method="taylor")
    assert derivative.dtype == dtype
    assert derivative.isfinite().all()
