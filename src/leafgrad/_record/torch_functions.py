"""What is known of a PyTorch function that is called: its name, its tensors, whether it writes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

import torch
from torch import Tensor

_ATTRIBUTE = type(Tensor.shape.__get__)  # type: ignore[attr-defined]
_OF_PYTORCH = BuiltinFunctionType | MethodDescriptorType | WrapperDescriptorType


def name_of(func: Any) -> str:
    """Return the name of a function: ``".data"`` for an attribute, ``".data ="`` where it is set.

    What stands in for a function, such as a partial one, may have the name of its type alone.
    """
    if type(func) is _ATTRIBUTE:
        sign = " =" if func.__name__ == "__set__" else ""
        return f".{func.__self__.__name__}{sign}"
    name: str = getattr(func, "__name__", type(func).__name__)
    is_distributed = getattr(func, "__module__", None) == "torch.distributed.distributed_c10d"
    return f"torch.distributed.{name}" if is_distributed else name


def may_write(func: Any) -> bool:
    """Return whether a function may write into its arguments without being told to by a keyword.

    An operator that PyTorch has no function of its own for may do anything.
    """
    name = name_of(func)
    if type(func) is _ATTRIBUTE:
        return name == ".data ="
    if name in COLLECTIVES or (name.endswith("_") and not name.endswith("__")):
        return True
    if isinstance(func, FunctionType):
        return "max_norm" in func.__code__.co_varnames  # an embedding that keeps its norms small
    is_writing_operator = name == "__setitem__" or name.startswith("__i")
    return is_writing_operator or not isinstance(func, _OF_PYTORCH)


def tensors_in(args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[Tensor]:
    """Return the tensors among the arguments of a call, also those in lists, a few levels deep."""
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


def floats_in(args: Iterable[object]) -> Iterator[float]:
    """Yield the floating-point numbers among some arguments and in lists, a few levels deep."""
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for one in args:
            if isinstance(one, float):
                yield one
            elif isinstance(one, list | tuple):
                below += one[:MAX_NUMBERS]
            elif isinstance(one, dict):
                below += one.values()
        args = below


def results_of_collective(name: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """Return what a collective writes its results into."""
    keyword, place = COLLECTIVES[name]
    return args[place] if len(args) > place else (kwargs or {}).get(keyword)


COLLECTIVES = {
    f"torch.distributed.{name}": result
    for name, result in {
        "all_gather": ("tensor_list", 0),
        "all_gather_coalesced": ("output_tensor_lists", 0),
        "all_gather_into_tensor": ("output_tensor", 0),
        "all_gather_single": ("output_tensor", 0),
        "all_to_all": ("output_tensor_list", 0),
        "all_to_all_single": ("output", 0),
        "gather": ("gather_list", 1),
        "reduce_scatter": ("output", 0),
        "reduce_scatter_single": ("output", 0),
        "reduce_scatter_tensor": ("output", 0),
        "scatter": ("tensor", 0),
    }.items()
}
"""The argument that a collective writes its results into: its keyword and its place.

Before 2.12, PyTorch does not show a function mode `all_gather_coalesced`, `all_to_all`, `gather`,
`reduce_scatter` and `scatter`. A recording cannot name them there.
"""

_NO_HOLDERS = {int, float, bool, str, type(None), torch.Size, torch.dtype, torch.device}
_MAY_HOLD = (Tensor, list, tuple)
MAX_DEPTH = 5
MAX_NUMBERS = 100
