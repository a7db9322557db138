"""Compute derivatives of any order, separately for each row and channel.

If a derivative cannot be computed correctly, an error says why.
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

    Each row of `outputs` is differentiated with respect to the same row of `inputs`. Nothing is
    summed over rows, columns or channels, so the result has the shape of `outputs`. If the
    derivative cannot be computed correctly, an error says why and what to do. Zeros are returned
    only if the graph proves them or `allow_unused` is set. Arguments that `torch.autograd.grad`
    also has mean the same.

    Args:
        outputs: The tensor to differentiate: floating point, of shape ``(*batch, *channels)``. Each
            of its rows may depend only on the same row of `inputs`. Or a function that computes
            such a tensor, for example a module. It is called with `inputs`, or with a copy that
            requires grad if `inputs` does not.
        inputs: The floating point tensor of shape ``(*batch, columns)`` that `outputs` was computed
            from. If both have the same shape, an int as `order` differentiates elementwise, and a
            multi-index treats the last axis as columns and as channels. If `outputs` has at least
            one axis, but fewer than the batch of `inputs`, all axes that it lacks are columns,
            numbered as in ``inputs.flatten(outputs.dim())``. Or several tensors that each contain
            some of the columns, in the order in which a multi-index counts them. If `outputs` has
            the shape ``(rows,)``, they may have this shape too and then are one column each. A
            function is called with all of them.
        order: How often to differentiate. An int if there is one column, or elementwise. Otherwise
            a multi-index, which is a tuple with one count per column: ``(2, 0)`` is the second
            derivative in column 0, ``(1, 1)`` the mixed one. Or a list of orders, which are
            computed together. Order 0 is `outputs` itself.
        directions: n directions across the columns, of shape ``(n, *columns)``, or
            ``(n, *batch, *columns)`` if each row has its own. Then `order` is an int or a list of
            ints, and the result is ``d^order / dt^order u(x + t v)`` at t = 0 for each direction v,
            computed by Taylor mode.
        create_graph: Record the result, so that it can be differentiated further, for example with
            respect to the parameters of a model. The graph of `outputs` is kept in either case.
        allow_unused: Return zeros instead of raising an error if `outputs` requires grad, but does
            not depend on `inputs`.
        method: ``"taylor"`` propagates truncated Taylor series along the recorded graph, once for
            all orders, so a higher order costs little more. It has a rule for most of PyTorch's
            operations, and you can add rules with `taylor_rule`. ``"reverse"`` nests reverse
            passes; each order costs about three times as much as the previous one. ``"auto"`` uses
            Taylor mode, with three exceptions, in which it uses reverse mode: if Taylor mode cannot
            compute the derivative, for first derivatives if one pass per channel is cheaper than
            one series per column, and for few points on the CPU if all operations have formulas
            that are right at any order.
        rows: ``"proven"``: it must be proven that each row of `outputs` depends only on the same
            row of `inputs`. Otherwise an error names the operation that may mix rows.
            ``"independent"``: you promise this if it cannot be proven, for example because a custom
            function has a backward that does not record its graph. A few test passes check the
            promise and raise an error if it is broken, but they can miss a dependence that has no
            effect at the current values.

    Returns:
        A tensor with the shape of `outputs` and the dtype of `inputs`, or a tuple of them for a
        list of orders. With `directions`, the first axis of the result is n. Zeros that the graph
        proves do not require grad.

    Raises:
        TypeError: If `outputs`, `inputs` or `order` has the wrong type, or a tensor is complex,
            integer or sparse.
        ValueError: If the shapes do not match, `order` does not fit the columns, or `method` is
            unknown.
        RuntimeError: If the graph does not allow the derivative: there is no graph, it does not
            lead to `inputs`, it mixes rows (as BatchNorm in training mode does), or it comes from a
            compiled model. If Taylor mode has no rule for an operation, and `method` is
            ``"taylor"`` or reverse mode cannot differentiate the operation often enough (for
            example, once for a function marked ``@once_differentiable``). If the graph was freed,
            or a tensor that it saved was changed in place, this is PyTorch's own error.

    Note:
        The ``.grad`` of leaves, of `inputs` and of `outputs` does not change. Taylor mode proves
        from the graph alone that rows are independent, and runs no backward. So it ignores what a
        hook, or the backward of a custom function with a registered rule, does to gradients. A
        checkpointed function is run once more. There is one exception: the backward of a write into
        a view is run to find the positions of the elements, which waits for the device.

        Calls for parts of the same derivative, such as another column of a channel or another
        channel of an order, share one pass, as long as a result of this pass is alive. Each call
        returns the same numbers as a separate pass would, in a separate tensor. But hooks run only
        once.

        Reverse mode, which ``"auto"`` also uses for first derivatives and few points, works like
        nested calls to `torch.autograd.grad`. Hooks on the path run and may change gradients. Each
        pass adds to the ``.grad`` of intermediate tensors that called ``retain_grad()``. The
        backward of a custom function on the path is run once more, to check that it keeps rows
        separate and records its graph. Python numbers that it uses, tensors that it detaches, and
        values that it stores outside its ``ctx`` count as constants.

        The derivative is that of the recorded graph. A value that was taken out of the graph by
        ``.item()``, ``.detach()`` or NumPy counts as a constant, even if it was computed from other
        rows.

        Inside a function that `torch.compile` compiles, this call and the backward of its result
        become part of the compiled graph. There is one exception: if the proof that rows are
        independent needs the values of an index, the call runs uncompiled between the compiled
        parts. Then `outputs` must be the function or module, because the output of a compiled part
        cannot be differentiated twice. With ``fullgraph=True``, this is an error that explains why.
        Evaluate such a call under ``no_grad()`` instead of ``inference_mode()``, where PyTorch
        cannot save its tensors.

        If forward mode AD (`torch.autograd.forward_ad`) is on, reverse mode is used, and the result
        carries tangents.

        A derivative beyond the range of the dtype of `inputs` is infinite or zero. In reverse mode,
        the other derivatives are as exact as PyTorch's formulas, which lose digits where a function
        saturates (for example `silu` in single precision at 16). In Taylor mode, they are as exact
        as the values that PyTorch saved, at any order and scale. Half precision is computed in
        single precision, and orders above 8 in double precision. The coefficients are scaled and
        checked at the end. If one may have left the range, everything is computed again in double
        precision with other scales. This check waits for the device. It is skipped while code is
        compiled, while a CUDA graph is captured, and inside a dispatch mode or transform. Then
        coefficients of order up to 8 that leave the range of single precision are infinite, NaN or
        inexact. An example is a function whose argument is scaled by 1e-12 and whose value is
        scaled by 1e20.

        At a kink, such as that of ReLU at zero, the derivative is that of PyTorch's formula. The
        same is true where a formula divides zero by zero. The second derivative of a ReLU network
        is zero. `torch.where` does not prevent NaN in reverse mode: the derivative of
        ``torch.where(x == 0, 1, x.sin() / x)`` at 0 is NaN, as in autograd, while Taylor mode
        returns the derivative of the selected branch. Replace the divisor as well, by
        ``torch.where(x == 0, 1, x)``.

        Some formulas of PyTorch are wrong for higher derivatives, such as that of
        `torch.logcumsumexp` from order 3 on. If reverse mode would use one, an error names the
        node.

    Example:
        >>> import torch
        >>> from leafgrad import higher_order_grad
        >>> x = torch.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
        >>> higher_order_grad(x**3, x, 2).tolist()
        [[6.0], [12.0], [18.0]]
        >>> points = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> u = points[:, 0] ** 2 * points[:, 1]
        >>> u_xx, u_xy = higher_order_grad(u, points, [(2, 0), (1, 1)])
        >>> u_xx.tolist(), u_xy.tolist()
        ([4.0, 8.0], [2.0, 6.0])
        >>> higher_order_grad(x * x.sum().item(), x, 1).tolist()  # the sum, 6, is a constant
        [[6.0], [6.0], [6.0]]
        >>> x, t = torch.ones(2, requires_grad=True), torch.tensor([2.0, 3.0], requires_grad=True)
        >>> higher_order_grad(x**2 * t**3, (x, t), (1, 2)).tolist()
        [24.0, 36.0]
        >>> along = torch.tensor([[1.0, 1.0]])
        >>> higher_order_grad(u, points, 3, directions=along).tolist()  # (1 + t)**2 * (2 + t)
        [[6.0, 6.0]]
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
