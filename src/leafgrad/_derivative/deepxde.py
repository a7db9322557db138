"""DeepXDE's `jacobian` and `hessian`, answered by `higher_order_grad`."""

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
    """Let `higher_order_grad` answer what a DeepXDE script asks ``dde.grad`` for.

    The script stays as it is: its equation, its boundary conditions and its callbacks go on calling
    ``dde.grad.jacobian`` and ``dde.grad.hessian``, on DeepXDE's PyTorch backend. The derivatives of
    all components that one step of training asked for are computed in one call in the next, and a
    derivative of a derivative is one of higher order, not a nested one.

    Args:
        grad: The module ``dde.grad``. Its ``jacobian``, ``hessian`` and ``clear`` are replaced.

    Raises:
        TypeError: If `grad` has no such functions. Later, if outputs are no tensors, as they are
            not in DeepXDE's forward mode.

    Note:
        What `higher_order_grad` refuses, such as outputs that mix the points of a batch, is refused
        here as well; second derivatives of a linear output, which end in an error in DeepXDE, are
        zero. Of up to 64 points, what two reverse passes give is taken by these, as by DeepXDE: the
        calls of operators take the time there, and PyTorch's backward needs fewer calls from Python
        than Taylor mode. As in DeepXDE, derivatives are kept until ``dde.grad.clear`` is called,
        which a training step does at its end; those of a tensor that was changed in place are not
        used again.

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
    """A column of a tensor, described as a derivative of a channel of the network's outputs."""

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
        """Return the columns as one tensor of shape (points, columns)."""
        orders = dict.fromkeys(column.order for column in columns)
        self.asked |= orders
        self._compute([order for order in orders if order not in self._known])
        parts = [self._known[order].narrow(1, channel, 1) for channel, order in columns]
        # Return a copy, because the caller may modify it in place.
        return torch.cat(parts, 1) if len(parts) > 1 else parts[0].clone()

    def _compute(self, orders: list[MultiIndex]) -> None:
        """Compute `orders`, and in the same pass the other orders that the previous step needed."""
        if set(orders).intersection(self._plan):
            orders = [*orders, *(order for order in self._plan if order not in orders)]
            self._plan = []
        if orders:
            self._known |= zip(orders, self._derivatives(orders), strict=True)

    def _derivatives(self, orders: list[MultiIndex]) -> tuple[Tensor, ...]:
        """Return derivatives ``(points, channels)``, by reverse mode for few points and passes.

        For few points, the overhead of operator calls dominates. PyTorch's backward calls operators
        from C++, Taylor mode from Python. If reverse mode raises an error, the default method is
        used.
        """
        outputs, inputs = self._outputs, self._inputs
        passes = len(plan(orders)) * outputs.shape[1]
        if len(outputs) <= _FEW_POINTS and passes <= _FEW_PASSES:
            with suppress(RuntimeError):
                return higher_order_grad(outputs, inputs, orders, method="reverse")
        return higher_order_grad(outputs, inputs, orders)


# For networks with a width of 20 to 128, two reverse passes take as long as Taylor mode at 100 to
# 1,000 points. Three passes are never faster.
_FEW_POINTS = 64
_FEW_PASSES = 2


class _Source(NamedTuple):
    """A tensor that was differentiated or is a derivative, and the meaning of its columns."""

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
        self._plans: list[list[MultiIndex]] = []  # the previous step's orders per output

    def jacobian(
        self, ys: Tensor, xs: Tensor, i: int | None = None, j: int | None = None
    ) -> Tensor:
        """Return dy_i / dx_j, ``(points, 1)``, or a row or column of the Jacobian."""
        source = self._source(ys, xs)
        if i is None and j is None and (ys.shape[1], xs.shape[1]) != (1, 1):
            raise ValueError(message("derivative.deepxde.both-none"))
        rows = range(ys.shape[1]) if i is None else [_check_number("i", i, ys.shape[1])]
        dimensions = range(xs.shape[1]) if j is None else [_check_number("j", j, xs.shape[1])]
        return self._take(source, [source.columns[r].by(d) for r in rows for d in dimensions])

    def hessian(self, ys: Tensor, xs: Tensor, component: int = 0, i: int = 0, j: int = 0) -> Tensor:
        """Return the second derivative of a component in x_i and x_j, ``(points, 1)``."""
        source = self._source(ys, xs)
        column = source.columns[_check_number("component", component, ys.shape[1])]
        i, j = _check_number("i", i, xs.shape[1]), _check_number("j", j, xs.shape[1])
        return self._take(source, [column.by(i).by(j)])

    def clear(self) -> None:
        """Drop all tensors, but keep the list of requested orders for the next step."""
        if self._met:
            self._plans = [list(outputs.asked) for outputs in self._met]
        self._inputs, self._sources, self._met = None, {}, []

    def _source(self, ys: Tensor, xs: Tensor) -> _Source:
        """Return the entry of a tensor, created on first use."""
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
        if tensor.dim() != 2:  # noqa: PLR2004 - points and columns
            shape = tuple(tensor.shape)
            raise ValueError(message("derivative.deepxde.shape", name=name, shape=shape))


def _check_number(name: str, number: int, count: int) -> int:
    if not 0 <= number < count:
        words = {"name": name, "last": count - 1, "value": number}
        raise ValueError(message("derivative.deepxde.number", **words))
    return number
