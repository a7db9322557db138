"""The decorator of all public functions: arguments by name, and no tracing by compilers."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

import torch

from leafgrad import _autograd
from leafgrad._messages import message

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def public_function(
    *,
    cure: str = "",
    refusal: str | None = None,
    traceable: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Decorate a public function. One wrapper does everything, as each call of one takes time.

    A caller who passes too much by position is told what the rest is called, where Python only
    counts, and then `cure`. Where `torch.compile` comes upon the function as it traces a caller,
    the function runs as it is, or raises with `refusal`, or what `traceable` makes of it is traced.
    """

    def decorated(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        kinds = {name: one.kind for name, one in signature(function).parameters.items()}
        first = [name for name, kind in kinds.items() if kind is Parameter.POSITIONAL_OR_KEYWORD]
        rest = [f"{name}=" for name, kind in kinds.items() if kind is Parameter.KEYWORD_ONLY]
        most = len(first)

        def refuse(*_: Any, **__: Any) -> Any:
            raise RuntimeError(refusal)

        uncompiled: Callable[Arguments, Result] = function if refusal is None else refuse
        compiled: Callable[Arguments, Result]
        compiled = (traceable or _autograd.outside_compiled_code)(uncompiled)

        @wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            if len(args) > most:
                raise TypeError(
                    message(
                        "errors.call.position",
                        function=function.__name__,
                        first=message("lists.and").join(first) or message("errors.call.nothing"),
                        rest=", ".join(rest),
                        count=len(args),
                        cure=cure,
                    )
                )
            if torch.compiler.is_dynamo_compiling():
                return compiled(*args, **kwargs)
            return function(*args, **kwargs)

        return call

    return decorated
