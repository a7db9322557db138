"""Run a function in a mode of PyTorch, whatever mode its caller is in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch

from leafgrad import _autograd

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def run_in(
    choose_mode: Callable[..., AbstractContextManager[Any] | None],
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Decorate a function to run in the mode that `choose_mode` returns.

    It returns None if that mode is on already, because entering a mode takes longer than a check.
    """

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            mode = choose_mode(*args, **kwargs)
            if mode is None:
                return function(*args, **kwargs)
            with mode:
                return function(*args, **kwargs)

        return call

    return decorate


def recording(*_: object, **__: object) -> AbstractContextManager[Any] | None:
    """Return the mode in which PyTorch records operations and tensors have versions."""
    if torch.is_grad_enabled() and not torch.is_inference_mode_enabled():
        return None
    return torch.inference_mode(mode=False)


def plain_results(problem: Any, *_: object, **__: object) -> AbstractContextManager[Any] | None:
    """Return the mode in which results are plain tensors if those of the user are not."""
    if {type(problem.outputs), type(problem.inputs)} <= {torch.Tensor, torch.nn.Parameter}:
        return None
    return _autograd.without_subclasses()
