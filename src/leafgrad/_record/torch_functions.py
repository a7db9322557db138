"""Facts about PyTorch functions and their arguments, for function modes."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

import torch
from torch import Tensor

_ATTRIBUTE = type(Tensor.shape.__get__)  # type: ignore[attr-defined]
MAX_DEPTH = 5
MAX_NUMBERS = 100
_OF_PYTORCH = BuiltinFunctionType | MethodDescriptorType | WrapperDescriptorType


def name_of(func: Any) -> str:
    """Return the name of a function, such as ``"add_"``.

    Reading an attribute is called ``".data"``, and setting it ``".data ="``. The name of a function
    of `torch.distributed` begins with ``"torch.distributed."``. A callable without a name, such as
    a partial, gets the name of its type.
    """
    if type(func) is _ATTRIBUTE:
        sign = " =" if func.__name__ == "__set__" else ""
        return f".{func.__self__.__name__}{sign}"
    name: str = getattr(func, "__name__", type(func).__name__)
    is_distributed = getattr(func, "__module__", None) == "torch.distributed.distributed_c10d"
    return f"torch.distributed.{name}" if is_distributed else name


def may_write(func: Any) -> bool:
    """Check whether a function may write into its arguments even without ``out=`` or ``inplace=``.

    The answer is True for callables of unknown kinds, such as dispatcher operators.
    """
    name = name_of(func)
    if type(func) is _ATTRIBUTE:
        return name in {".data =", ".grad ="}
    is_named_so = (
        is_collective(name)
        or (name.endswith("_") and not name.endswith("__"))
        or name == "__setitem__"
        or name.startswith("__i")
    )
    if isinstance(func, FunctionType):  # an embedding with `max_norm=` changes its weight
        return is_named_so or "max_norm" in func.__code__.co_varnames
    return is_named_so or not isinstance(func, _OF_PYTORCH)


def tensors_in(args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[Tensor]:
    """Return the tensors among the arguments of a call, also in lists a few levels deep."""
    level: list[Any] = [*args, *kwargs.values()] if kwargs else [*args]
    found: list[Tensor] = []
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for argument in level:
            if isinstance(argument, Tensor):
                found.append(argument)
            elif type(argument) not in _NO_HOLDERS and isinstance(argument, list | tuple):
                below += (item for item in argument if isinstance(item, _MAY_HOLD))
        if not below:
            break
        level = below
    return found


def floats_in(value: object, depth: int = MAX_DEPTH) -> Iterator[float]:
    """Yield the floating-point numbers in nested lists, tuples and dicts, a few levels deep.

    `value` is the outermost of these, or a number. `depth` is how many levels are left.
    """
    if isinstance(value, float):
        yield value
    elif isinstance(value, list | tuple | dict) and depth:
        items = [*value.values()] if isinstance(value, dict) else value[:MAX_NUMBERS]
        for item in items:
            yield from floats_in(item, depth - 1)


def results_of_collective(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """Return the argument into which a collective writes: the first one, except for ``gather``.

    `args` and `kwargs` are the arguments of the call.
    """
    given = name_arguments(func, args, kwargs)
    return given.get("gather_list", next(iter(given.values())))


def name_arguments(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """Return the arguments of a call by name; by position if the function has no signature."""
    try:
        return inspect.signature(func).bind_partial(*args, **(kwargs or {})).arguments
    except (TypeError, ValueError):  # a function written in C may have no signature
        return {f"argument {place}": one for place, one in enumerate(args)}


def is_collective(name: str) -> bool:
    """Check whether a function is a collective that writes into other tensors than it reads.

    Before 2.12, PyTorch hides `all_gather_coalesced`, `all_to_all`, `gather`, `reduce_scatter` and
    `scatter` from function modes. A recording cannot name them there.
    """
    words = "gather", "scatter", "all_to_all"
    return name.startswith("torch.distributed.") and any(word in name for word in words)


_NO_HOLDERS = {int, float, bool, str, type(None), torch.Size, torch.dtype, torch.device}
_MAY_HOLD = (Tensor, list, tuple)
