"""The Hessian: all second derivatives of all channels, row by row.

Let row b of the outputs u, ``(*batch, *channels)``, depend only on row b of the inputs x,
``(*batch, *columns)``. The Hessian is ``(*batch, *channels, *columns, *columns)``:

    H[b, c, i, j] = d^2 u[b, c] / d x[b, i] d x[b, j]

It is symmetric, so each pair of columns is computed once.
"""

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

from leafgrad._arguments.signature import public_function
from leafgrad._derivative.arguments import MOST_DERIVATIVES, Function, Inputs
from leafgrad._derivative.multi_indices import check_columns, index_of, pairs_of, read_columns
from leafgrad._derivative.problem import Method, parse_problem
from leafgrad._derivative.row_independence import RowsArgument
from leafgrad._derivative.taylor.modes import recording, run_in
from leafgrad._derivative.under_compile import traceable
from leafgrad._messages import message


@public_function(traceable=traceable)
@run_in(recording)
def hessian(
    outputs: Tensor | Function,
    inputs: Inputs,
    *,
    dims: Sequence[int] | None = None,
    create_graph: bool = True,
    method: Method = "auto",
    rows: RowsArgument = "proven",
) -> Tensor:
    """Return all second derivatives of each row and channel of `outputs`: a matrix per channel.

    The matrix contains what `higher_order_grad` returns for ``(2, 0, ...)``, ``(1, 1, ...)`` and so
    on. If you need less than the whole matrix H, other functions are cheaper: `laplacian` for its
    trace and for sums of ``v^T H v``; `jacobian` of ``higher_order_grad(u, x, 1, directions=v)``
    for ``H v``.

    Args:
        outputs: The tensor to differentiate: floating point, of shape ``(*batch, *channels)``. Or a
            function that computes it, as for `higher_order_grad`.
        inputs: The floating point tensor of shape ``(*batch, *columns)`` that `outputs` was
            computed from, as for `laplacian`. It may have at most 43 columns.
        dims: The columns to include, in this order, as for `laplacian`. The result then ends in
            ``(len(dims), len(dims))``. By default, all columns are included.
        create_graph: Record the result, so that it can be differentiated further.
        method: As for `higher_order_grad`.
        rows: As for `higher_order_grad`.

    Returns:
        A symmetric tensor of shape ``(*batch, *channels, *columns, *columns)`` in the dtype of
        `inputs`.

    Raises:
        TypeError: As `higher_order_grad` does.
        ValueError: If the shapes do not match, `inputs` has no columns or too many, or `method` is
            unknown.
        RuntimeError: As `higher_order_grad` does.

    Example:
        >>> import torch
        >>> from leafgrad import hessian
        >>> points = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> x, y = points.unbind(-1)
        >>> hessian(x**2 * y, points).tolist()
        [[[4.0, 2.0], [2.0, 0.0]], [[8.0, 6.0], [6.0, 0.0]]]
        >>> hessian(x**2 * y, points, dims=[0]).tolist()
        [[[4.0]], [[8.0]]]
    """
    problem = parse_problem(
        outputs, inputs, by_column=True, create_graph=create_graph, method=method, rows=rows
    )
    axes = problem.axes
    check_columns(axes)
    columns = read_columns(dims, axes)
    # One pass computes the first derivatives too, so both count towards the limit.
    if len(columns) * (len(columns) + 3) // 2 > MOST_DERIVATIVES:
        raise ValueError(message("derivative.hessian-columns", columns=len(columns)))
    found, _ = problem.answer([index_of(axes, *pair) for pair in pairs_of(columns)])
    pairs = product(columns, repeat=2)
    second = torch.stack([found[index_of(axes, *pair)] for pair in pairs], -1)
    row = axes.row if dims is None else (len(columns),)
    return problem.finish(second.reshape(*problem.outputs.shape, *row, *row))
