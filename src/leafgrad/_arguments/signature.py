"""Decorate public functions, to decide what happens when compiled code calls them."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch

from leafgrad import _autograd

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def public_function(
    *,
    refusal: str | None = None,
    traceable: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Return a decorator for a public function that decides what happens under `torch.compile`.

    By default, the function runs uncompiled when compiled code calls it. A single wrapper handles
    all cases, because each wrapper costs time in every call.

    Args:
        refusal: The message of the error that a call from compiled code raises.
        traceable: A function that turns the public function into one that the compiler can trace.
    """

    def decorated(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        def refuse(*_: Any, **__: Any) -> Any:
            raise RuntimeError(refusal)

        uncompiled: Callable[Arguments, Result] = function if refusal is None else refuse
        compiled: Callable[Arguments, Result]
        compiled = (traceable or _autograd.outside_compiled_code)(uncompiled)

        @wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            if torch.compiler.is_dynamo_compiling():
                return compiled(*args, **kwargs)
            return function(*args, **kwargs)

        return call

    return decorated
