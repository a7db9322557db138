"""Run a function in the PyTorch mode that it needs, whatever mode the caller is in."""

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
    """Return a decorator: the decorated function runs in the context that `choose_mode` returns.

    `choose_mode` is called with the same arguments. It returns None if the right mode is already
    on, because entering a mode takes longer than a check.
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
    """Return a context with grad mode on and inference mode off, or None if both are so already.

    In this context, autograd tracks operations, and tensors have version counters.
    """
    if torch.is_grad_enabled() and not torch.is_inference_mode_enabled():
        return None
    return torch.inference_mode(mode=False)


def plain_results(problem: Any, *_: object, **__: object) -> AbstractContextManager[Any] | None:
    """Return a context in which results are plain tensors even if the inputs are of a subclass.

    Return None if outputs and inputs are plain tensors.
    """
    if {type(problem.outputs), type(problem.inputs)} <= {torch.Tensor, torch.nn.Parameter}:
        return None
    return _autograd.without_subclasses()
