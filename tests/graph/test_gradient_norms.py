"""Norms of gradients per module, and their diagnoses."""

import json
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


def test_norms_match_hooks_and_grads() -> None:
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


def test_vanishing_gradients_are_reported() -> None:
    norms = norms_of(deep(nn.Sigmoid))
    names = [one.module for one in norms.vanishing]
    assert names[-1] == "layer0"
    assert all(one.ratio is not None and one.ratio < 1e-3 for one in norms.vanishing)
    before = norms.modules[[one.module for one in norms.modules].index(names[0]) - 1]
    assert before.ratio is not None
    assert before.ratio >= 1e-3
    last = norms.vanishing[-1].ratio
    assert norms.sentences == (
        f"gradients vanish from {names[0]} on: at layer0 arrives {last:.1e} of the norm at bend11",
    )
    assert norms.exploding == ()


def test_exploding_gradients_are_reported() -> None:
    norms = norms_of(deep(nn.Identity, gain=3.0))
    assert norms.vanishing == ()
    assert norms.exploding[-1].module == "layer0"
    (sentence,) = norms.sentences
    assert sentence.startswith(f"gradients explode from {norms.exploding[0].module} on: at layer0")


def test_dip_that_recovers_is_not_vanishing() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16))
    with torch.no_grad():
        next(model[1].parameters()).mul_(1e5)
        next(model[2].parameters()).mul_(1e-5)
    norms = norms_of(model)
    assert min(one.ratio for one in norms.modules if one.ratio is not None) < 1e-3
    assert norms.vanishing == ()


def test_zero_gradients_name_operation_that_made_them() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    with torch.no_grad():
        [*model[0].parameters()][1].fill_(-100.0)
    norms = norms_of(model, torch.rand(16, 4))
    found = [(one.node and one.node.name, one.leaves) for one in norms.zeros]
    assert found == [
        ("AddmmBackward0", ("2.weight",)),
        ("ReluBackward0", ("0.bias", "0.weight")),
    ]
    assert "gradients all zeros for 0.bias, 0.weight, from node 4, ReluBackward0, at " in " ".join(
        norms.sentences
    )


def test_zero_grad_outputs_are_reported_as_the_start() -> None:
    x = torch.ones(3, requires_grad=True)
    trace = trace_graph(x * 2, names={"x": x}, gradients=True, grad_outputs=torch.zeros(3))
    (zeros,) = trace.gradient_norms.zeros
    assert (zeros.node, zeros.leaves) == (None, ("x",))
    assert trace.gradient_norms.sentences == ("gradients all zeros for x, from the start",)


def test_zeros_on_one_of_two_paths_are_not_reported() -> None:
    x = torch.ones(3, requires_grad=True)
    trace = trace_graph((x * 0 + x).sum(), names={"x": x}, gradients=True)
    assert trace.gradient_norms.zeros == ()


def test_gradients_with_underflowing_squares_are_not_zeros() -> None:
    x = torch.ones(9, requires_grad=True)
    trace = trace_graph((x * 1e-30).sum(), names={"x": x}, gradients=True)
    assert trace.gradient_norms.zeros == ()


def test_nonfinite_gradients_are_marked_and_lead_to_find_nan() -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    norms = trace_graph(x.sqrt().sum(), names={"x": x}, gradients=True).gradient_norms
    assert {one.module: one.not_finite for one in norms.modules} == {
        "outside": None,
        "x": "infinity",
    }
    assert str(norms).splitlines()[-1].endswith("infinity")
    assert "first at x: find_nan()" in str(norms)
    assert norms.sentences == norms.cures == ()


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


def test_norms_have_text_repr_html_and_dict() -> None:
    norms = norms_of(deep(nn.Sigmoid))
    assert str(norms).splitlines()[0].startswith("gradients vanish from ")
    assert all(len(line) <= 80 for line in str(norms).splitlines())
    assert repr(norms) == "<GradientNorms of 25 modules>"
    assert "gradients vanish" in norms._repr_html_()
    assert json.loads(json.dumps(norms.to_dict()))["modules"][1]["module"] == "bend11"


def cure_of(loss: torch.Tensor, **names: torch.Tensor) -> str:
    """Return the cure for the zero gradients of a loss."""
    trace = trace_graph(loss, names=names, gradients=True, values=True)
    (cure,) = trace.gradient_norms.cures
    return cure


def test_each_sentence_has_its_cure() -> None:
    x = torch.ones(3, requires_grad=True)
    norms = trace_graph((x * 0).sum(), names={"x": x}, gradients=True).gradient_norms
    (zeros,) = norms.zeros
    assert norms.cures == (f"{zeros.because}. {zeros.cure}.",)
    assert " ".join(str(norms).split()).startswith(f"{norms.sentences[0]}. {norms.cures[0]}")
    assert "clip_grad_norm_" in norms_of(deep(nn.Identity, gain=20.0)).cures[0]


def test_cancelling_uses_and_zeroing_hook_have_different_cures() -> None:
    x = torch.ones(3, requires_grad=True)
    assert "several uses add up to zero" in cure_of((x - x).sum(), x=x)
    y = x * 1
    y.register_hook(lambda gradient: 0 * gradient)
    assert "A hook makes zeros" in cure_of(y.exp().sum(), x=x)


def test_zeros_of_unknown_cause_have_general_cure() -> None:
    x = torch.zeros(3, requires_grad=True)
    assert "what it passed on is. Look" in cure_of(torch.sinc(x).sum(), x=x)


@pytest.mark.parametrize(("dtype", "says"), [("float16", "GradScaler"), ("float32", "factor")])
def test_underflow_and_small_factor_have_different_cures(dtype: str, says: str) -> None:
    x = torch.ones(3, requires_grad=True, dtype=getattr(torch, dtype))
    tiny = 1e-4 if dtype == "float16" else 1e-30
    with record(values=True) as recording:
        loss = ((x * tiny) * tiny).sum()
    trace = trace_graph(loss, names={"x": x}, recording=recording, gradients=True, values=True)
    assert says in trace.gradient_norms.cures[0]


def test_norms_need_gradients() -> None:
    trace = trace_graph(torch.ones(2, requires_grad=True).exp())
    with pytest.raises(ValueError, match=r"trace with trace_graph\(\.\.\., gradients=True\)$"):
        _ = trace.gradient_norms
