"""The decorator of all public functions: no tracing by compilers."""

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
    """Decorate a public function. One wrapper does everything, as each call of one takes time.

    Where `torch.compile` comes upon the function as it traces a caller,
    the function runs as it is, or raises with `refusal`, or what `traceable` makes of it is traced.
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
