"""One test a fact about what `torch.func` wraps around a tensor."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from leafgrad import _autograd


def leaf(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, requires_grad=True)


def wrappers_seen(transform: Callable[..., Any]) -> list[str | None]:
    """Name the wrapper of the argument inside a transform, and of the tensor in that, and so on."""
    seen: list[str | None] = []

    def look(tensor: torch.Tensor) -> torch.Tensor:
        inside = tensor
        while seen[-1:] != [None]:
            seen.append(_autograd.functorch_wrapper(inside))
            inside = _autograd.unwrapped(inside) if seen[-1] else inside
        return tensor.sum()

    transform(look)(leaf(2, 2))
    return seen


def pushed_forward(look: Callable[..., Any]) -> Callable[..., Any]:
    return lambda tensor: torch.func.jvp(look, (tensor,), (tensor,))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    ("transform", "wrappers"),
    [
        (lambda look: look, [None]),
        (torch.vmap, ["vmap, level 1", None]),
        (torch.func.grad, ["grad, level 1", None]),
        (pushed_forward, ["jvp, level 1", None]),
        (torch.func.functionalize, ["functionalize, level 1", None]),
        (lambda look: torch.vmap(torch.func.grad(look)), ["grad, level 2", "vmap, level 1", None]),
    ],
    ids=["none", "vmap", "grad", "jvp", "functionalize", "grad in vmap"],
)
def test_a_wrapper_tells_its_transform_and_level(
    transform: Callable[..., Any], wrappers: list[str | None]
) -> None:
    assert wrappers_seen(transform) == wrappers


@pytest.mark.parametrize("transform", [torch.vmap, torch.func.grad])
def test_a_wrapper_that_outlives_its_transform_is_told_apart(
    transform: Callable[..., Any],
) -> None:
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor * 1)
        return tensor.sum()

    transform(keep)(leaf(2))
    assert _autograd.functorch_wrapper(kept[0]) == "ended"


def test_a_batch_of_gradients_is_told_whoever_sends_it() -> None:
    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(_: Any, *gradients: Any) -> Any:
            seen.append(_autograd.is_batch(gradients[0]))
            return gradients[0]

    x, units = leaf(2), torch.eye(2)
    y: Any = Look.apply(x)  # type: ignore[no-untyped-call]
    torch.autograd.grad(y, x, units[0], retain_graph=True)
    torch.autograd.grad(y, x, units, is_grads_batched=True, retain_graph=True)
    torch.func.vmap(lambda unit: torch.autograd.grad(y, x, unit, retain_graph=True))(units)
    assert seen == [False, True, True]
