"""The Laplacian: the second derivatives in several columns, added up in one pass.

Of outputs u ``(*batch, *channels)`` and inputs x ``(*batch, *columns)``, of which row b of one
depends on row b of the other alone, it has the shape of u. In columns i, or along directions s_n:

    L[b, c] = sum_i d^2 u[b, c] / d x[b, i]^2        L[b, c] = sum_n s_n^T H[b, c] s_n
"""

from collections.abc import Sequence
from typing import Literal, overload

from torch import Tensor

from leafgrad._arguments.signature import public_function
from leafgrad._derivative.arguments import (
    Function,
    Inputs,
)
from leafgrad._derivative.dependence import raise_if_apart
from leafgrad._derivative.multi_indices import check_columns, read_columns, read_directions
from leafgrad._derivative.problem import (
    DerivativeProblem,
    Method,
    parse_problem,
)
from leafgrad._derivative.row_independence import RowsArgument
from leafgrad._derivative.small_networks import by_kept_plan, may_be_kept
from leafgrad._derivative.taylor.modes import recording, run_in
from leafgrad._derivative.under_compile import traceable
from leafgrad._messages import message


@overload
def laplacian(
    outputs: Tensor | Function,
    inputs: Inputs,
    *,
    dims: Sequence[int] | None = None,
    directions: Tensor | None = None,
    with_gradient: Literal[False] = False,
    create_graph: bool = True,
    method: Method = "auto",
    rows: RowsArgument = "proven",
) -> Tensor: ...


@overload
def laplacian(
    outputs: Tensor | Function,
    inputs: Inputs,
    *,
    dims: Sequence[int] | None = None,
    directions: Tensor | None = None,
    with_gradient: Literal[True],
    create_graph: bool = True,
    method: Method = "auto",
    rows: RowsArgument = "proven",
) -> tuple[Tensor, Tensor]: ...


@public_function(traceable=traceable)
@run_in(recording)
def laplacian(  # noqa: PLR0913 (each by name)
    outputs: Tensor | Function,
    inputs: Inputs,
    *,
    dims: Sequence[int] | None = None,
    directions: Tensor | None = None,
    with_gradient: bool = False,
    create_graph: bool = True,
    method: Method = "auto",
    rows: RowsArgument = "proven",
) -> Tensor | tuple[Tensor, Tensor]:
    """Add up the second derivatives of each row and channel of `outputs` in columns of `inputs`.

    This is what `higher_order_grad` gives for ``(2, 0, ...)``, ``(0, 2, ...)`` and so on, added
    up, but in one pass that carries the sum and no second derivative by itself, which takes less
    work and memory than a reverse pass per column for most networks.

    Args:
        outputs: What to differentiate: a floating point tensor of shape ``(*batch, *channels)``,
            or a function that computes one, as for `higher_order_grad`.
        inputs: The floating point tensor of shape ``(*batch, *columns)`` that `outputs` was
            computed from. Columns are the last axis; where `outputs` has fewer axes than come
            before it, they are all axes that `outputs` lacks, as for ``(batch,)`` and
            ``(batch, electrons, 3)``. Or several tensors, as for `higher_order_grad`.
        dims: The columns to add up, such as those of space where there is one for time as well.
            All of them if not given.
        directions: In the place of columns, n directions across all of them, of shape
            ``(n, *columns)``, or ``(n, *batch, *columns)`` where each row has its own, in the dtype
            of `inputs`. The second derivatives along them are added up, each as long as its
            direction squared: with the columns of a matrix S this is the trace of ``S S^T`` times
            the Hessian.
        with_gradient: Give the first derivatives as well, which the same pass carries.
        create_graph: Record the result, so that it can be differentiated further.
        method: As for `higher_order_grad`.
        rows: As for `higher_order_grad`.

    Returns:
        A number for each row and channel, in a tensor with the shape of `outputs` and the dtype
        of `inputs`. Where `with_gradient`, a tuple of this and the gradient in all columns,
        whatever `dims` or `directions` are, of shape ``(*batch, *channels, *columns)``.

    Raises:
        TypeError: As `higher_order_grad` does, or if `dims` is a single int, or `directions` no
            tensor in the dtype of `inputs`.
        ValueError: If the shapes do not fit together, or `dims` is empty, names a column twice or
            one that is not there, or comes beside `directions`, or `method` is unknown.
        RuntimeError: As `higher_order_grad` does.

    Note:
        What `higher_order_grad` says of the range of its results holds for the sum as well.
        `directions` are constants to what is differentiated, even where they were computed from
        `inputs`; the results carry their graph.

    Example:
        >>> import torch
        >>> from leafgrad import laplacian
        >>> points = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> x, y = points.unbind(-1)
        >>> laplacian(x**3 * y, points).tolist()
        [12.0, 72.0]
        >>> laplacian(x**3 + y**2, points, dims=[1]).tolist()
        [2.0, 2.0]
        >>> laplacian(x * y, points, directions=torch.tensor([[1.0, 1.0]])).tolist()
        [2.0, 2.0]
        >>> total, gradient = laplacian(x * y, points, with_gradient=True)
        >>> gradient.tolist()
        [[2.0, 1.0], [4.0, 3.0]]
    """
    if not isinstance(with_gradient, bool):
        raise TypeError(message("derivative.flag", name="with_gradient", value=with_gradient))
    request = None
    is_plain = dims is None and directions is None and not with_gradient
    if is_plain and may_be_kept(method, rows, create_graph):
        request = "laplacian"
        second = by_kept_plan(request, outputs, inputs, create_graph=create_graph)
        if second is not None:
            return sum(second[1:], second[0])
    problem = parse_problem(
        outputs,
        inputs,
        by_column=True,
        create_graph=create_graph,
        method=method,
        rows=rows,
        request=request,
    )
    try:
        along = _along(dims, directions, problem)
    except ValueError as error:
        raise_if_apart(error, problem.outputs, problem.inputs)
        raise
    total, gradient, _ = problem.laplacian(along, with_gradient=with_gradient)
    total = problem.finish(total)
    return total if gradient is None else (total, problem.finish(gradient))


def _along(
    dims: Sequence[int] | None, directions: Tensor | None, problem: DerivativeProblem
) -> list[int] | Tensor:
    """Return the columns to add up, or the directions, ``[n, *batch, *columns]``."""
    check_columns(problem.axes)
    if directions is None:
        return read_columns(dims, problem.axes)
    if dims is not None:
        raise ValueError(message("derivative.laplacian.both"))
    return read_directions(directions, problem.inputs, problem.axes)
