"""The Jacobian: all first derivatives of all channels, row by row.

Let row b of the outputs u, ``(*batch, *channels)``, depend only on row b of the inputs x,
``(*batch, *columns)``. The Jacobian is ``(*batch, *channels, *columns)``:

    J[b, c, i] = d u[b, c] / d x[b, i]
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from leafgrad._arguments.signature import public_function
from leafgrad._derivative.arguments import Function, Inputs
from leafgrad._derivative.multi_indices import check_columns, index_of, read_columns
from leafgrad._derivative.problem import Method, parse_problem
from leafgrad._derivative.row_independence import RowsArgument
from leafgrad._derivative.taylor.modes import recording, run_in
from leafgrad._derivative.under_compile import traceable


@public_function(traceable=traceable)
@run_in(recording)
def jacobian(
    outputs: Tensor | Function,
    inputs: Inputs,
    *,
    dims: Sequence[int] | None = None,
    create_graph: bool = True,
    method: Method = "auto",
    rows: RowsArgument = "proven",
) -> Tensor:
    """Return the first derivatives of each row and channel of `outputs` in all columns of `inputs`.

    For a single channel, this is the gradient. The result contains what `higher_order_grad` returns
    for ``(1, 0, ...)``, ``(0, 1, ...)`` and so on.

    Args:
        outputs: The tensor to differentiate: floating point, of shape ``(*batch, *channels)``. Or a
            function that computes it, as for `higher_order_grad`.
        inputs: The floating point tensor of shape ``(*batch, *columns)`` that `outputs` was
            computed from, as for `laplacian`.
        dims: The columns to include, in this order, as for `laplacian`. The result then ends in
            ``(len(dims),)``. By default, all columns are included.
        create_graph: Record the result, so that it can be differentiated further.
        method: As for `higher_order_grad`.
        rows: As for `higher_order_grad`.

    Returns:
        A tensor of shape ``(*batch, *channels, *columns)`` in the dtype of `inputs`.

    Raises:
        TypeError: As `higher_order_grad` does.
        ValueError: If the shapes do not match, `inputs` has no columns, or `method` is unknown.
        RuntimeError: As `higher_order_grad` does.

    Example:
        >>> import torch
        >>> from leafgrad import jacobian
        >>> points = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> x, y = points.unbind(-1)
        >>> jacobian(x * y, points).tolist()
        [[2.0, 1.0], [4.0, 3.0]]
        >>> field = torch.stack([x * y, x + 2 * y], dim=1)
        >>> jacobian(field, points)[0].tolist()
        [[2.0, 1.0], [1.0, 2.0]]
        >>> jacobian(x * y, points, dims=[1]).tolist()
        [[1.0], [3.0]]
    """
    problem = parse_problem(
        outputs, inputs, by_column=True, create_graph=create_graph, method=method, rows=rows
    )
    check_columns(problem.axes)
    orders = [index_of(problem.axes, column) for column in read_columns(dims, problem.axes)]
    found, _ = problem.answer(orders)
    first = [found[order] for order in orders]
    return problem.finish(problem.by_column(first) if dims is None else torch.stack(first, -1))
