"""The Laplacian: the sum of second derivatives in several columns, computed in one pass.

Let row b of the outputs u, ``(*batch, *channels)``, depend only on row b of the inputs x,
``(*batch, *columns)``, and let H be its Hessian. The Laplacian has the shape of u. For columns i,
or for directions s_n, it is

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
def laplacian(  # noqa: PLR0913 (they are passed by name)
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
    """Return the sum of the second derivatives of `outputs` over the columns of `inputs`.

    This sum is the Laplacian, for each row and channel. A single pass computes it, for most
    networks in less time and memory than one backward pass per column.

    Args:
        outputs: The tensor to differentiate, of shape ``(*batch, *channels)``, or a function or
            module that computes this tensor from `inputs`.
        inputs: The tensor of shape ``(*batch, *columns)`` to differentiate with respect to, or a
            sequence of tensors that each contain some of the columns.
        dims: The columns to sum over, for example those of space but not of time. The default is
            all columns.
        directions: Directions to sum over instead of columns, of shape ``(n, *columns)``.
        with_gradient: Whether to return the first derivatives too. The same pass computes them.
        create_graph: Whether to record the result, so that it can be differentiated further.
        method: ``"taylor"`` propagates Taylor series along the graph, ``"reverse"`` nests backward
            passes, and ``"auto"`` chooses one of the two.
        rows: With ``"proven"``, an error is raised unless each row of `outputs` provably depends
            only on the same row of `inputs`. With ``"independent"``, you promise this where it
            cannot be proven.

    Returns:
        A tensor with the shape of `outputs` and the dtype of `inputs`. With `with_gradient`, a
        tuple of this tensor and the gradient with respect to all columns.

    Example:
        >>> import torch
        >>> from leafgrad import laplacian
        >>> points = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> x, y = points.unbind(-1)
        >>> laplacian(x**3 * y, points).tolist()
        [12.0, 72.0]
        >>> total, gradient = laplacian(x * y, points, with_gradient=True)
        >>> gradient.tolist()
        [[2.0, 1.0], [4.0, 3.0]]

    Raises:
        TypeError: If an argument has the wrong type, or a tensor is complex, integer or sparse.
        ValueError: If the shapes do not match, `dims` and `directions` are both passed, or `dims`,
            `method` or `rows` is invalid.
        RuntimeError: If the graph does not allow the derivative. The message names the reason.

    Note:
        Channels have the same meaning as in `jacobian`. The columns are usually the last axis of
        `inputs`. If `outputs` has fewer axes than the batch before this axis, all axes of `inputs`
        that `outputs` lacks are columns. For example, with outputs of shape ``(batch,)`` and inputs
        of shape ``(batch, electrons, 3)``, the last two axes are columns. `jacobian` and `hessian`
        count columns in the same way.

        >>> laplacian(x**3 + y**2, points, dims=[1]).tolist()
        [2.0, 2.0]

        Directions have the dtype of `inputs`. If each row has its own directions, their shape is
        ``(n, *batch, *columns)``. For directions v and the Hessian H, the result is the sum of
        ``v^T H v``, so each second derivative is multiplied by the squared length of its direction.
        If the directions are the columns of a matrix S, this sum is the trace of ``S S^T H``. The
        directions count as constants, even if they were computed from `inputs`. But you can
        differentiate the result with respect to the directions. The gradient that `with_gradient`
        returns has the shape ``(*batch, *channels, *columns)``, with or without `dims` and
        `directions`.

        >>> laplacian(x * y, points, directions=torch.tensor([[1.0, 1.0]])).tolist()
        [2.0, 2.0]

        As in `higher_order_grad`, a result beyond the range of the dtype of `inputs` is infinite or
        zero.
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
    """Return the columns to sum over, or the directions as ``[n, *batch, *columns]``."""
    check_columns(problem.axes)
    if directions is None:
        return read_columns(dims, problem.axes)
    if dims is not None:
        raise ValueError(message("derivative.laplacian.both"))
    return read_directions(directions, problem.inputs, problem.axes)
