"""Check and parse the arguments of derivatives: tensors, the axes of their shapes, and orders."""

import math
import operator
import reprlib
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Size, Tensor

from leafgrad import _autograd
from leafgrad._messages import message

Function = Callable[..., Tensor]  # The function is called with the inputs.
Inputs = Tensor | Sequence[Tensor]
MultiIndex = tuple[int, ...]

# --- Tensors


def check_differentiable(name: str, tensor: object) -> None:
    """Raise an error unless derivatives of, or with respect to, `tensor` can be computed.

    `name` is the name of the argument in the error message.
    """
    if not isinstance(tensor, Tensor):
        cure = message(f"derivative.tensor.{'swapped-function' if callable(tensor) else 'make'}")
        kind = type(tensor).__name__
        raise TypeError(message("derivative.tensor.type", name=name, type=kind, help=cure))
    if _autograd.is_wrapped(tensor):
        wrapper, cure = _autograd.functorch_wrapper(tensor), message(_TRANSFORM_HELP)
        refusal = message("derivative.tensor.transform", name=name, wrapper=wrapper, help=cure)
        raise RuntimeError(refusal)
    if tensor.is_meta:
        raise TypeError(message("derivative.tensor.meta", name=name))
    if not tensor.is_floating_point():
        key = "derivative.tensor.complex" if tensor.is_complex() else "derivative.tensor.dtype"
        raise TypeError(message(key, name=name, dtype=tensor.dtype))
    if tensor.layout is not torch.strided:
        raise TypeError(message("derivative.tensor.layout", name=name, layout=tensor.layout))
    if (lack := _autograd.lacking_memory(tensor)) is not None:
        raise RuntimeError(message("derivative.tensor.memory", name=name, lack=lack))


_TRANSFORM_HELP = "derivative.tensor.transform-help"


def evaluate(function: object, *inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Call `function` with `inputs`. Return its output and the tensors that it was called with.

    The function is called with a copy of each input that does not require grad. The copy does.
    """
    if not callable(function):
        raise TypeError(message("derivative.function.type", type=type(function).__name__))
    if _autograd.is_transformed() and not all(x.requires_grad for x in inputs):
        help_ = message(_TRANSFORM_HELP)
        raise RuntimeError(message("derivative.tensor.transform-inputs", help=help_))
    leaves = [
        x if x.requires_grad else _autograd.detached(x.clone()).requires_grad_() for x in inputs
    ]
    outputs: object = function(*leaves)
    if not isinstance(outputs, Tensor):
        key = "none" if outputs is None else "several" if isinstance(outputs, tuple | list) else ""
        key = f"derivative.function.returned{key and '-'}{key}"
        raise TypeError(message(key, type=type(outputs).__name__))
    return outputs, leaves


# --- Axes


class Axes(NamedTuple):
    """The axes of inputs, ``(*batch, *columns)``, and outputs, ``(*batch, *channels)``.

    The batch axes count rows. A row of the inputs consists of columns, usually on one axis, and a
    row of the outputs consists of channels. If the axes are elementwise, each element is a row with
    one column and one channel.
    """

    batch: Size
    row: Size  # the shape of a row of inputs
    is_elementwise: bool

    @property
    def columns(self) -> int:
        """The number of columns in a row of inputs, which may have several axes."""
        return self.row.numel()


def read_axes(outputs: Tensor, inputs: Tensor, *, by_column: bool) -> Axes:
    """Return the axes of inputs and outputs, or raise an error if the shapes do not match.

    The shape of inputs is ``(*batch, columns)`` and that of outputs ``(*batch, *channels)``. If
    outputs has fewer axes than this batch, all of its axes count rows, and the remaining axes of
    inputs are columns. If both shapes are equal, the axes are elementwise (see `Axes`), unless
    `by_column` is true or there is only one column.
    """
    shape, whole = outputs.shape, inputs.shape
    has_columns = bool(whole)
    by_column = has_columns and (by_column or whole[-1] == 1)
    if shape == whole and not by_column:
        return Axes(batch=whole, row=Size(), is_elementwise=True)
    batch = whole[: len(shape)] if 0 < len(shape) < len(whole) else whole[:-1]
    if has_columns and shape[: len(batch)] == batch:
        return Axes(batch=batch, row=whole[len(batch) :], is_elementwise=False)
    cure = _axes_cure(tuple(shape), tuple(whole[:-1]))
    sizes = {"outputs": tuple(shape), "inputs": tuple(whole)}
    raise ValueError(message("derivative.shapes.mismatch", help=cure and message(cure), **sizes))


def _axes_cure(shape: tuple[int, ...], batch: tuple[int, ...]) -> str:
    """Return the key of a message with the fix for a common shape mistake, "" for other mistakes.

    `shape` is the shape of the outputs, and `batch` that of the inputs without the last axis.
    """
    if not shape:
        return "derivative.shapes.scalar"
    if batch and shape[-len(batch) :] == batch:
        return "derivative.shapes.batch-last"
    return "derivative.shapes.flatten" if len(batch) > 1 and shape[0] == batch[0] else ""


# --- Orders


# A Taylor pass has one coefficient per derivative and multiplies every pair of them. Planning the
# products of 1000 coefficients takes half a minute, and of 2000 eight times as long. So the limit
# is 1000, enough for a Hessian in forty columns.
MOST_DERIVATIVES = 1000


def parse_orders(order: object, axes: Axes) -> list[MultiIndex]:
    """Convert the argument `order` to multi-indices, or raise an error if it is invalid.

    `axes` defines how many columns there are.
    """
    if type(order) is tuple and _is_index(order, axes):
        orders = [order]
    elif not isinstance(order, list):
        orders = [_parse(order, axes, "order")]
    elif not order:
        raise ValueError(message("derivative.order.empty"))
    elif 1 < axes.columns == len(order) and None not in (counts := list(map(as_count, order))):
        counted = {"counts": _list_counts(counts), "value": shorten(order)}
        raise TypeError(message("derivative.order.list", **counted))
    else:
        orders = [_parse(entry, axes, f"order[{place}]") for place, entry in enumerate(order)]
    _check_count(frozenset(orders))
    return orders


def is_by_column(order: object) -> bool:
    """Check whether `order`, or an entry of it if it is a list, is a tuple of counts per column."""
    if isinstance(order, list):
        return any(isinstance(entry, tuple) for entry in order)
    return isinstance(order, tuple)


def as_count(value: object) -> int | None:
    """Convert a Python, NumPy or PyTorch integer to int. Return None for other values and bools."""
    if isinstance(value, int):
        return None if isinstance(value, bool) else value
    try:
        number = value.item() if hasattr(value, "item") else operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        return None
    return number if type(number) is int else None


def shorten(value: object) -> str:
    """Return the `repr` of `value` for an error message, abbreviated if it is long."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # Python refuses to write a number with too many digits.
        return message("derivative.order.too-long", type=type(value).__name__)


_SHORT = reprlib.Repr()
_SHORT.maxtuple = _SHORT.maxlist = 10
_SHORT.maxother = _SHORT.maxstring = 80


def _parse(order: object, axes: Axes, name: str) -> MultiIndex:
    if isinstance(order, tuple):
        return _parse_multi_index(order, axes, name)
    count = as_count(order)
    if count is None:
        kind, cure = type(order).__name__, _instead(order)
        words = {"name": name, "value": shorten(order), "type": kind, "help": cure}
        raise TypeError(message("derivative.order.type", **words))
    if count < 0:
        raise ValueError(message("derivative.order.negative", name=name, value=count))
    if axes.columns != 1:
        raise ValueError(_int_for_columns(count, axes, name))
    return (count,)


def _is_index(order: tuple[Any, ...], axes: Axes) -> bool:
    """Check whether a tuple of plain ints is a valid multi-index for `axes`.

    `order` is the tuple. It must have a nonnegative entry for each column. This is a quick check: a
    tuple that contains integers of NumPy or PyTorch fails it, but may still be converted (see
    `as_count`).
    """
    if axes.is_elementwise or len(order) != axes.columns:
        return False
    return _INTS.issuperset(map(type, order)) and min(order, default=0) >= 0


_INTS = frozenset((int,))  # `bool` is excluded, although it is a subclass of `int`.


def _instead(order: object) -> str:
    """Return a hint that shows how to write an almost valid `order`, or "" if no hint applies."""
    if isinstance(order, float) and order.is_integer():
        return message("derivative.order.write-int", count=int(order))
    numbers = order.tolist() if hasattr(order, "tolist") else order
    if isinstance(numbers, list) and None not in (counts := list(map(as_count, numbers))):
        return message("derivative.order.write-tuple", counts=_list_counts(counts))
    return ""


def _parse_multi_index(order: tuple[object, ...], axes: Axes, name: str) -> MultiIndex:
    counts = tuple([count for count in map(as_count, order) if count is not None])
    words = {"name": name, "value": shorten(order)}
    if len(counts) != len(order):
        are_several = all(isinstance(entry, tuple) for entry in order)
        key = "derivative.order.several" if are_several else "derivative.order.entries"
        raise TypeError(message(key, list=shorten([*order]), **words))
    if min(counts, default=0) < 0:
        raise ValueError(message("derivative.order.negative-counts", **words))
    if axes.is_elementwise:
        raise ValueError(message("derivative.order.elementwise", **words))
    if len(counts) != axes.columns:
        key = "derivative.order.one-count" if axes.columns == 1 else "derivative.order.counts"
        words |= {"flattened": _as_flattened(axes), "help": _in_the_first_column(counts, axes)}
        raise ValueError(message(key, columns=axes.columns, **words))
    return counts


def _as_flattened(axes: Axes) -> str:
    """Return a sentence on how columns are numbered if they have several axes, otherwise ""."""
    if len(axes.row) <= 1:
        return ""
    return message("derivative.order.flattened", batch=len(axes.batch))


def _in_the_first_column(counts: MultiIndex, axes: Axes) -> str:
    """Return a hint: how to write the single entry of `counts` as the order in column 0.

    Return "" if `counts` has several entries. `axes` defines how many columns there are.
    """
    if len(counts) != 1 or not axes.columns:
        return ""
    index = [*counts, *[0] * (axes.columns - 1)]
    return message("derivative.order.first-column", counts=_list_counts(index))


def _list_counts(counts: Collection[int | None]) -> str:
    """Return counts as text, separated by commas and without parentheses."""
    return shorten(tuple(counts))[1:-1]


def _int_for_columns(order: int, axes: Axes, name: str) -> str:
    """Return the error message for an int as `order` although the inputs have several columns.

    `axes` defines how many columns there are. `name` is the name of the argument.
    """
    cure = message("derivative.order.one-point", columns=axes.columns)
    words = {
        "name": name,
        "columns": axes.columns,
        "flattened": _as_flattened(axes),
        "value": shorten(order),
        "help": _in_the_first_column((order,), axes) if axes.batch else cure,
    }
    return message("derivative.order.int", **words)


@lru_cache(maxsize=256)
def _check_count(orders: frozenset[MultiIndex]) -> None:
    """Raise an error if the orders and all lower orders are more than `MOST_DERIVATIVES`."""
    lower: set[MultiIndex] = set()
    for order in orders:
        count = math.prod(counted + 1 for counted in order)
        if count <= MOST_DERIVATIVES + 1:
            lower.update(product(*[range(counted + 1) for counted in order]))
        if max(count, len(lower)) > MOST_DERIVATIVES + 1:
            key = "too-many" if count > MOST_DERIVATIVES + 1 else "too-many-together"
            words = {"most": MOST_DERIVATIVES, "value": shorten(order)}
            raise ValueError(message(f"derivative.order.{key}", **words))
