"""Recurrent layers have the same derivatives in single precision as in double precision."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import higher_order_grad, laplacian
from tests.derivative.refusals import words

LAYERS: dict[str, Any] = {
    "LSTM": lambda: nn.LSTM(2, 3),
    "two layers": lambda: nn.LSTM(2, 3, num_layers=2),
    "both directions": lambda: nn.LSTM(2, 3, bidirectional=True),
    "without a bias": lambda: nn.LSTM(2, 3, bias=False),
    "GRU": lambda: nn.GRU(2, 3),
    "RNN": lambda: nn.RNN(2, 3),
}


OF_ONE_NODE = [*LAYERS][:4]
CASES = [(name, "outputs") for name in LAYERS] + [(name, "state") for name in OF_ONE_NODE]


@pytest.mark.parametrize(("name", "part"), [*CASES, ("LSTM", "moving state")])
def test_recurrent_layer_is_differentiated_in_single_precision(name: str, part: str) -> None:
    make = LAYERS[name]
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(0)
        layer, x = make(), torch.rand(4, 6)

    def found(dtype: torch.dtype, method: Any) -> list[torch.Tensor]:
        model, inputs = copy.deepcopy(layer).to(dtype), x.to(dtype).requires_grad_()
        given = [inputs.reshape(4, 3, 2).transpose(0, 1)]
        if part == "moving state":
            given.append((inputs[None, :, :3].exp(), inputs[None, :, 3:].exp()))  # type: ignore[arg-type]
        outputs, state = model(*given)
        state = state[-1] if isinstance(state, tuple) else state
        result = (outputs if part == "outputs" else state).transpose(0, 1).flatten(1)[:, :4]
        order = (2, 1, 0, 0, 0, 0)
        third = higher_order_grad(result, inputs, order, method=method)
        total = laplacian(result, inputs, method=method)
        sources = [inputs, *model.parameters()]
        loss = total.square().sum() + third.square().sum()
        return [third, total, *torch.autograd.grad(loss, sources)]

    theirs = found(torch.float64, "reverse")
    for method in ("taylor", "auto"):
        for one, other in zip(found(torch.float32, method), theirs, strict=True):
            scale = 1 + other.abs().max().item()
            torch.testing.assert_close(one.double() / scale, other / scale, rtol=0, atol=1e-5)


def test_taylor_mode_refuses_lstm_weights_that_depend_on_inputs() -> None:
    layer, x = nn.LSTM(2, 3), torch.rand(1, 6, requires_grad=True)
    weights = {name: p.detach() * (1 + x.sum()) for name, p in layer.named_parameters()}
    outputs, _ = torch.func.functional_call(layer, weights, (x.detach().reshape(3, 1, 2),))
    if "Mkldnn" not in str(outputs.grad_fn):
        pytest.skip("it is made of other operations here")
    with pytest.raises(RuntimeError, match=words("reason.lstm")):
        laplacian(outputs.transpose(0, 1), x, method="taylor")
