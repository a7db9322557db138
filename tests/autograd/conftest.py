"""Fixtures of the tests of `_autograd`."""

from typing import Any

import pytest
from torch.overrides import TorchFunctionMode


class WatchingMode(TorchFunctionMode):
    """A mode that records each call."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


@pytest.fixture
def watching_mode() -> WatchingMode:
    return WatchingMode()
