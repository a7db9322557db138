"""What is given to be differentiated: tensors, the axes of their shapes, and orders."""

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

Function = Callable[..., Tensor]  # of inputs
Inputs = Tensor | Sequence[Tensor]
MultiIndex = tuple[int, ...]

# --- Tensors


def check_differentiable(name: str, tensor: object) -> None:
    """Raise where `tensor` is nothing that has a derivative, or that a derivative is taken of."""
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"{name} must be a tensor, not of type {type(tensor).__name__}{_tensor_of(tensor)}"
        )
    if _autograd.is_wrapped(tensor):
        raise RuntimeError(
            f"{name} must be a plain tensor, not one inside torch.func "
            f"({_autograd.functorch_wrapper(tensor)}): {_OUTSIDE}"
        )
    if tensor.is_meta:
        raise TypeError(f"{name} must hold data, which a tensor on the meta device does not")
    if not tensor.is_floating_point():
        raise TypeError(_not_real(name, tensor))
    if tensor.layout is not torch.strided:
        raise TypeError(f"{name} must be dense, not {tensor.layout}; convert it by to_dense()")
    lack = _autograd.lacking_memory(tensor)
    if lack is not None:
        raise RuntimeError(
            f"{name} must hold data, but {lack}: give it back its memory, which "
            "untyped_storage().resize_() took"
        )


def _not_real(name: str, tensor: Tensor) -> str:
    """Return what to do with numbers that have no derivative of this kind."""
    if tensor.is_complex():
        one_by_one = "take real and imaginary part one at a time"
        return f"{name} must be real, not {tensor.dtype}; {one_by_one}"
    return f"{name} must be floating point, not {tensor.dtype}; convert it first"


_OUTSIDE = (
    "call higher_order_grad outside of the transform, and take gradients in parameters by "
    "torch.autograd.grad, those of each row at once with is_grads_batched=True; or nest "
    "torch.func.grad inside"
)


def _tensor_of(given: object) -> str:
    """Return how a tensor is made of what was given in its place."""
    if callable(given):
        return "; outputs come first, then inputs"
    return "; make one by torch.as_tensor(...), and compute outputs from it"


def evaluate(function: object, *inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return outputs and what they were computed from: `inputs`, or copies that require grad."""
    if not callable(function):
        raise TypeError(
            "outputs must be a tensor, or a function that computes one from inputs, not of type "
            f"{type(function).__name__}"
        )
    if _autograd.is_transformed() and not all(x.requires_grad for x in inputs):
        raise RuntimeError(f"inputs must require grad before torch.func is called: {_OUTSIDE}")
    leaves = [
        x if x.requires_grad else _autograd.detached(x.clone()).requires_grad_() for x in inputs
    ]
    outputs: object = function(*leaves)
    if not isinstance(outputs, Tensor):
        raise TypeError(_no_tensor(outputs))
    return outputs, leaves


def _no_tensor(outputs: object) -> str:
    what = (
        "outputs must be a tensor, not of type "
        f"{type(outputs).__name__}, which the function that was given for it returned"
    )
    if outputs is None:
        return f"{what}: is its return missing?"
    if isinstance(outputs, tuple | list):
        return f"{what}; pick one of them, as in lambda x: model(x)[0]"
    return f"{what}; give one that returns the tensor to differentiate"


# --- Axes


class Axes(NamedTuple):
    """How the axes of inputs, ``(*batch, *columns)``, and outputs, ``(*batch, *channels)``, belong.

    Rows are what the batch counts; a row of inputs has columns, mostly on one axis, a row of
    outputs channels. Elementwise, each element is a row of its own: one column, one channel.
    """

    batch: Size
    row: Size  # the shape of a row of inputs
    is_elementwise: bool

    @property
    def columns(self) -> int:
        """The number of columns, on all axes of a row."""
        return self.row.numel()


def read_axes(outputs: Tensor, inputs: Tensor, *, by_column: bool) -> Axes:
    """Return rows, columns and channels, or raise where the shapes do not fit together.

    The shape of inputs is ``(*batch, columns)`` and that of outputs ``(*batch, *channels)``. Where
    outputs has fewer axes than such a batch, all of them count rows, and what inputs has besides
    are columns. Equal shapes mean elementwise, unless derivatives are asked for `by_column` or
    there is one column.
    """
    shape, whole = outputs.shape, inputs.shape
    has_columns = bool(whole)
    by_column = has_columns and (by_column or whole[-1] == 1)
    if shape == whole and not by_column:
        return Axes(batch=whole, row=Size(), is_elementwise=True)
    batch = whole[: len(shape)] if 0 < len(shape) < len(whole) else whole[:-1]
    if has_columns and shape[: len(batch)] == batch:
        return Axes(batch=batch, row=whole[len(batch) :], is_elementwise=False)
    raise ValueError(
        "outputs must have the shape of inputs (elementwise), or (*batch, *channels) where "
        f"inputs has (*batch, columns), but outputs has the shape {tuple(outputs.shape)} and "
        f"inputs {tuple(inputs.shape)}{_axes_cure(tuple(shape), tuple(whole[:-1]))}"
    )


def _axes_cure(shape: tuple[int, ...], batch: tuple[int, ...]) -> str:
    """Return what to do where it shows how the shapes came about; `batch` is all but columns."""
    if not shape:
        return (
            "; pass what has a value for each row, before mean() or sum() made one number of it, "
            "or give a single sample an axis for rows: compute outputs from inputs.unsqueeze(0)"
        )
    if batch and shape[-len(batch) :] == batch:
        return "; the axes of the batch come first: transpose outputs"
    if len(batch) > 1 and shape[0] == batch[0]:
        return "; if the first axis alone counts rows, compute outputs from inputs.flatten(1)"
    return ""


# --- Orders


# A pass carries as many coefficients, and multiplies each two of them: to plan which of a thousand
# go where takes half a minute, and eight times as long for twice as many. Beyond single columns, as
# many second derivatives as forty columns have are as many.
MOST_DERIVATIVES = 1000


def parse_orders(order: object, axes: Axes) -> list[MultiIndex]:
    """Return what was given as `order` as multi-indices, or raise where it cannot be one."""
    if type(order) is tuple and _is_index(order, axes):
        orders = [order]
    elif not isinstance(order, list):
        orders = [_parse(order, axes, "order")]
    elif not order:
        raise ValueError(
            "order must ask for at least one derivative, not for none as [] does; 0 is outputs "
            "itself"
        )
    elif 1 < axes.columns == len(order) and None not in (counts := list(map(as_count, order))):
        raise TypeError(
            f"order must be a tuple where it is one multi-index, as ({_listed(counts)}), not the "
            f"list {shorten(order)}: a list asks for several orders"
        )
    else:
        orders = [_parse(entry, axes, f"order[{place}]") for place, entry in enumerate(order)]
    _check_count(frozenset(orders))
    return orders


def is_by_column(order: object) -> bool:
    """Return whether an order, or one in a list of them, counts the columns one by one."""
    if isinstance(order, list):
        return any(isinstance(entry, tuple) for entry in order)
    return isinstance(order, tuple)


def as_count(value: object) -> int | None:
    """Return a whole number, also one of NumPy or PyTorch, as an int; None for anything else."""
    if isinstance(value, int):
        return None if isinstance(value, bool) else value
    try:
        number = value.item() if hasattr(value, "item") else operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        return None
    return number if type(number) is int else None


def shorten(value: object) -> str:
    """Return how what was given is written, in short where it is long."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # a number with too many digits for Python to write
        return f"one of type {type(value).__name__} that is too long to be shown"


_SHORT = reprlib.Repr()
_SHORT.maxtuple = _SHORT.maxlist = 10
_SHORT.maxother = _SHORT.maxstring = 80


def _parse(order: object, axes: Axes, name: str) -> MultiIndex:
    if isinstance(order, tuple):
        return _parse_multi_index(order, axes, name)
    count = as_count(order)
    if count is None:
        raise TypeError(
            f"{name} must be an int, a multi-index (a tuple of ints) or a list of these, "
            f"not {shorten(order)} of type {type(order).__name__}{_instead(order)}"
        )
    if count < 0:
        raise ValueError(f"{name} must be 0 or more, not {count}; 1 is the first derivative")
    if axes.columns != 1:
        raise ValueError(_int_for_columns(count, axes, name))
    return (count,)


def _is_index(order: tuple[Any, ...], axes: Axes) -> bool:
    """Return whether a tuple is a multi-index as it is, as nearly all are, and fits."""
    if axes.is_elementwise or len(order) != axes.columns:
        return False
    return _INTS.issuperset(map(type, order)) and min(order, default=0) >= 0


_INTS = frozenset((int,))  # alone, as True is another kind of int


def _instead(order: object) -> str:
    """Return the cure for what is nearly an order: how it is written."""
    if isinstance(order, float) and order.is_integer():
        return f"; write {int(order)}"
    numbers = order.tolist() if hasattr(order, "tolist") else order
    if isinstance(numbers, list) and None not in (counts := list(map(as_count, numbers))):
        return f"; a multi-index is a tuple, as ({_listed(counts)})"
    return ""


def _parse_multi_index(order: tuple[object, ...], axes: Axes, name: str) -> MultiIndex:
    counts = tuple([count for count in map(as_count, order) if count is not None])
    if len(counts) != len(order):
        if all(isinstance(entry, tuple) for entry in order):
            raise TypeError(
                f"{name} must hold an int for each column of inputs, not {shorten(order)}; several "
                f"orders are a list: {shorten([*order])}"
            )
        raise TypeError(f"{name} must hold an int for each column of inputs, not {shorten(order)}")
    if min(counts, default=0) < 0:
        raise ValueError(f"{name} must hold counts of 0 or more, not {shorten(order)}")
    if axes.is_elementwise:
        raise ValueError(f"{name} must be an int where inputs has no columns, not {shorten(order)}")
    if len(counts) != axes.columns:
        each = "one count, for the only column"
        if axes.columns != 1:
            each = f"a count for each of the {axes.columns} columns"
        raise ValueError(
            f"{name} must hold {each} of inputs{_as_flattened(axes)}, not {shorten(order)}"
            f"{_in_the_first_column(counts, axes)}"
        )
    return counts


def _as_flattened(axes: Axes) -> str:
    """Return how columns are counted where they are on several axes."""
    return f", as inputs.flatten({len(axes.batch)}) counts them" if len(axes.row) > 1 else ""


def _in_the_first_column(counts: MultiIndex, axes: Axes) -> str:
    """Return the order in column 0 alone, where one count was given and may be meant so."""
    if len(counts) != 1 or not axes.columns:
        return ""
    return f"; in column 0 alone it is ({_listed([*counts, *[0] * (axes.columns - 1)])})"


def _listed(counts: Collection[int | None]) -> str:
    """Return counts as they stand in a tuple of two or more."""
    return shorten(tuple(counts))[1:-1]


def _int_for_columns(order: int, axes: Axes, name: str) -> str:
    """Return why an int is not enough, and what to do where columns were meant as points."""
    message = (
        f"{name} must be a multi-index, with a count for each of the {axes.columns} columns of "
        f"inputs{_as_flattened(axes)}, not the int {shorten(order)}, which does not say which "
        "column is meant"
    )
    if axes.batch:
        return f"{message}{_in_the_first_column((order,), axes)}"
    return (
        f"{message}; inputs of shape ({axes.columns},) is one point, so for {axes.columns} points "
        f"compute outputs from inputs of shape ({axes.columns}, 1)"
    )


@lru_cache(maxsize=256)
def _check_count(orders: frozenset[MultiIndex]) -> None:
    """Raise where there are so many derivatives on the way to all orders that there is no end."""
    lower: set[MultiIndex] = set()
    for order in orders:
        count = math.prod(counted + 1 for counted in order)
        if count <= MOST_DERIVATIVES + 1:
            lower.update(product(*[range(counted + 1) for counted in order]))
        if max(count, len(lower)) > MOST_DERIVATIVES + 1:
            raise ValueError(
                f"order must lead through {MOST_DERIVATIVES} derivatives at most, which one pass "
                f"can carry, the lower ones on the way counted as well, but {shorten(order)} "
                f"{'needs more' if count > MOST_DERIVATIVES + 1 else 'and others need more'}: ask "
                "for lower orders, or for fewer of them in one call"
            )
