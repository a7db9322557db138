"""Derivatives of any order: an answer per row and channel that is right, or an error."""

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
def higher_order_grad(  # noqa: PLR0913 (each by name)
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
    """Differentiate each row and channel of `outputs` with respect to its row of `inputs`.

    The result has the shape of `outputs`: columns of `inputs` are not summed into one another, nor
    are channels of `outputs`. It is right as far as the graph shows the function, or an error says
    what is wrong and what to do; unless `allow_unused` asks for them, zeros are given only where
    the graph proves them. Arguments mean what they mean in `torch.autograd.grad`.

    Args:
        outputs: What to differentiate: a floating point tensor of shape ``(*batch, *channels)``.
            Each of its rows may depend on the same row of `inputs` only. Or a function that
            computes such a tensor, a module for instance: it is called with `inputs`, or with a
            copy that requires grad where `inputs` does not.
        inputs: The floating point tensor of shape ``(*batch, columns)`` that `outputs` was
            computed from. If it has the very shape of `outputs`, an int as `order` means
            elementwise, and a multi-index rows with as many channels as columns. Where `outputs`
            has fewer axes than come before the columns, but one at least, all that it lacks are
            columns, counted as ``inputs.flatten(outputs.dim())`` counts them. Or several tensors,
            each with some of the columns, in the order in which a multi-index counts them: these
            may have the shape ``batch`` as well, for one column each, where `outputs` has that of
            ``(rows,)``. A function is called with all of them.
        order: How often to differentiate. An int where there is one column, or elementwise. Else
            a multi-index, a tuple with one count per column: ``(2, 0)`` is the second derivative
            in column 0, ``(1, 1)`` the mixed one. Or a list of these, which share what they have
            in common. Order 0 is `outputs` itself.
        directions: n directions across the columns, of shape ``(n, *columns)``, or
            ``(n, *batch, *columns)`` where each row has its own. Then `order` is an int or a list
            of ints: ``d^order / dt^order u(x + t v)`` at 0 for each direction v, by Taylor mode.
        create_graph: Record the result, so that it can be differentiated further, with respect
            to the parameters of a model for instance. The graph of `outputs` is kept either way.
        allow_unused: Give zeros, not an error, where `outputs` was not computed from `inputs`.
        method: ``"taylor"`` carries truncated Taylor series along the recorded graph, once for
            all orders, which costs little more per order; it has a rule for most of PyTorch's
            operations, and `taylor_rule` adds one's own. ``"reverse"`` nests reverse passes, which
            costs about three times more per order. ``"auto"`` takes Taylor mode, but reverse mode
            where Taylor mode has no answer, for first derivatives, where a pass per channel is
            cheaper than a series per column, and for few points on the CPU, through operations
            whose formulas are right at any order.
        rows: ``"proven"``: each row of `outputs` must be proven to depend on the same row of
            `inputs` only, or an error names the operation in which rows may meet.
            ``"independent"``: you promise this where it cannot be proven, as through a custom
            function whose backward does not record itself. A promise that probes contradict is an
            error, but probes find only what shows at these values.

    Returns:
        A tensor with the shape of `outputs` and the dtype of `inputs`, or a tuple of them for a
        list of orders. With `directions`, an axis for them comes first. Zeros that the graph
        proves do not require grad.

    Raises:
        TypeError: If `outputs`, `inputs` or `order` has the wrong type, or a tensor is complex,
            integer or sparse.
        ValueError: If the shapes do not fit together, or `order` does not fit the columns, or
            `method` is unknown.
        RuntimeError: If the graph holds no answer: there is none, it does not lead to `inputs`, it
            mixes rows (as BatchNorm in training mode does), it comes from a compiled model, or
            Taylor mode has no rule and a part of the graph can be differentiated only so often (a
            function marked ``@once_differentiable`` once). If the graph was freed, or a tensor that
            it needs was changed in place, this is PyTorch's own error. If `method` is
            ``"taylor"`` and there is no rule for an operation.

    Note:
        The ``.grad`` of leaves, of `inputs` and of `outputs` stays as it is. Taylor mode proves
        from the graph alone that rows are independent, and calls no backward: what a hook, or a
        backward of one's own with a registered rule, would make of gradients is not seen. A
        checkpointed function is run once more. A write into a view tells where it went by its own
        backward alone, which waits for the device.

        Calls that ask for parts of one derivative, for another column of a channel or for another
        channel of an order, share the pass that gave it, as long as a result of it is alive. They
        get the same numbers as without, each in a tensor of its own; but what hooks do, they do
        once.

        Reverse mode, which ``"auto"`` takes for first derivatives and few points as well, is
        what nested calls of `torch.autograd.grad` are: hooks on the way run and may change
        gradients, and each pass adds to the ``.grad`` of a tensor in between that has
        ``retain_grad()``. The backward of a custom function on the way is called once more, to see
        that it keeps rows apart and that it records itself. Plain numbers that it uses, tensors
        that it detaches, and values kept elsewhere than on its ``ctx`` count as constants.

        The derivative is that of the recorded graph. A value that was taken out of it, by
        ``.item()``, ``.detach()`` or NumPy, counts as a constant, even if it was computed from
        other rows.

        Within a function that `torch.compile` compiles, this call is a part of its graph, and so is
        the backward of the result, unless a proof that rows are independent needs the values of an
        index. Then it runs uncompiled between the compiled parts, and `outputs` must be the
        function or module, to be called here, as what a compiled part made has no graph that can
        be differentiated twice; with ``fullgraph=True`` it is an error that says why. Evaluate
        such a call in ``no_grad()``, as in ``inference_mode()`` PyTorch refuses what it saves.

        Where forward mode AD (`torch.autograd.forward_ad`) is on, its tangents come along, by
        reverse mode.

        A derivative that the dtype of `inputs` cannot hold is infinite, or zero. In reverse mode,
        others are as exact as PyTorch's own formulas, which lose digits where a function saturates
        (`silu` in single precision at 16). In Taylor mode, they are
        as exact as the values that PyTorch saved, at any order and scale: it computes half
        precision in single and orders above 8 in double precision, scales its coefficients, looks
        at them at the end, and computes again in double precision, with other scales, where one may
        have left the range. That look waits for the device; where a call is compiled, a CUDA graph
        is captured, or a dispatch mode or transform is on, there is none, and coefficients that
        leave the range of single precision up to order 8, as those of a function whose argument was
        scaled by 1e-12 and its value by 1e20 may do, are infinite, not a number, or too small to be
        exact.

        At a kink, such as that of ReLU at zero, the derivative is what PyTorch's formula says,
        and so it is where a formula divides zero by zero. The second derivative of a ReLU network
        is zero. `torch.where` does not protect from this in reverse mode: the derivative of
        ``torch.where(x == 0, 1, x.sin() / x)`` at 0 is not a number, as in autograd, while Taylor
        mode returns that of the chosen branch. Replace the divisor as well, by
        ``torch.where(x == 0, 1, x)``.

        Some formulas of PyTorch are wrong for higher derivatives, such as that of
        `torch.logcumsumexp` from order 3 on. Where reverse mode would use one, it is an error that
        names the node.

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
    """Return the derivatives along directions, ``[n, *shape of outputs]``."""
    check_columns(problem.axes)
    given = order if isinstance(order, list) else [order]
    counts = [count for count in map(as_count, given) if count and count > 0]
    if not counts or len(counts) < len(given):
        raise ValueError(message("derivative.along.order", value=shorten(order)))
    found = problem.along(read_directions(directions, problem.inputs, problem.axes), counts)
    results = tuple(map(problem.finish, _apart(found[count] for count in counts)))
    return results if isinstance(order, list) else results[0]


def _request(order: Any) -> Hashable:
    """Return a cache key for an order, None if plans for this order are not cached.

    A cached plan is for one or several orders that are distinct and not 0.
    """
    if type(order) is list:
        requests = [*map(_request, order)]
        is_one = None in requests or len({*requests}) < len(requests)
        return None if is_one else (list, *requests)
    counts = order if type(order) is tuple else (order,)
    return order if {*map(type, counts)} == {int} and any(counts) else None


def _apart(results: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield each tensor, or a copy if the same tensor came before."""
    seen = set()
    for result in results:
        yield result.clone() if id(result) in seen else result
        seen.add(id(result))
