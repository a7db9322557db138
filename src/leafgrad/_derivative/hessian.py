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
    """Return the matrix of second derivatives of `outputs`, for each row and channel.

    Element ``[b, c, i, j]`` of the result is the second derivative of channel c with respect to
    columns i and j in row b of the batch. Columns and channels are those of `jacobian`.

    Args:
        outputs: The tensor to differentiate, of shape ``(*batch, *channels)``, or a function or
            module that computes this tensor from `inputs`.
        inputs: The tensor of shape ``(*batch, *columns)`` to differentiate with respect to, or a
            sequence of tensors that each contain some of the columns.
        dims: The columns to include, in this order. There may be at most 43. The default is all
            columns.
        create_graph: Whether to record the result, so that it can be differentiated further.
        method: ``"taylor"`` propagates Taylor series along the graph, ``"reverse"`` nests backward
            passes, and ``"auto"`` chooses one of the two.
        rows: With ``"proven"``, an error is raised unless each row of `outputs` provably depends
            only on the same row of `inputs`. With ``"independent"``, you promise this where it
            cannot be proven.

    Returns:
        A symmetric tensor of shape ``(*batch, *channels, *columns, *columns)`` in the dtype of
        `inputs`. With `dims`, each of the last two axes has one entry for each included column.

    Example:
        >>> import torch
        >>> from leafgrad import hessian
        >>> points = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> x, y = points.unbind(-1)
        >>> hessian(x**2 * y, points).tolist()
        [[[4.0, 2.0], [2.0, 0.0]], [[8.0, 6.0], [6.0, 0.0]]]
        >>> hessian(x**2 * y, points, dims=[0]).tolist()
        [[[4.0]], [[8.0]]]

    Raises:
        TypeError: If an argument has the wrong type, or a tensor is complex, integer or sparse.
        ValueError: If the shapes do not match, `inputs` has no columns, or `dims`, `method` or
            `rows` is invalid.
        RuntimeError: If the graph does not allow the derivative. The message names the reason.

    Note:
        If you do not need the whole matrix H, two calls are cheaper:

        - `laplacian` computes its trace, and sums of ``v^T H v`` over directions v.
        - ``jacobian(higher_order_grad(u, x, 1, directions=v)[0], x)`` computes ``H v`` for one
          direction, with v of shape ``(1, *columns)``.

        At most 43 columns can be included, because one pass computes at most 1,000 derivatives,
        including the first derivatives: 43 columns have 43 first and 946 second derivatives. See
        `laplacian` for the shapes, and `higher_order_grad` for the two methods and the proof that
        rows are independent.
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
