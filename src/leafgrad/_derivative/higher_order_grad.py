"""Compute derivatives of any order, separately for each row and channel.

If a derivative cannot be computed correctly, the call raises an error that explains why.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, TypeVar, overload

from torch import Tensor

from leafgrad._arguments.signature import public_function
from leafgrad._derivative.arguments import (
    Function,
    Inputs,
    MultiIndex,
    as_count,
    is_by_column,
    parse_orders,
    shorten,
)
from leafgrad._derivative.dependence import raise_if_apart
from leafgrad._derivative.multi_indices import check_columns, read_directions
from leafgrad._derivative.problem import DerivativeProblem, Method, parse_problem
from leafgrad._derivative.row_independence import RowsArgument
from leafgrad._derivative.small_networks import by_kept_plan, may_be_kept
from leafgrad._derivative.taylor.modes import recording, run_in
from leafgrad._derivative.under_compile import traceable
from leafgrad._messages import message

Order = TypeVar("Order", bound=int | MultiIndex)


@overload
def higher_order_grad(
    outputs: Tensor | Function,
    inputs: Inputs,
    order: int | MultiIndex,
    *,
    directions: Tensor | None = None,
    create_graph: bool = True,
    allow_unused: bool = False,
    method: Method = "auto",
    rows: RowsArgument = "proven",
) -> Tensor: ...


@overload
def higher_order_grad(
    outputs: Tensor | Function,
    inputs: Inputs,
    order: list[Order],
    *,
    directions: Tensor | None = None,
    create_graph: bool = True,
    allow_unused: bool = False,
    method: Method = "auto",
    rows: RowsArgument = "proven",
) -> tuple[Tensor, ...]: ...


@public_function(traceable=traceable)
@run_in(recording)
def higher_order_grad(  # noqa: PLR0913 (they are passed by name)
    outputs: Tensor | Function,
    inputs: Inputs,
    order: int | MultiIndex | list[Any],
    *,
    directions: Tensor | None = None,
    create_graph: bool = True,
    allow_unused: bool = False,
    method: Method = "auto",
    rows: RowsArgument = "proven",
) -> Tensor | tuple[Tensor, ...]:
    """Return derivatives of any order, separately for each row and channel of `outputs`.

    In each row of the batch, `inputs` has columns, such as x and t, and `outputs` has channels,
    such as u and v. Nothing is summed, so each derivative has the shape of `outputs`. If a
    derivative cannot be computed correctly, the call raises an error that explains why, and what
    to do.

    Args:
        outputs: The tensor to differentiate, of shape ``(*batch, *channels)``, or a function or
            module that computes this tensor from `inputs`. A function is called with `inputs`, or
            with copies that require grad if `inputs` do not.
        inputs: The tensor of shape ``(*batch, columns)`` to differentiate with respect to, or a
            sequence of tensors that each contain some of the columns.
        order: How often to differentiate with respect to each column: ``(2, 0)`` is the second
            derivative with respect to column 0, and ``(1, 1)`` the mixed derivative. For a single
            column, this can be an int. A list computes several orders together.
        directions: Directions to differentiate along, of shape ``(n, *columns)``, instead of the
            columns. Then `order` is an int or a list of ints.
        create_graph: Whether to record the result, so that it can be differentiated further.
        allow_unused: Whether to return zeros instead of raising an error if `outputs` requires grad
            but does not depend on `inputs`.
        method: ``"taylor"`` propagates Taylor series along the graph, ``"reverse"`` nests backward
            passes, and ``"auto"`` chooses one of the two.
        rows: With ``"proven"``, the call raises an error unless each row of `outputs` provably
            depends only on the same row of `inputs`. With ``"independent"``, you promise that rows
            are independent, for cases where the graph does not prove it.

    Returns:
        A tensor with the shape of `outputs` and the dtype of `inputs`, or a tuple of such tensors
        for a list of orders.

    Example:
        >>> import torch
        >>> from leafgrad import higher_order_grad
        >>> points = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> u = points[:, 0] ** 2 * points[:, 1]
        >>> u_xx, u_xy = higher_order_grad(u, points, [(2, 0), (1, 1)])
        >>> u_xx.tolist(), u_xy.tolist()
        ([4.0, 8.0], [2.0, 6.0])

    Raises:
        TypeError: If an argument has the wrong type, or a tensor is complex, integer or sparse.
        ValueError: If the shapes do not match, `order` does not fit the columns, or `method` or
            `rows` is unknown.
        RuntimeError: If the graph does not allow the derivative. The message names the reason.

    Note:
        **Shapes.** In most calls, `inputs` has the shape ``(rows, columns)``, and `outputs` has the
        shape ``(rows,)`` or ``(rows, channels)``. Three cases need an explanation:

        - `outputs` and `inputs` have the same shape. If `order` is an int, the derivative is
          elementwise: each element of `outputs` is differentiated with respect to the element of
          `inputs` at the same position. If `order` is a tuple, the last axis of `inputs` contains
          columns, and the last axis of `outputs` contains channels.
        - `inputs` has several more axes than `outputs`, for example ``(rows, 3, 2)`` and
          ``(rows,)``. If `outputs` has at least one axis, all axes that it lacks are columns. They
          are numbered as in ``inputs.flatten(outputs.dim())``, here from 0 to 5.
        - `inputs` is a sequence of tensors. Then a tuple counts the columns in the order of the
          tensors. If `outputs` has the shape ``(rows,)``, a tensor in the sequence may also have
          this shape; it is then one column.

        >>> z = torch.tensor([[1.0, 2.0]], requires_grad=True)
        >>> higher_order_grad(z**2, z, 1).tolist()  # an int: elementwise
        [[2.0, 4.0]]
        >>> higher_order_grad(z**2, z, (1, 0)).tolist()  # a tuple: both channels by column 0
        [[2.0, 0.0]]
        >>> x, t = torch.ones(2, requires_grad=True), torch.tensor([2.0, 3.0], requires_grad=True)
        >>> higher_order_grad(x**2 * t**3, (x, t), (1, 2)).tolist()  # a sequence of two columns
        [24.0, 36.0]

        **The result.** By default, the result is recorded: you can use it in a loss, or
        differentiate it again. The graph of `outputs` is kept, even with ``create_graph=False``,
        and no ``.grad`` of leaves, `inputs` or `outputs` changes. The derivative of order 0 is
        `outputs` itself. If the graph proves that a derivative is zero, the result consists of
        zeros that do not require grad. Otherwise, zeros are returned without a computation only if
        `allow_unused` permits it.

        A value that was taken out of the graph by ``.item()``, ``.detach()`` or NumPy counts as a
        constant, even if it was computed from other rows.

        >>> x = torch.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
        >>> higher_order_grad(x * x.sum().item(), x, 1).tolist()  # the sum, 6, is a constant
        [[6.0], [6.0], [6.0]]

        **Methods.** Taylor mode propagates truncated Taylor series along the recorded graph, once
        for all orders, so a higher order costs little more. It has a rule for most of PyTorch's
        operations, and you can add rules with `taylor_rule`. In reverse mode, each order costs
        about three times as much as the previous one. ``"auto"`` uses Taylor mode, except in these
        cases:

        - Taylor mode cannot compute the derivative.
        - The derivative is of first order, and one backward pass per channel is cheaper than one
          series per column.
        - There are few points on the CPU, and PyTorch's formulas for all operations are correct at
          any order.

        **Independent rows.** If the graph does not prove that rows are independent, the call raises
        an error that names the operation that may mix rows, such as BatchNorm in training mode.
        Independence cannot be proven, for example, if a custom function has a backward that does
        not record its graph. With ``rows="independent"``, a few test passes check your promise and
        raise an error if it is broken. These passes can miss a dependence that has no effect at the
        current values.

        **Errors.** The call raises a RuntimeError in these cases:

        - There is no graph, or the graph does not lead to `inputs`, may mix rows, or comes from a
          compiled model.
        - Taylor mode has no rule for an operation, and `method` is ``"taylor"`` or reverse mode
          cannot differentiate the operation often enough. For example, an operation whose backward
          is marked ``@once_differentiable`` can only be differentiated once.
        - Reverse mode would use one of PyTorch's formulas that are wrong for higher derivatives,
          such as that of `torch.logcumsumexp` from order 3 on.
        - The graph was freed, or a saved tensor was changed in place. Then the error is PyTorch's
          own.

        **Directions.** The shape of `directions` is ``(n, *columns)``, or ``(n, *batch, *columns)``
        if each row has its own directions. For each direction v, the derivative is
        ``d^order / dt^order u(x + t v)`` at t = 0, computed in Taylor mode. The result has an
        additional first axis of size n.

        >>> along = torch.tensor([[1.0, 1.0]])
        >>> higher_order_grad(u, points, 3, directions=along).tolist()  # (1 + t)**2 * (2 + t)
        [[6.0, 6.0]]

        The remaining paragraphs are about special cases.

        **Kinks and NaN.** At a kink, such as that of ReLU at zero, and where a formula divides zero
        by zero, the derivative is that of PyTorch's formula. The second derivative of a ReLU
        network is zero. `torch.where` does not prevent NaN in reverse mode: the derivative of
        ``torch.where(x == 0, 1, x.sin() / x)`` at 0 is NaN, as in autograd, while Taylor mode
        returns the derivative of the selected branch. To avoid NaN, replace the divisor as well,
        with ``torch.where(x == 0, 1, x)``.

        **Precision.** Derivatives in Taylor mode are as accurate as the values that PyTorch saved,
        at any order and scale. Derivatives in reverse mode are as accurate as PyTorch's formulas,
        which lose digits where a function saturates. A derivative beyond the range of the dtype of
        `inputs` is infinite or zero. Half precision is computed in single precision, and orders
        above 8 in double precision.

        If a Taylor coefficient may have left the range of its dtype, everything is computed again
        in double precision. The check for this waits for the device. Compiled code, the capture of
        a CUDA graph, dispatch modes and transforms skip the check. Then coefficients of order up to
        8 that leave the range of single precision are infinite, NaN or inexact.

        **Hooks and custom functions.** Reverse mode works like nested calls to
        `torch.autograd.grad`. Hooks on the path run and may change gradients. Each pass adds to the
        ``.grad`` of intermediate tensors that retain their gradient. The backward of a custom
        function on the path runs once more, to check that it does not mix rows and records its
        graph. Python numbers that this backward uses, tensors that it detaches, and values that it
        stores outside its ``ctx`` count as constants.

        Taylor mode runs no backward pass through the graph. So it ignores what hooks, or the
        backward of a custom function with a registered rule, do to gradients. For an in-place write
        into a view, it runs the backward of this one operation, to find the positions of the
        elements, and therefore waits for the device. It runs a checkpointed function once more.

        While a result of a pass is alive, later calls can share this pass, for different columns of
        one channel or for different channels of one order. They return the same numbers as separate
        passes would, in separate tensors, but hooks run only once.

        **Compiled code.** Inside a function that `torch.compile` compiles, this call and the
        backward of its result become part of the compiled graph. There is one exception: if the
        proof that rows are independent needs the values of an index, the call runs uncompiled,
        between two compiled parts. For such a call, `outputs` must be the function or module,
        because the output of a compiled part cannot be differentiated twice. With
        ``fullgraph=True``, the call raises an error that explains this. Evaluate such a call under
        ``no_grad()``, not under ``inference_mode()``, where PyTorch cannot save its tensors.

        **Forward mode AD.** While `torch.autograd.forward_ad` is on, reverse mode is used, and the
        result carries tangents.
    """
    request = None
    if directions is None and may_be_kept(method, rows, create_graph, allow_unused):
        request = _request(order)
    if request is not None:
        known = by_kept_plan(request, outputs, inputs, create_graph=create_graph)
        if known is not None:
            return tuple(known) if isinstance(order, list) else known[0]
    problem = parse_problem(
        outputs,
        inputs,
        by_column=directions is not None or is_by_column(order),
        create_graph=create_graph,
        method=method,
        rows=rows,
        allow_unused=allow_unused,
        request=request,
    )
    if directions is not None:
        return _along(problem, order, directions)
    try:
        orders = parse_orders(order, problem.axes)
    except ValueError as error:
        raise_if_apart(error, problem.outputs, problem.inputs)
        raise
    found, _ = problem.answer([*filter(any, orders)])
    if not isinstance(order, list):
        return problem.finish(found.get(orders[0], problem.outputs))
    results = [found.get(index, problem.outputs) for index in orders]
    return tuple(map(problem.finish, _apart(results)))


def _along(
    problem: DerivativeProblem, order: object, directions: Tensor
) -> Tensor | tuple[Tensor, ...]:
    """Return derivatives of `order` along n directions, of shape ``[n, *shape of outputs]``.

    If `order` is a list, return a tuple with one such tensor for each order in it.
    """
    check_columns(problem.axes)
    given = order if isinstance(order, list) else [order]
    counts = [count for count in map(as_count, given) if count and count > 0]
    if not counts or len(counts) < len(given):
        raise ValueError(message("derivative.along.order", value=shorten(order)))
    found = problem.along(read_directions(directions, problem.inputs, problem.axes), counts)
    results = tuple(map(problem.finish, _apart(found[count] for count in counts)))
    return results if isinstance(order, list) else results[0]


def _request(order: Any) -> Hashable:
    """Return the key under which plans for `order` are cached, or None if they are not cached.

    A plan (see `small_networks`) is cached if the orders are distinct and none of them is 0.
    """
    if type(order) is list:
        requests = [*map(_request, order)]
        is_one = None in requests or len({*requests}) < len(requests)
        return None if is_one else (list, *requests)
    counts = order if type(order) is tuple else (order,)
    return order if {*map(type, counts)} == {int} and any(counts) else None


def _apart(results: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield the tensors in `results`. If the same tensor occurs again, yield a copy of it."""
    seen = set()
    for result in results:
        yield result.clone() if id(result) in seen else result
        seen.add(id(result))
