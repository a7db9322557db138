"""Explain which method computes a derivative, and why."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from leafgrad import _autograd
from leafgrad._arguments.signature import public_function
from leafgrad._derivative.arguments import (
    Axes,
    Function,
    Inputs,
    MultiIndex,
    is_by_column,
    parse_orders,
)
from leafgrad._derivative.derivative_explanation import DerivativeExplanation
from leafgrad._derivative.hessian import hessian
from leafgrad._derivative.jacobian import jacobian
from leafgrad._derivative.laplacian import laplacian
from leafgrad._derivative.multi_indices import check_columns, index_of, pairs_of
from leafgrad._derivative.problem import DerivativeProblem, parse_problem
from leafgrad._derivative.row_independence import RowsArgument
from leafgrad._derivative.taylor.modes import recording, run_in
from leafgrad._messages import message


@public_function()
@run_in(recording)
def explain_derivative(
    outputs: Tensor | Function,
    inputs: Inputs,
    order: int | MultiIndex | list[Any] | Callable[..., Any],
    *,
    create_graph: bool = True,
    rows: RowsArgument = "proven",
) -> DerivativeExplanation:
    """Return the method that computes a derivative, and the reason for this choice.

    This function computes the derivative as ``method="auto"`` does, but returns an explanation
    instead of the derivative.

    Args:
        outputs: The tensor to differentiate, of shape ``(*batch, *channels)``, or a function or
            module that computes this tensor from `inputs`.
        inputs: The tensor of shape ``(*batch, columns)`` to differentiate with respect to, or a
            sequence of tensors that each contain some of the columns.
        order: An order or a list of orders, as in `higher_order_grad`. You can also pass
            `laplacian`, `jacobian` or `hessian`, to explain a call to that function.
        create_graph: Whether you would differentiate the result further.
        rows: ``"proven"`` or ``"independent"``, as in `higher_order_grad`.

    Returns:
        The method, the reason, and whether rows are proven to be independent. ``print`` shows them
        as text.

    Example:
        >>> import torch
        >>> from leafgrad import explain_derivative, laplacian
        >>> x = torch.rand(5, 2, requires_grad=True)
        >>> u = torch.nn.Linear(2, 1)(x).tanh()
        >>> explain_derivative(u, x, (2, 0)).method
        'reverse'
        >>> explain_derivative(u, x, laplacian).rows
        'proven'
        >>> print(explain_derivative(u, x, (0, 0)))
        derivative
          method  None
          rows    None
          - Order 0 is outputs itself, so nothing is computed.

    Raises:
        TypeError: If `outputs`, `inputs` or `order` has the wrong type.
        ValueError: If the shapes do not match, `order` does not fit the columns, or `order` is a
            function other than those three.
        RuntimeError: If neither method can compute the derivative. The message names the reason.
    """
    if callable(order) and order not in (laplacian, jacobian, hessian):
        raise ValueError(message("derivative.explained-function", value=order))
    problem = parse_problem(
        outputs,
        inputs,
        by_column=callable(order) or is_by_column(order),
        create_graph=create_graph,
        method="auto",
        rows=rows,
    )
    axes = problem.axes
    if callable(order):
        check_columns(axes)
    if order is laplacian:
        highest = 2
        manner = problem.laplacian(range(axes.columns), with_gradient=False)[-1]
    else:
        orders = _orders_of(order, axes)
        highest = max(map(sum, orders), default=0)
        manner = problem.answer([*filter(any, orders)])[1]
    because = message(f"derivative.because.{manner.because}", reason=manner.reason)
    because += _note_on_zeros(problem, highest)
    return DerivativeExplanation(method=manner.method, because=because, rows=manner.rows)


def _orders_of(order: Any, axes: Axes) -> list[MultiIndex]:
    """Return the multi-indices that `order` stands for; it may be `jacobian` or `hessian`.

    `axes` defines how many columns there are.
    """
    if not callable(order):
        return parse_orders(order, axes)
    columns = (
        [(c,) for c in range(axes.columns)] if order is jacobian else pairs_of(range(axes.columns))
    )
    return [index_of(axes, *one) for one in columns]


def _note_on_zeros(problem: DerivativeProblem, order: int) -> str:
    """Return a sentence if the graph proves that all derivatives of `order` are zero, otherwise "".

    Only the kinds of the nodes are checked. So the sentence is missing for some piecewise linear
    networks, whose second derivatives are zero too.
    """
    if problem.joined is not None:
        path = problem.joined.find_path(problem.outputs, allow_unused=True)
    else:
        path = _autograd.path_between(problem.outputs, problem.inputs)
    if order <= 1 or path is None:
        return ""
    bent: dict[str, None] = {}
    for node, successors in path.nodes.items():
        kind = _autograd.own_stem(_autograd.node_name(node))
        uses = sum(edge == path.start or edge[0] in path.nodes for edge in successors)
        if kind in _PIECEWISE:
            bent[kind.lower()] = None
        elif not (kind in _LINEAR or (kind in _PRODUCTS and uses == 1)):
            return ""
    key = "derivative.because.piecewise-linear" if bent else "derivative.because.linear"
    return message(key, kinds=", ".join(bent))


_PIECEWISE = set(
    "Abs AdaptiveMaxPool2D Amax Amin Clamp ClampMax ClampMin Hardshrink Hardsigmoid Hardtanh "
    "LeakyRelu Max MaxPool2DWithIndices Maximum Min Minimum PreluKernel Relu Softshrink Sort "
    "Threshold Topk Where".split()
)
_LINEAR = set(
    "Add Alias AsStrided AvgPool2D Cat Clone ConstantPadNd Diagonal Expand Flip Gather Index "
    "IndexSelect Mean Neg Permute Repeat ReshapeAlias Roll Select Slice Split Squeeze Stack Sub "
    "Sum T ToCopy Transpose Unbind Unfold UnsafeView Unsqueeze View".split()
)
_PRODUCTS = set("Addmm Addmv Baddbmm Bmm Convolution Dot Linear Mm Mul Mv".split())
