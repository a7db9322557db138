"""Norms of gradients per module."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import record, trace_graph
from leafgrad.types import GradientNorms
from tests.models import Half


def deep(bend: Callable[[], nn.Module], layers: int = 12, gain: float = 1.0) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential()
    for number in range(layers):
        layer = nn.Linear(16, 16)
        nn.init.xavier_normal_(layer.weight, gain=gain)
        model.add_module(f"layer{number}", layer)
        model.add_module(f"bend{number}", bend())
    return model


def norms_of(model: nn.Module, batch: torch.Tensor | None = None) -> GradientNorms:
    batch = torch.randn(8, 16) if batch is None else batch
    with record() as recording:
        loss = model(batch).square().mean()
    return trace_graph(loss, names=model, recording=recording, gradients=True).gradient_norms


def test_gradient_norms_match_hooks_and_parameter_grads() -> None:
    model = deep(nn.Tanh, 3)
    seen: dict[str, torch.Tensor] = {}

    def watch(name: str, module: nn.Module) -> None:
        def hook(_module: nn.Module, _inputs: object, result: torch.Tensor) -> None:
            result.register_hook(lambda gradient: seen.update({name: gradient}))

        module.register_forward_hook(hook)

    for name, module in model.named_children():
        watch(name, module)
    batch = torch.randn(8, 16)
    with record() as recording:
        loss = model(batch).square().mean()
    trace = trace_graph(loss, names=model, recording=recording, gradients=True)
    norms = trace.gradient_norms
    loss.backward()
    found = {one.module: one for one in norms.modules if one.module in seen}
    assert [*found] == ["bend2", "layer2", "bend1", "layer1", "bend0", "layer0"]
    first = seen["bend2"].norm().item()
    for name, gradient in seen.items():
        assert found[name].arriving == pytest.approx(gradient.norm().item())
        assert found[name].ratio == pytest.approx(gradient.norm().item() / first)
    grads = [parameter.grad for parameter in model.get_submodule("layer1").parameters()]
    together = torch.cat([grad.flatten() for grad in grads if grad is not None]).norm().item()
    assert found["layer1"].parameters == pytest.approx(together)
    assert found["bend1"].parameters is None


def test_small_gradient_that_grows_again_is_not_vanishing() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16))
    with torch.no_grad():
        next(model[1].parameters()).mul_(1e5)
        next(model[2].parameters()).mul_(1e-5)
    norms = norms_of(model)
    assert min(one.ratio for one in norms.modules if one.ratio is not None) < 1e-3
    assert norms.vanishing == ()


def test_nonfinite_gradients_are_marked() -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    norms = trace_graph(x.sqrt().sum(), names={"x": x}, gradients=True).gradient_norms
    assert {one.module: one.not_finite for one in norms.modules} == {
        "outside": None,
        "x": "infinity",
    }
    assert str(norms).splitlines()[-1].endswith("infinity")


def test_gradient_that_does_not_arrive_has_no_norm() -> None:
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    z: Any = Half.apply(x, y * 2)  # type: ignore[no-untyped-call]
    norms = trace_graph(z.sum(), names={"y": y}, gradients=True).gradient_norms
    assert {one.module: one.parameters for one in norms.modules if one.module == "y"} == {"y": None}


def test_many_modules_are_summarised_by_outer_ones() -> None:
    blocks = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(13)))
    names = [one.module for one in norms_of(nn.Sequential(blocks)).modules]
    assert "0.12" in names
    assert "0.12.0" not in names


def test_norms_have_text_repr_and_html() -> None:
    norms = norms_of(deep(nn.Sigmoid))
    assert all(len(line) <= 80 for line in str(norms).splitlines())
    assert repr(norms) == "<GradientNorms of 25 modules>"
    assert "bend11" in norms._repr_html_()


def test_gradient_norms_without_gradients_are_refused() -> None:
    trace = trace_graph(torch.ones(2, requires_grad=True).exp())
    with pytest.raises(ValueError, match=r"trace with trace_graph\(\.\.\., gradients=True\)$"):
        _ = trace.gradient_norms
