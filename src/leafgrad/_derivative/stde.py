"""The stochastic Taylor derivative estimator: high-order operators in many columns, by sampling.

A pass along the graph computes ``D^k u[v, ..., v]``, the derivative of order k along a direction v.
For random v, the mean of this derivative is a differential operator. A few directions cost less
than all columns.
For ``v ~ N(0, I)`` and even k, the mean is ``(k - 1)!!`` times the power k/2 of the Laplacian
(Isserlis' theorem). For ``v = e_i`` with i drawn from d columns, it is the sum of all
``d^k u / d x_i^k`` divided by d.

Shi, Hu, Lin and Kawaguchi, Stochastic Taylor Derivative Estimator: Efficient amortization for
arbitrary differential operators, NeurIPS 2024, arXiv 2412.00088.
"""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Generator, Tensor

from leafgrad._arguments.signature import public_function
from leafgrad._derivative.arguments import Function, as_count
from leafgrad._derivative.multi_indices import check_columns, read_columns
from leafgrad._derivative.problem import parse_problem
from leafgrad._derivative.row_independence import RowsArgument
from leafgrad._derivative.taylor.modes import recording, run_in
from leafgrad._messages import message


@public_function()
@run_in(recording)
def stde(  # noqa: PLR0913 (they are passed by name)
    outputs: Tensor | Function,
    inputs: Tensor,
    order: int = 2,
    *,
    samples: int,
    kind: Literal["laplacian", "diagonal"] = "laplacian",
    dims: Sequence[int] | None = None,
    generator: Generator | None = None,
    create_graph: bool = True,
    rows: RowsArgument = "proven",
) -> Tensor:
    """Return an estimate of a differential operator from derivatives along random directions.

    The estimate is unbiased. With many columns, derivatives along a few directions cost less than
    derivatives with respect to all columns. Columns and channels are those of `jacobian`.

    Args:
        outputs: The tensor to differentiate, of shape ``(*batch, *channels)``, or a function or
            module that computes this tensor from `inputs`.
        inputs: The tensor of shape ``(*batch, *columns)`` to differentiate with respect to.
        order: The order of the operator.
        samples: The number of random directions. All rows use the same ones.
        kind: ``"laplacian"`` is the Laplacian for order 2, the biharmonic operator for order 4, and
            so on. ``"diagonal"`` is the sum of the unmixed derivatives, for any order.
        dims: The columns that the operator includes. The default is all columns.
        generator: The source of random numbers. The default is PyTorch's own.
        create_graph: Whether to record the result, so that it can be differentiated further.
        rows: With ``"proven"``, an error is raised unless each row of `outputs` provably depends
            only on the same row of `inputs`. With ``"independent"``, you promise this where it
            cannot be proven.

    Returns:
        The estimate for each row and channel, in the shape of `outputs`.

    Example:
        >>> import torch
        >>> from leafgrad import stde
        >>> x = torch.ones(2, 100, requires_grad=True)
        >>> u = (x**2).sum(1)
        >>> stde(u, x, samples=8).tolist()  # the Laplacian, here without any variance
        [200.0, 200.0]
        >>> stde((x**3).sum(1), x, 3, samples=8, kind="diagonal").tolist()
        [600.0, 600.0]

    Raises:
        TypeError: If an argument has the wrong type, or a tensor is complex, integer or sparse.
        ValueError: If `order`, `samples`, `kind` or `dims` is invalid.
        RuntimeError: If the graph does not allow the derivative, or Taylor mode has no rule for one
            of its operations.

    Note:
        The directions depend on `kind` and `order`. For ``"laplacian"`` of order 2, they consist of
        random signs, which reduce the variance. For ``"laplacian"`` of higher orders, they are
        Gaussian. For ``"diagonal"``, they are columns drawn without replacement, so the result is
        exact if there are as many samples as columns.

        If your loss contains the square of a residual, do not square a single estimate. Its square
        is biased: its mean exceeds the square of the operator by the variance. For an unbiased
        gradient of a squared residual, multiply the residuals of two independent estimates.
    """
    problem = parse_problem(
        outputs, inputs, by_column=True, create_graph=create_graph, method="auto", rows=rows
    )
    check_columns(problem.axes)
    columns, order = read_columns(dims, problem.axes), as_count(order) or 0
    count = as_count(samples)
    if count is None or count < 1:
        raise ValueError(message("derivative.along.samples", value=samples))
    if kind not in ("laplacian", "diagonal"):
        raise ValueError(message("derivative.along.kind", value=kind))
    if order < 1:
        raise ValueError(message("derivative.along.order", value=order))
    factor = len(columns) if kind == "diagonal" else 1 / math.prod(range(1, order, 2))
    if kind == "laplacian" and order % 2:
        raise ValueError(message("derivative.along.odd", value=order))
    drawn = _draw(kind, order, count, len(columns), generator)
    directions = torch.zeros(len(drawn), problem.axes.columns, dtype=drawn.dtype)
    directions[:, columns] = drawn
    batch = [1] * len(problem.axes.batch)
    along = directions.to(problem.inputs).reshape(-1, *batch, *problem.axes.row)
    if order == 2:  # noqa: PLR2004 (the Laplacian has a faster pass)
        total, _, _ = problem.laplacian(along, with_gradient=False)
    else:
        total = problem.along(along, [order])[order].sum(0)
    return problem.finish(total * (factor / len(drawn)))


def _draw(kind: str, order: int, samples: int, columns: int, generator: Generator | None) -> Tensor:
    """Return random directions ``[n, columns]``, drawn on the device of `generator`.

    `kind` is the name of the operator that they estimate, and `order` the order of its derivatives.
    """
    device = "cpu" if generator is None else generator.device
    if kind == "diagonal":
        chosen = torch.randperm(columns, generator=generator, device=device)[:samples].cpu()
        return torch.eye(columns, dtype=torch.float64)[chosen]
    shape = samples, columns
    if order > 2:  # noqa: PLR2004
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float64).cpu()
    return torch.randint(2, shape, generator=generator, device=device).cpu().double() * 2 - 1
