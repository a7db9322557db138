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
    """Return the first derivatives of `outputs` with respect to every column of `inputs`.

    In each row of the batch, `inputs` has columns, such as x and t, and `outputs` has channels,
    such as u and v. Element ``[b, c, i]`` of the result is the derivative of channel c with respect
    to column i in row b.

    Args:
        outputs: The tensor to differentiate, of shape ``(*batch, *channels)``, or a function or
            module that computes this tensor from `inputs`.
        inputs: The tensor of shape ``(*batch, *columns)`` to differentiate with respect to, or a
            sequence of tensors that each contain some of the columns.
        dims: The columns to include, in this order. The default is all columns.
        create_graph: Whether to record the result, so that it can be differentiated further.
        method: ``"taylor"`` propagates Taylor series along the graph, ``"reverse"`` runs backward
            passes, and ``"auto"`` chooses one of the two.
        rows: With ``"proven"``, an error is raised unless each row of `outputs` provably depends
            only on the same row of `inputs`. With ``"independent"``, you promise this where it
            cannot be proven.

    Returns:
        A tensor of shape ``(*batch, *channels, *columns)`` in the dtype of `inputs`. With `dims`,
        the last axis has one entry for each included column.

    Example:
        >>> import torch
        >>> from leafgrad import jacobian
        >>> points = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> x, y = points.unbind(-1)
        >>> field = torch.stack([x * y, x + 2 * y], dim=1)
        >>> jacobian(field, points)[0].tolist()
        [[2.0, 1.0], [1.0, 2.0]]
        >>> jacobian(x * y, points, dims=[1]).tolist()
        [[1.0], [3.0]]

    Raises:
        TypeError: If an argument has the wrong type, or a tensor is complex, integer or sparse.
        ValueError: If the shapes do not match, `inputs` has no columns, or `dims`, `method` or
            `rows` is invalid.
        RuntimeError: If the graph does not allow the derivative. The message names the reason.

    Note:
        For a single channel, each row of the result is the gradient. No column may occur twice in
        `dims`. See `laplacian` for the shapes, and `higher_order_grad` for the two methods and the
        proof that rows are independent.
    """
    problem = parse_problem(
        outputs, inputs, by_column=True, create_graph=create_graph, method=method, rows=rows
    )
    check_columns(problem.axes)
    orders = [index_of(problem.axes, column) for column in read_columns(dims, problem.axes)]
    found, _ = problem.answer(orders)
    first = [found[order] for order in orders]
    return problem.finish(problem.by_column(first) if dims is None else torch.stack(first, -1))
