"""Derivatives of any order: an answer per row and channel that is right, or an error."""

from collections.abc import Callable
from typing import Literal, TypeVar, overload

import torch
from torch import Tensor

from leafgrad._axes import read_axes
from leafgrad._connection import find_path
from leafgrad._order import MultiIndex, parse_orders
from leafgrad._reverse import Reverse

Order = TypeVar("Order", bound=int | MultiIndex)
Function = Callable[[Tensor], Tensor]
Method = Literal["auto", "reverse"]


@overload
def higher_order_grad(
    outputs: Tensor | Function,
    inputs: Tensor,
    order: int | MultiIndex,
    *,
    create_graph: bool = True,
    allow_unused: bool = False,
    method: Method = "auto",
) -> Tensor: ...


@overload
def higher_order_grad(
    outputs: Tensor | Function,
    inputs: Tensor,
    order: list[Order],
    *,
    create_graph: bool = True,
    allow_unused: bool = False,
    method: Method = "auto",
) -> tuple[Tensor, ...]: ...


def higher_order_grad(
    outputs: Tensor | Function,
    inputs: Tensor,
    order: int | MultiIndex | list[Order],
    *,
    create_graph: bool = True,
    allow_unused: bool = False,
    method: Method = "auto",
) -> Tensor | tuple[Tensor, ...]:
    """Differentiate each row and channel of `outputs` with respect to its row of `inputs`.

    The result always has the shape of `outputs`: columns of `inputs` are not summed into one
    another, nor are channels. Order 0 is `outputs` itself. An answer is right or an error says
    what is wrong, and zeros are given only where the graph proves that the derivative is zero.

    Args:
        outputs: What to differentiate, of shape ``(*batch, *channels)``, floating point. Row i may
            depend on row i of `inputs` only. A function or module is called with `inputs` first,
            with gradients recorded, or with a copy of `inputs` that requires grad where `inputs`
            does not.
        inputs: A tensor of shape ``(*batch, columns)``, floating point, that `outputs` was
            computed from. If it has the very shape of `outputs`, each element stands for itself.
        order: How often to differentiate. An int where there is one column, or elementwise. A
            multi-index, which is a tuple with a count for each column: ``(2, 0)`` is the second
            derivative in column 0, ``(1, 1)`` the mixed one. Or a list of these, answered
            together: derivatives of lower order are shared.
        create_graph: Record the result, so that it can be differentiated further, for instance
            with respect to the parameters of a model.
        allow_unused: Give zeros where `outputs` was not computed from `inputs`.
        method: ``"reverse"`` nests reverse passes; ``"auto"`` is the same for now.

    Returns:
        A tensor of the shape of `outputs` and the dtype of `inputs`, or, for a list of orders, a
        tuple of such tensors. Zeros that the graph proves require no grad.

    Raises:
        TypeError: If an argument has the wrong type, or a tensor is complex, integer or sparse.
        ValueError: If shapes or `order` do not fit, or `method` does not exist.
        RuntimeError: If the graph has no answer: `outputs` has no graph, does not depend on
            `inputs` (unless `allow_unused`), mixes rows (as BatchNorm in training mode does), or
            comes through something that can be differentiated only once (a compiled model, a
            function marked ``@once_differentiable``). If the graph was freed, or a tensor that it
            needs was changed in place, PyTorch's own error.

    Note:
        The graph of `outputs` is kept, and ``.grad`` of leaves, `inputs` and `outputs` stays as it
        was. As in `torch.autograd.grad`, the reverse passes run hooks that were registered on what
        lies between, and add to what tensors there retain by ``retain_grad()``. Three passes
        more, which send NaN, see to it that rows are independent; a GPU is waited for once.
        At a kink, such as that of ReLU, a derivative is what PyTorch's formula says; so the second
        derivative of a ReLU network is zero.

    Example:
        >>> import torch
        >>> from leafgrad import higher_order_grad
        >>> x = torch.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
        >>> higher_order_grad(x**3, x, 2).tolist()
        [[6.0], [12.0], [18.0]]

        Two columns, their derivatives apart, and mixed:

        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> u = x[:, 0] ** 2 * x[:, 1]
        >>> u_xx, u_xy = higher_order_grad(u, x, [(2, 0), (1, 1)])
        >>> u_xx.tolist(), u_xy.tolist()
        ([4.0, 8.0], [2.0, 6.0])
    """
    if method not in ("auto", "reverse"):
        raise ValueError(f'method must be "auto" or "reverse", not {method!r}')
    _check_tensor("inputs", inputs)
    with torch.inference_mode(mode=False):  # which turns recording on as well
        if not isinstance(outputs, Tensor):
            outputs, inputs = _evaluated(outputs, inputs)
        _check_tensor("outputs", outputs)
        axes = read_axes(outputs, inputs)
        orders = parse_orders(order, axes)
        higher = [index for index in orders if any(index)]
        path = find_path(outputs, inputs, allow_unused=allow_unused) if higher else None
        if path is None or not outputs.numel():
            found = {index: inputs.new_zeros(outputs.shape) for index in higher}
        else:
            reverse = Reverse(inputs=inputs, axes=axes, orders=higher, create_graph=create_graph)
            found = reverse.differentiate(outputs, path)
    results = [found.get(index, outputs) for index in orders]
    if not create_graph:
        results = [result.detach() for result in results]
    return tuple(results) if isinstance(order, list) else results[0]


def _check_tensor(name: str, tensor: object) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a tensor, not of type {type(tensor).__name__}")
    if tensor.is_complex():
        raise TypeError(
            f"{name} must be real, not {tensor.dtype}; take real and imaginary part one at a time"
        )
    if not tensor.is_floating_point():
        raise TypeError(f"{name} must be floating point, not {tensor.dtype}; convert it first")
    if tensor.layout is not torch.strided:
        raise TypeError(f"{name} must be dense, not {tensor.layout}; convert it by to_dense()")


def _evaluated(function: Function, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Compute outputs from `inputs`, or from a copy that requires grad where `inputs` does not."""
    if not callable(function):
        raise TypeError(
            "outputs must be a tensor, or a function that computes one from inputs, not of type "
            f"{type(function).__name__}"
        )
    leaf = inputs if inputs.requires_grad else inputs.clone().detach().requires_grad_()
    return function(leaf), leaf
