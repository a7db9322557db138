"""Replacements for DeepXDE's `jacobian` and `hessian` that call `higher_order_grad`."""

from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._arguments.signature import public_function
from leafgrad._derivative.arguments import MultiIndex
from leafgrad._derivative.higher_order_grad import higher_order_grad
from leafgrad._derivative.reverse import plan
from leafgrad._messages import message


@public_function()
def patch_deepxde(grad: Any) -> None:
    """Replace the derivatives of a DeepXDE script by calls to `higher_order_grad`.

    The script itself does not change: its equation, boundary conditions and callbacks still call
    ``dde.grad.jacobian`` and ``dde.grad.hessian``. It must use DeepXDE's PyTorch backend. The first
    training step shows which derivatives the script needs. From the second step on, a single call
    computes all of them. If the script differentiates a derivative, the result is computed as one
    derivative of higher order, not by differentiating twice.

    Args:
        grad: The module ``dde.grad``. Its ``jacobian``, ``hessian`` and ``clear`` are replaced.

    Example:
        >>> import types
        >>> import torch
        >>> from leafgrad import patch_deepxde
        >>> grad = types.SimpleNamespace(jacobian=None, hessian=None, clear=None)  # or dde.grad
        >>> patch_deepxde(grad)
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> y = x[:, 0:1] ** 3 * x[:, 1:2]
        >>> grad.hessian(y, x, i=0, j=1).tolist()
        [[3.0], [27.0]]

    Raises:
        TypeError: If `grad` lacks one of these functions. The replacements raise this error if
            outputs are not tensors, which is the case in DeepXDE's forward mode.

    Note:
        The replacements raise an error wherever `higher_order_grad` does, for example if the
        outputs mix the points of a batch. DeepXDE raises an error for the second derivative of a
        linear output; the replacement returns zero.

        For up to 64 points, derivatives that need at most two backward passes are computed in
        reverse mode, as in DeepXDE. The reason is that for so few points, most of the time goes
        into calling operators. PyTorch's backward calls fewer of them from Python than Taylor mode.

        As in DeepXDE, derivatives are cached until ``dde.grad.clear`` is called, which happens at
        the end of each training step. Derivatives of a tensor that was changed in place are not
        reused.
    """
    missing = [name for name in ("jacobian", "hessian", "clear") if not hasattr(grad, name)]
    if missing:
        names = " and ".join(missing)
        raise TypeError(message("derivative.deepxde.module", missing=names, value=repr(grad)))
    derivatives = _Derivatives()
    grad.jacobian = derivatives.jacobian
    grad.hessian = derivatives.hessian
    grad.clear = derivatives.clear


class _Column(NamedTuple):
    """What a column of a tensor contains: the derivative `order` of channel `channel`.

    The channel is one of the network's outputs. Order ``(0, ..., 0)`` is the channel itself.
    """

    channel: int
    order: MultiIndex

    def by(self, dimension: int) -> "_Column":
        """Return the column differentiated once more, with respect to one dimension."""
        counts = (count + (k == dimension) for k, count in enumerate(self.order))
        return self._replace(order=tuple(counts))


class _Outputs:
    """The network's outputs in one training step, and a cache of their derivatives."""

    def __init__(self, outputs: Tensor, inputs: Tensor, plan: list[MultiIndex]) -> None:
        self._outputs = outputs
        self._inputs = inputs
        self._plan = plan
        self._known: dict[MultiIndex, Tensor] = {}
        self.asked: dict[MultiIndex, None] = {}

    def derivatives(self, columns: list[_Column]) -> Tensor:
        """Return the derivatives in `columns` as a tensor ``(points, len(columns))``."""
        orders = dict.fromkeys(column.order for column in columns)
        self.asked |= orders
        self._compute([order for order in orders if order not in self._known])
        parts = [self._known[order].narrow(1, channel, 1) for channel, order in columns]
        # Return a copy, because the caller may modify it in place.
        return torch.cat(parts, 1) if len(parts) > 1 else parts[0].clone()

    def _compute(self, orders: list[MultiIndex]) -> None:
        """Compute the derivatives `orders`, and others that the training step is likely to need.

        If the previous training step needed one of them, all orders of that step are computed in
        the same pass.
        """
        if set(orders).intersection(self._plan):
            orders = [*orders, *(order for order in self._plan if order not in orders)]
            self._plan = []
        if orders:
            self._known |= zip(orders, self._derivatives(orders), strict=True)

    def _derivatives(self, orders: list[MultiIndex]) -> tuple[Tensor, ...]:
        """Return one derivative ``(points, channels)`` for each order.

        Use reverse mode if there are few points and few passes, because the overhead of operator
        calls dominates then: PyTorch's backward calls operators from C++, Taylor mode from Python.
        If reverse mode raises an error, use the default method.
        """
        outputs, inputs = self._outputs, self._inputs
        passes = len(plan(orders)) * outputs.shape[1]
        if len(outputs) <= _FEW_POINTS and passes <= _FEW_PASSES:
            with suppress(RuntimeError):
                return higher_order_grad(outputs, inputs, orders, method="reverse")
        return higher_order_grad(outputs, inputs, orders)


# For few points, two passes of reverse mode are faster than Taylor mode. Both take the same time at
# 100 to 1,000 points, depending on the width of the network (20 to 128). The limit of 64 is below
# that for each of these widths. Three passes are never faster.
_FEW_POINTS = 64
_FEW_PASSES = 2


class _Source(NamedTuple):
    """A tensor that the script may differentiate, and what each of its columns contains.

    The tensor is the network's outputs, or a tensor of their derivatives that was returned earlier.
    `version` is its version counter, which shows whether it was changed in place.
    """

    tensor: Tensor
    version: int | None
    outputs: _Outputs
    columns: list[_Column]


class _Derivatives:
    """The replacements for `dde.grad.jacobian`, `dde.grad.hessian` and `dde.grad.clear`."""

    def __init__(self) -> None:
        self._inputs: Tensor | None = None
        # Keys are ids of tensors, which the sources keep alive.
        self._sources: dict[int, _Source] = {}
        self._met: list[_Outputs] = []
        self._plans: list[list[MultiIndex]] = []  # per output: orders of the last training step

    def jacobian(
        self, ys: Tensor, xs: Tensor, i: int | None = None, j: int | None = None
    ) -> Tensor:
        """Return dy_i / dx_j, ``(points, 1)``.

        If `i` is None, return one column for each column of `ys`. If `j` is None, return one column
        for each column of `xs`. Only one of the two may be None, unless both `ys` and `xs` have a
        single column.
        """
        source = self._source(ys, xs)
        if i is None and j is None and (ys.shape[1], xs.shape[1]) != (1, 1):
            raise ValueError(message("derivative.deepxde.both-none"))
        rows = range(ys.shape[1]) if i is None else [_check_number("i", i, ys.shape[1])]
        dimensions = range(xs.shape[1]) if j is None else [_check_number("j", j, xs.shape[1])]
        return self._take(source, [source.columns[r].by(d) for r in rows for d in dimensions])

    def hessian(self, ys: Tensor, xs: Tensor, component: int = 0, i: int = 0, j: int = 0) -> Tensor:
        """Return the second derivative of one column of `ys` in x_i and x_j, ``(points, 1)``.

        `component` is the number of the column.
        """
        source = self._source(ys, xs)
        column = source.columns[_check_number("component", component, ys.shape[1])]
        i, j = _check_number("i", i, xs.shape[1]), _check_number("j", j, xs.shape[1])
        return self._take(source, [column.by(i).by(j)])

    def clear(self) -> None:
        """Drop all tensors, but keep the list of requested orders for the next training step."""
        if self._met:
            self._plans = [list(outputs.asked) for outputs in self._met]
        self._inputs, self._sources, self._met = None, {}, []

    def _source(self, ys: Tensor, xs: Tensor) -> _Source:
        """Return what each column of `ys` contains, from the cache or as a new `_Source`.

        The script may pass the network's outputs as `ys`, or derivatives that it received earlier.
        If `ys` is not in the cache or was changed in place, it counts as outputs. If `xs` is a
        different tensor than in the last call, clear the cache first.
        """
        _check_shapes(ys, xs)
        if xs is not self._inputs:
            self.clear()
            self._inputs = xs
        source = self._sources.get(id(ys))
        if source is None or _autograd.version(ys) != source.version:
            place = len(self._met)
            plan = self._plans[place] if place < len(self._plans) else []
            self._met.append(_Outputs(ys, xs, plan))
            values = (0,) * xs.shape[1]
            columns = [_Column(channel, values) for channel in range(ys.shape[1])]
            source = self._keep(ys, self._met[-1], columns)
        return source

    def _take(self, source: _Source, columns: list[_Column]) -> Tensor:
        found = source.outputs.derivatives(columns)
        return self._keep(found, source.outputs, columns).tensor

    def _keep(self, tensor: Tensor, outputs: _Outputs, columns: list[_Column]) -> _Source:
        source = _Source(tensor, _autograd.version(tensor), outputs, columns)
        self._sources[id(tensor)] = source
        return source


def _check_shapes(ys: object, xs: object) -> None:
    for name, tensor in {"ys": ys, "xs": xs}.items():
        if not isinstance(tensor, Tensor):
            key = "forward-mode" if isinstance(tensor, tuple) else "type"
            kind = type(tensor).__name__
            raise TypeError(message(f"derivative.deepxde.{key}", name=name, type=kind))
        if tensor.dim() != 2:  # noqa: PLR2004 - its axes are points and columns
            shape = tuple(tensor.shape)
            raise ValueError(message("derivative.deepxde.shape", name=name, shape=shape))


def _check_number(name: str, number: int, count: int) -> int:
    if not 0 <= number < count:
        words = {"name": name, "last": count - 1, "value": number}
        raise ValueError(message("derivative.deepxde.number", **words))
    return number
