"""Arguments that have to be named, and what to say where one was not."""

from collections.abc import Callable
from functools import partial, wraps
from inspect import Parameter, signature
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def by_name(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Tell a caller who passes too much by position what the rest is called; Python only counts."""
    return with_cure("")(function)


def with_cure(
    cure: str,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Do as `by_name` does, and say what else may have been meant."""
    return partial(_watched, cure)


def _watched(cure: str, function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    kinds = {name: one.kind for name, one in signature(function).parameters.items()}
    first = [name for name, kind in kinds.items() if kind is Parameter.POSITIONAL_OR_KEYWORD]
    rest = [f"{name}=" for name, kind in kinds.items() if kind is Parameter.KEYWORD_ONLY]
    most = len(first)

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if len(args) > most:
            count = f"{len(args)} argument{'s' * (len(args) > 1)}"
            raise TypeError(
                f"{function.__name__}() must get {' and '.join(first) or 'nothing'} by position "
                f"and the rest by name ({', '.join(rest)}), not {count} by position{cure}"
            )
        return function(*args, **kwargs)

    return call
