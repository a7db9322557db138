"""A backward pass that nobody sees gives what PyTorch's own gives, and leaves no trace."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from leafgrad import _autograd


class Mixed(torch.autograd.Function):
    """Takes what is no tensor as well, and gives three results, one of no use."""

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
    """Wants to be told where no gradient arrives."""

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


class Turned(torch.autograd.Function):
    """Gives gradients to two."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, y = ctx.saved_tensors
        return gradients[0] * y, gradients[0] * x


def turned(x: Tensor) -> Tensor:
    apply: Any = Turned.apply
    result: Tensor = apply(x.sin(), points())
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
    "turned": turned,
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
        torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=1e-14)  # sums in any order
        assert not ours.requires_grad


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_it_gives_what_pytorch_gives(function: Callable[[Tensor], Tensor]) -> None:
    x = points()
    assert_as_pytorch(function(x), x)
    result = x * 1.5  # what is no leaf
    assert_as_pytorch(function(result), result)


def test_what_gets_no_gradient_has_none() -> None:
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(_: Any, *__: Any) -> Any:
            return None

    x = points()
    apply: Any = Nothing.apply
    assert gradient_of(apply(x).exp(), x, torch.ones(3, 2)) is None


@pytest.mark.parametrize("is_anomaly_looked_for", [False, True])
def test_no_hook_is_called_and_no_gradient_kept(*, is_anomaly_looked_for: bool) -> None:
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


def test_a_checkpoint_runs_its_function_once() -> None:
    calls = []

    def function(x: Tensor) -> Tensor:
        calls.append("call")
        return x.sin().exp().tanh()

    x = points()
    outputs: Any = checkpoint(function, x, use_reentrant=False)
    gradient_of(outputs, x, torch.ones(3, 2))
    assert calls == ["call", "call"]


def test_what_goes_wrong_is_raised() -> None:
    x = points()
    outputs = x.exp()
    outputs.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        gradient_of(outputs, x, torch.ones(3, 2))


def test_only_what_is_asked_for_is_computed() -> None:
    asked = []

    class Ask(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(_: Any, *gradients: Any) -> Any:
            asked.append("another")
            return gradients[0]

    apply: Any = Ask.apply
    x, w = points(), points()
    gradient_of(x * apply(w), x, torch.ones(3, 2))
    assert asked == []


def test_a_complex_gradient_of_something_real_is_left_to_pytorch_to_refuse() -> None:
    class Complex(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(_: Any, *gradients: Any) -> Any:
            return gradients[0] * (2 + 1j)

    x = points()
    apply: Any = Complex.apply
    outputs = apply(x.exp())
    weight = torch.ones(3, 2, dtype=x.dtype)
    ours = gradient_of(outputs, x, weight)
    assert ours is not None
    torch.testing.assert_close(ours, 2 * x.exp().detach())
    with pytest.raises(RuntimeError, match="input_is_complex == grad_is_complex"):
        torch.autograd.grad(outputs, x, weight)
