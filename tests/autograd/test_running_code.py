"""Facts about running code of PyTorch, one test each."""

import inspect
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode

from leafgrad import _autograd, record


def is_grad_mode(frame: FrameType) -> bool:
    return _autograd.is_grad_mode(frame.f_code.co_filename)


class Switches(TorchFunctionMode):
    """Records each switch of the grad mode and whether PyTorch's frames lead to it."""

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
def test_mode_sees_each_grad_mode_switch(switch: Callable[[], None]) -> None:
    with Switches() as switches:
        switch()
    assert switches.seen == [(False, True), (True, True)]


def test_grad_mode_switch_inside_pytorch_is_detected() -> None:
    with Switches() as switches:
        torch.distributions.Normal(torch.ones(2), 1.0).sample()
    assert switches.seen == [(False, False), (True, False)]


class Custom(torch.optim.Optimizer):
    """An optimizer that inspects the frames around its step."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})
        self.found: list[str | None] = []

    def step(self, _: Any = None) -> None:  # type: ignore[override]
        frame: FrameType | None = inspect.currentframe()
        while frame is not None:
            self.found.append(_autograd.stepping_optimizer(frame))
            frame = frame.f_back


def test_stepping_optimizer_is_found_by_frame() -> None:
    optimizer = Custom([torch.ones(1, requires_grad=True)])
    optimizer.step()
    assert [name for name in optimizer.found if name] == ["Custom"]


# --- Creation of parameters


def test_watched_parameters_reports_own_thread_only() -> None:
    seen: list[Any] = []
    x = torch.ones(2)
    with _autograd.watched_parameters(lambda data, made: seen.append((data, made))):
        with _autograd.watched_parameters(lambda *_: None):
            first = nn.Parameter(x)
        second = nn.Parameter(data=x, requires_grad=False)
        nn.Parameter()
        thread = threading.Thread(target=nn.Parameter, args=(x,))
        thread.start()
        thread.join()
    third = nn.Parameter(x)
    assert [made for _, made in seen] == [first, second]
    assert all(data is x for data, _ in seen)
    assert type(third) is nn.Parameter
    assert "__call__" not in vars(type(nn.Parameter))


# --- Removal of global module hooks


def hooked() -> torch.utils.hooks.RemovableHandle:
    return register_module_forward_hook(lambda *_: None, with_kwargs=True, always_call=True)


def left(handle: torch.utils.hooks.RemovableHandle) -> bool:
    return handle.id in vars(module)["_global_forward_hooks_with_kwargs"]


def test_remove_hook_on_all_removes_what_remove_leaves() -> None:
    handle = hooked()
    handle.remove()
    assert left(handle)
    _autograd.remove_hook_on_all(handle)
    assert not left(handle)


def test_recording_leaves_no_hook() -> None:
    before = module._has_any_global_hook()
    with record():
        torch.nn.Linear(2, 1)(torch.ones(2))
    assert module._has_any_global_hook() == before
