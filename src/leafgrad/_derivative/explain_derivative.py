"""Which method answers, and why."""

from typing import Any

import torch
from torch import Tensor

from leafgrad._arguments.signature import public_function
from leafgrad._derivative.arguments import Function, Inputs, MultiIndex, is_by_column, parse_orders
from leafgrad._derivative.derivative_explanation import DerivativeExplanation
from leafgrad._derivative.piecewise_linear import note_on_zeros
from leafgrad._derivative.problem import is_recording, parse_problem


@public_function()
def explain_derivative(
    outputs: Tensor | Function,
    inputs: Inputs,
    order: int | MultiIndex | list[Any],
    *,
    create_graph: bool = True,
) -> DerivativeExplanation:
    """Explain by which method `higher_order_grad` computes a derivative, and why.

    With ``method="auto"`` it takes Taylor mode or reverse mode, and says nothing of it. This
    computes the derivative in the same way, lets it go, and tells. What `laplacian`, `jacobian` and
    `hessian` do is what is done for a list of the orders that they add up or give.

    Args:
        outputs: What is differentiated, as for `higher_order_grad`.
        inputs: With respect to what, as for `higher_order_grad`.
        order: How often, as for `higher_order_grad`.
        create_graph: Whether the derivative is to be differentiated on.

    Returns:
        The method and the reason; ``print`` shows both.

    Raises:
        TypeError: As `higher_order_grad` does.
        ValueError: As `higher_order_grad` does.
        RuntimeError: As `higher_order_grad` does, where neither method has an answer.

    Example:
        >>> import torch
        >>> from leafgrad import explain_derivative
        >>> x = torch.rand(5, 2, requires_grad=True)
        >>> u = torch.nn.Linear(2, 1)(x).tanh()
        >>> explain_derivative(u, x, (2, 0)).method
        'taylor'
        >>> explain_derivative(u, x, (1, 0)).because[:26]
        'Of first derivatives alone'
        >>> print(explain_derivative(u, x, (0, 0)))
        derivative
          method  None
          - Order 0 is outputs itself.
    """
    if not is_recording():
        with torch.inference_mode(mode=False):
            return explain_derivative(outputs, inputs, order, create_graph=create_graph)
    problem = parse_problem(
        outputs,
        inputs,
        by_column=is_by_column(order),
        create_graph=create_graph,
        method="auto",
    )
    orders = parse_orders(order, problem.axes)
    answer = problem.answer([index for index in orders if any(index)])
    note = note_on_zeros(problem, max(map(sum, orders), default=0))
    return DerivativeExplanation(method=answer.method, because=answer.because + note)
