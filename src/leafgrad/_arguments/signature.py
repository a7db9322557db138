"""Decorate public functions, so that `torch.compile` does not trace them."""

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

    If a compiled caller reaches the function, it runs uncompiled. With `refusal`, it raises this
    error message. With `traceable`, the compiler traces the result of that function. A single
    wrapper does all of this, because each wrapper costs time in every call.
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
