"""What PyTorch's own code is doing, by the frames that run it."""

import inspect
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from leafgrad import _autograd


def is_grad_mode(frame: FrameType) -> bool:
    return _autograd.is_grad_mode(frame.f_code.co_filename)


class Switches(TorchFunctionMode):
    """Notes to what gradients are switched, and which frames of PyTorch's lead there."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[bool, bool]] = []

    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _autograd.SET_GRAD_ENABLED:
            frame = inspect.currentframe()
            frames = [frame] if frame and frame.f_back is None else []
            frame = frame.f_back if frame else None
            while frame is not None and frame.f_code.co_filename != __file__:
                frames.append(frame)
                frame = frame.f_back
            self.seen.append((args[0], all(map(is_grad_mode, frames))))
        return func(*args, **(kwargs or {}))


def block() -> None:
    with torch.no_grad():
        pass


def call() -> None:
    torch.set_grad_enabled(False)
    torch.set_grad_enabled(True)


@torch.no_grad()
def decorated() -> None:
    pass


class Decorated(nn.Module):
    @torch.no_grad()
    def forward(self) -> None:
        pass


@pytest.mark.parametrize("switch", [block, call, decorated, Decorated()])
def test_a_mode_is_shown_each_switch_of_gradients(switch: Callable[[], None]) -> None:
    with Switches() as switches:
        switch()
    assert switches.seen == [(False, True), (True, True)]


def test_a_switch_within_a_function_of_pytorch_is_told_apart() -> None:
    with Switches() as switches:
        torch.distributions.Normal(torch.ones(2), 1.0).sample()
    assert switches.seen == [(False, False), (True, False)]


class Custom(torch.optim.Optimizer):
    """An optimizer of one's own, which looks at the frames around its step."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})
        self.found: list[str | None] = []

    def step(self, _: Any = None) -> None:  # type: ignore[override]
        frame: FrameType | None = inspect.currentframe()
        while frame is not None:
            self.found.append(_autograd.stepping_optimizer(frame))
            frame = frame.f_back


def test_the_frame_around_a_step_tells_the_optimizer() -> None:
    optimizer = Custom([torch.ones(1, requires_grad=True)])
    optimizer.step()
    assert [name for name in optimizer.found if name] == ["Custom"]
