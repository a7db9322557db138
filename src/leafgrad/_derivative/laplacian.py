"""The Laplacian: the second derivatives in several columns, added up in one pass."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import cast

import torch
from torch import Tensor

from leafgrad._arguments.signature import public_function
from leafgrad._derivative.arguments import Axes, Function, as_count, shorten
from leafgrad._derivative.path import raise_if_apart
from leafgrad._derivative.problem import Method, is_recording, parse_problem
from leafgrad._derivative.traced import traced


@public_function(traced=traced)
def laplacian(
    outputs: Tensor | Function,
    inputs: Tensor,
    *,
    dims: Sequence[int] | None = None,
    create_graph: bool = True,
    method: Method = "auto",
) -> Tensor:
    """Add up the second derivatives of each row and channel of `outputs` in columns of `inputs`.

    This is what `higher_order_grad` gives for ``(2, 0, ...)``, ``(0, 2, ...)`` and so on, added
    up, but in one pass that carries the sum and no second derivative by itself, which takes less
    work and memory than a reverse pass per column for most networks.

    Args:
        outputs: What to differentiate: a floating point tensor of shape ``(*batch, *channels)``,
            or a function that computes one, as for `higher_order_grad`.
        inputs: The floating point tensor of shape ``(*batch, columns)`` that `outputs` was
            computed from.
        dims: The columns to add up, such as those of space where there is one for time as well.
            All of them if not given.
        create_graph: Record the result, so that it can be differentiated further.
        method: As for `higher_order_grad`.

    Returns:
        A number for each row and channel, in a tensor with the shape of `outputs` and the dtype
        of `inputs`.

    Raises:
        TypeError: As `higher_order_grad` does, or if `dims` is a single int.
        ValueError: If the shapes do not fit together, or `dims` is empty, names a column twice or
            one that is not there, or `method` is unknown.
        RuntimeError: As `higher_order_grad` does.

    Note:
        What `higher_order_grad` says of the range of its results holds for the sum as well.

    Example:
        >>> import torch
        >>> from leafgrad import laplacian
        >>> points = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> x, y = points.unbind(-1)
        >>> laplacian(x**3 * y, points).tolist()
        [12.0, 72.0]
        >>> laplacian(x**3 + y**2, points, dims=[1]).tolist()
        [2.0, 2.0]
    """
    if not is_recording():
        with torch.inference_mode(mode=False):
            return laplacian(outputs, inputs, dims=dims, create_graph=create_graph, method=method)
    problem = parse_problem(
        outputs, inputs, by_column=True, create_graph=create_graph, method=method
    )
    try:
        columns = _columns(dims, problem.axes)
    except ValueError as error:
        raise_if_apart(error, problem.outputs, problem.inputs)
        raise
    return problem.finish(problem.laplacian(columns))


def _columns(dims: Sequence[int] | None, axes: Axes) -> list[int]:
    """Return the columns to add up, or raise where `dims` does not name them."""
    if axes.is_elementwise:
        raise ValueError("inputs must have columns in its last axis, but has no axes")
    columns = list(range(axes.columns)) if dims is None else _ints(dims, at_most=axes.columns)
    if not columns:
        raise ValueError(f"dims must name at least one column, not {shorten(dims)}")
    are_known = set(columns) <= set(range(axes.columns))
    if not are_known or len(set(columns)) < len(columns):
        raise ValueError(
            f"dims must name columns from 0 to {axes.columns - 1}, each once, not {shorten(dims)}"
            f"{_from_the_end(columns, axes.columns)}"
        )
    return columns


def _ints(dims: object, at_most: int) -> list[int]:
    """Return the entries as ints, one more than there may be where there are more."""
    if isinstance(dims, Iterable) and not (isinstance(dims, Tensor) and not dims.dim()):
        counts = [as_count(dim) for dim in islice(dims, at_most + 1)]
        if None not in counts:
            return cast("list[int]", counts)
    count = as_count(dims)
    cure = "" if count is None else f"; name one column by [{count}]"
    raise TypeError(f"dims must be a list of ints, not {shorten(dims)}{cure}")


def _from_the_end(columns: list[int], count: int) -> str:
    """Return the cure for columns that were counted from the end, where there are any."""
    if not all(-count <= column < count for column in columns) or min(columns) >= 0:
        return ""
    return f"; counted from the front these are {[column % count for column in columns]}"
