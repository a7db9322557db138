"""Facts about backward passes, one test each."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from leafgrad import _autograd
from tests.tensors import custom


def leaf(value: float) -> torch.Tensor:
    return torch.tensor(value, requires_grad=True)


def retained() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x = leaf(3.0)
    y = x.exp()
    y.retain_grad()
    return x, y, y * 2.0


@pytest.mark.parametrize("is_filled", [False, True])
def test_retained_gradients_are_restored(*, is_filled: bool) -> None:
    x, y, z = retained()
    if is_filled:
        z.backward(retain_graph=True)
    before = y.grad
    with _autograd.preserve_retained_grads():
        torch.autograd.grad(z, x, retain_graph=True)
        assert y.grad == (4.0 if is_filled else 2.0)
    assert y.grad is before
    assert not is_filled or before == 2.0


def test_retained_gradients_are_restored_after_error() -> None:
    x, y, z = retained()
    x.register_hook(lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError), _autograd.preserve_retained_grads():
        torch.autograd.grad(z, x)
    assert y.grad is None


def test_invalid_view_has_no_retained_gradient_to_restore() -> None:
    x = torch.ones(2, requires_grad=True).exp()
    one, _ = x.unbind()
    one.retain_grad()
    x.mul_(2.0)
    with _autograd.preserve_retained_grads():
        torch.autograd.grad(x.sum(), x)


class Subclass(torch.Tensor):
    """A subclass, whose gradients are of the same class."""


@pytest.mark.parametrize("kind", [torch.Tensor, Subclass])
@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_of_all_returns_right_gradient_and_keeps_the_graph(
    kind: type[torch.Tensor], *, create_graph: bool
) -> None:
    x = torch.tensor([2.0, 3.0]).as_subclass(kind).requires_grad_()
    outputs = x**3
    (found,) = _autograd.gradients_of_all(outputs, [x], create_graph=create_graph)
    assert found is not None
    assert type(found) is kind
    assert found.tolist() == [12.0, 27.0]
    assert found.requires_grad == create_graph
    outputs.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [12.0, 27.0]


def test_gradients_of_all_is_none_without_path() -> None:
    x, y = leaf(2.0), leaf(3.0)
    assert _autograd.gradients_of_all(x * 2, [y], create_graph=False) == (None,)


# --- Backward passes without hooks


class Mixed(torch.autograd.Function):
    """Also takes a number, and returns three results, one of them without a gradient."""

    @staticmethod
    def forward(ctx: Any, factor: float, x: Tensor, y: Tensor, constant: Tensor) -> Any:
        ctx.factor = factor
        ctx.save_for_backward(x, y)
        ctx.mark_non_differentiable(constant)
        return factor * x, x * y, constant

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        first, second, _ = gradients
        x, y = ctx.saved_tensors
        return None, ctx.factor * first + second * y, second * x, None, None


class Strict(torch.autograd.Function):
    """Receives None instead of zeros."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        return x.clone(), x.clone()

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        given = [gradient for gradient in gradients if gradient is not None]
        return sum(given)


def mixed(x: Tensor) -> Tensor:
    apply: Any = Mixed.apply
    first, second, constant = apply(2.0, x, x.sin(), torch.ones(3, 2, dtype=x.dtype))
    result: Tensor = first * second + constant
    return result


def strict(x: Tensor) -> Tensor:
    apply: Any = Strict.apply
    result: Tensor = apply(x.sin())[1]
    return result.exp()


def written(x: Tensor) -> Tensor:
    y = x * 2
    y[:, 0] = x[:, 1] * 3
    return y


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "itself": lambda x: x,
    "elementwise": lambda x: x.sin() * x.exp() + x,
    "broadcast": lambda x: x[:, :1] + torch.ones(4, 3, 2, dtype=x.dtype) * x.sum(),
    "of several outputs": lambda x: x.unbind(1)[0] * x.unbind(1)[1] + x.sum(),
    "network": lambda x: functional.linear(x, torch.ones(4, 2, dtype=x.dtype)).tanh().sum(1),
    "over complex numbers": lambda x: torch.fft.fft(x).abs() + (x + 1j).real,
    "in another dtype": lambda x: (x.float().sin() * x).half().double(),
    "mixed": mixed,
    "strict": strict,
    "written": written,
    "foreach": lambda x: torch._foreach_exp([x, x * 2])[0],
    "checkpoint": lambda x: checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False),
    "in vmap": torch.func.vmap(lambda row: row.sin() * row.sum()),
    "nothing": torch.sign,
}


def points() -> Tensor:
    return torch.linspace(0.2, 1.7, 6, dtype=torch.float64).sin().view(3, 2).requires_grad_()


def gradient_of(outputs: Tensor, inputs: Tensor, weight: Tensor) -> Tensor | None:
    path = _autograd.path_between(outputs, inputs)
    assert path is not None
    return _autograd.unseen_gradient(outputs, [inputs], path, weight)


def assert_as_pytorch(outputs: Tensor, inputs: Tensor) -> None:
    weight = torch.linspace(-1, 1, outputs.numel(), dtype=outputs.dtype).view(outputs.shape)
    theirs = torch.autograd.grad(outputs, inputs, weight, retain_graph=True, allow_unused=True)[0]
    for _ in range(2):
        ours = gradient_of(outputs, inputs, weight)
        assert ours is not None
        torch.testing.assert_close(
            ours, theirs, rtol=1e-14, atol=1e-14
        )  # the order of the sum is not defined
        assert not ours.requires_grad


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_unseen_gradient_equals_gradient_of_pytorch(function: Callable[[Tensor], Tensor]) -> None:
    x = points()
    assert_as_pytorch(function(x), x)
    result = x * 1.5  # It is not a leaf.
    assert_as_pytorch(function(result), result)


def test_unseen_gradient_is_none_where_backward_returns_none() -> None:
    x = points()
    lost = custom(lambda _: None)(x).exp()
    assert gradient_of(lost, x, torch.ones(3, 2)) is None


@pytest.mark.parametrize("is_anomaly_looked_for", [False, True])
def test_unseen_gradient_calls_no_hook_and_stores_nothing(*, is_anomaly_looked_for: bool) -> None:
    seen: list[str] = []
    x, w = points(), torch.ones(2, 2, dtype=torch.float64, requires_grad=True)
    with torch.autograd.set_detect_anomaly(is_anomaly_looked_for):
        h = x @ w
        y = h.tanh()
        outputs = y.exp()
    for tensor in (x, w, h, y, outputs):
        tensor.register_hook(lambda _: seen.append("tensor"))
        if tensor.grad_fn is not None:
            tensor.retain_grad()
            tensor.grad_fn.register_hook(lambda *_: seen.append("node"))
            tensor.grad_fn.register_prehook(lambda *_: seen.append("before"))
        else:
            tensor.register_post_accumulate_grad_hook(lambda _: seen.append("after"))
    with torch.autograd.set_detect_anomaly(is_anomaly_looked_for):
        gradient_of(outputs, x, torch.full((3, 2), torch.nan))
        assert torch.is_anomaly_enabled() == is_anomaly_looked_for
    assert seen == []
    assert [tensor.grad for tensor in (x, w, h, y, outputs)] == [None] * 5
    torch.autograd.grad(outputs.sum(), x)
    assert {*seen} == {"tensor", "node", "before"}


def test_unseen_gradient_reruns_checkpoint_once() -> None:
    calls = []

    def function(x: Tensor) -> Tensor:
        calls.append("call")
        return x.sin().exp().tanh()

    x = points()
    outputs: Any = checkpoint(function, x, use_reentrant=False)
    gradient_of(outputs, x, torch.ones(3, 2))
    assert calls == ["call", "call"]


def test_unseen_gradient_raises_on_freed_graph() -> None:
    x = points()
    outputs = x.exp()
    outputs.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        gradient_of(outputs, x, torch.ones(3, 2))


def test_unseen_gradient_skips_other_branches() -> None:
    x, w = points(), points()
    other = custom(lambda _: pytest.fail("another branch ran"))(w)
    gradient_of(x * other, x, torch.ones(3, 2))
