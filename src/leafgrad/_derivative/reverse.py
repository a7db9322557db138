"""Nested reverse mode: derivatives of order n by n reverse passes, each through the previous one.

If rows are independent, one pass differentiates a channel ``u`` of the outputs, of shape ``batch``,
in all columns of the inputs at once. The pass starts from a gradient of ones. Its result, of shape
``(*batch, columns)``, contains ``d u / d x_c`` in column c. A pass that starts from the derivative
with multi-index k computes all derivatives ``k + e_c``. Passes that are differentiated again run
with ``create_graph=True``. The graph of each is about three times as large as the previous one.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import torch
from torch import Tensor

from leafgrad import _autograd
from leafgrad._derivative.arguments import Axes, MultiIndex
from leafgrad._derivative.double_backward import (
    WRITE_OUT,
    check_backwards_exist,
    check_double_backward,
    check_formulas,
)
from leafgrad._derivative.joined_inputs import JoinedInputs
from leafgrad._messages import message

Answer = TypeVar("Answer")

# The number of nodes for order eight of a network with a dozen layers. The next order would take
# minutes, and the saved tensors would exhaust memory. So a larger graph raises an error.
MOST_NODES = 200_000


@dataclass(frozen=True, kw_only=True)
class Reverse:
    """The derivatives of the given `orders` with respect to `inputs`, by nested reverse passes.

    The shape of `inputs` is ``(*batch, *columns)``, or ``batch`` if `axes` are elementwise. If the
    caller passed several tensors, `joined` contains them, and each gets its own gradient.
    """

    inputs: Tensor
    joined: JoinedInputs | None
    axes: Axes
    orders: list[MultiIndex]
    create_graph: bool

    def differentiate(
        self, outputs: Tensor, path: _autograd.Path, check_rows: Callable[[], None]
    ) -> dict[MultiIndex, Tensor]:
        """Return the derivative of `outputs` for each order, in the shape ``(*batch, *channels)``.

        The derivatives are computed channel by channel. `path` leads from `inputs` to `outputs`,
        and `check_rows` raises an error if rows may depend on each other.
        """

        def in_all_channels() -> list[dict[MultiIndex, Tensor]]:
            check_backwards_exist(path.nodes)
            check_rows()
            order = max(map(sum, self.orders))
            check_formulas(path.nodes, order, create_graph=self.create_graph)
            most = max(MOST_NODES, 100 * len(path.nodes))
            return [
                self._partials(channel, path, most) for channel in _channels(outputs, self.axes)
            ]

        tensors = [outputs, *(self.joined.parts if self.joined else [self.inputs])]
        partials = _without_side_effects(tensors, in_all_channels)
        return {
            index: _join_channels([known[index] for known in partials], outputs.shape)
            for index in self.orders
        }

    def _partials(
        self, channel: Tensor, path: _autograd.Path | None, most: int
    ) -> dict[MultiIndex, Tensor]:
        """Return a dict from multi-index to derivative of one channel, of shape ``batch``.

        It contains all orders, and the lower orders that they are computed from. `path` leads from
        the inputs to all outputs. Raise an error if a derivative that must be differentiated again
        has a graph of more than `most` nodes. It is None if there is no path.
        """
        steps = plan(self.orders)
        wanted = {*steps, *self.orders}
        known = {(0,) * self.axes.columns: channel}
        for index in steps:
            above = {successor(index, column): column for column in range(self.axes.columns)}
            is_recorded = self.create_graph or not above.keys().isdisjoint(steps)
            if any(index) and is_recorded:
                path = self._path_of(known[index])
            nodes = path.nodes if is_recorded and path else ()
            if len(nodes) > most:
                words = {"order": sum(index), "nodes": len(nodes)}
                raise RuntimeError(message("derivative.graph.growth", **words))
            gradient = self._gradient(known[index], create_graph=is_recorded)
            check_double_backward(nodes, order=sum(index) + 1)
            for higher in above.keys() & wanted - known.keys():
                known[higher] = _column(gradient, above[higher], self.axes)
        return known

    def _path_of(self, derivative: Tensor) -> _autograd.Path | None:
        if self.joined is None:
            return _autograd.path_between(derivative, self.inputs)
        return self.joined.path_between(derivative)

    def _gradient(self, channel: Tensor, *, create_graph: bool) -> Tensor:
        """Return the gradient of `channel` in the shape of `inputs`, which may be joined."""
        if self.joined is None:
            return _gradient(channel, self.inputs, create_graph=create_graph)
        return self.joined.whole_of(
            [_gradient(channel, part, create_graph=create_graph) for part in self.joined.parts]
        )


def gradients_once(
    outputs: Tensor, inputs: Tensor, axes: Axes, *, create_graph: bool
) -> list[Tensor]:
    """Return the gradient of each channel, shaped as `inputs`, by one reverse pass per channel.

    The caller must have checked that rows are independent, and that autograd can track all backward
    formulas on the path completely. `axes` defines which axes count rows.
    """

    def in_all_channels() -> list[Tensor]:
        channels = _channels(outputs, axes)
        return [_gradient(channel, inputs, create_graph=create_graph) for channel in channels]

    return _without_side_effects([outputs, inputs], in_all_channels)


def first_derivatives(
    gradients: Sequence[Tensor], orders: Sequence[MultiIndex], axes: Axes, shape: torch.Size
) -> dict[MultiIndex, Tensor]:
    """Return first derivatives in the `shape` of the outputs, from the gradient of each channel.

    In each multi-index of `orders`, one entry is 1 and the others are 0. `axes` defines which axes
    count rows.
    """
    is_column = len(gradients) == 1 and len(shape) > len(axes.batch)
    found = {}
    for order in orders:
        column = order.index(1)
        channels = [_column(g, column, axes, keeps_axis=is_column) for g in gradients]
        found[order] = _join_channels(channels, shape)
    return found


def _channels(outputs: Tensor, axes: Axes) -> Sequence[Tensor]:
    """Return the channels of `outputs`, ``(*batch, *channels)``. Each has one number per row.

    `axes` defines which axes count rows.
    """
    rows = axes.batch.numel()
    return [outputs] if outputs.numel() == rows else outputs.reshape(rows, -1).unbind(-1)


def _gradient(channel: Tensor, inputs: Tensor, *, create_graph: bool) -> Tensor:
    """Return the gradient of `channel` in the shape of `inputs`, or zeros if there is no path."""
    if not channel.requires_grad:
        return torch.zeros_like(inputs)
    (gradient,) = _autograd.gradients_of_all(channel, [inputs], create_graph=create_graph)
    return torch.zeros_like(inputs) if gradient is None else gradient


def _column(gradient: Tensor, column: int, axes: Axes, *, keeps_axis: bool = False) -> Tensor:
    if axes.columns == 1:
        return gradient
    if len(axes.row) > 1:
        gradient = gradient.flatten(len(axes.batch))
    return gradient.narrow(-1, column, 1) if keeps_axis else gradient.select(-1, column)


def _join_channels(channels: list[Tensor], shape: torch.Size) -> Tensor:
    """Stack the channels along the last axis, and reshape them to `shape`, that of the outputs."""
    whole = channels[0] if len(channels) == 1 else torch.stack(channels, -1)
    return whole if whole.shape == shape else whole.reshape(shape)


def _without_side_effects(tensors: Sequence[Tensor], differentiate: Callable[[], Answer]) -> Answer:
    """Call `differentiate`, which runs reverse passes, without side effects. Return its result.

    Autocast is off during the call, so gradients have the dtypes of the graph. A backward pass adds
    to the `.grad` of tensors that called `retain_grad()`. For the tensors in `tensors`, `.grad` is
    restored afterwards.
    """
    kept = [(tensor, tensor.grad) for tensor in tensors if tensor.retains_grad]
    try:
        if not _autograd.is_cast(tensors[0]):
            return differentiate()
        with torch.autocast(tensors[0].device.type, enabled=False):
            return differentiate()
    finally:
        for tensor, gradient in kept:
            tensor.grad = gradient


def raise_if_missing(error: RuntimeError) -> None:
    """If `error` says that PyTorch has no backward formula, raise an error that suggests a fix.

    Otherwise return.
    """
    if isinstance(error, NotImplementedError):
        words = {"error": str(error).rstrip("."), "help": message(WRITE_OUT)}
        refusal = message("derivative.graph.no-formula", **words)
        raise RuntimeError(refusal) from error  # noqa: TRY004 (the error is about the graph, not about a type)


def successor(index: MultiIndex, column: int) -> MultiIndex:
    """Return the multi-index `index` with one more differentiation in `column`."""
    return (*index[:column], index[column] + 1, *index[column + 1 :])


def plan(orders: Collection[MultiIndex]) -> list[MultiIndex]:
    """Return the multi-indices of the derivatives that must be differentiated to reach `orders`.

    Each takes one reverse pass. Lower orders come first. One pass computes all columns at once: the
    pass from u computes u_x and u_y. Orders share passes: u_xxx and u_xxy both start from u_xx.
    """
    return [*_plan(frozenset(orders))]


@lru_cache(maxsize=256)
def _plan(orders: frozenset[MultiIndex]) -> tuple[MultiIndex, ...]:
    known = {(0,) * len(index) for index in orders}
    chosen: list[MultiIndex] = []
    for order in sorted(orders):
        for index in reversed(list(_missing_on_the_way(order, known))):
            chosen.append(index)
            known.update(successor(index, column) for column in range(len(index)))
    return tuple(chosen)


def _missing_on_the_way(index: MultiIndex, known: Collection[MultiIndex]) -> Iterator[MultiIndex]:
    """Yield the lower multi-indices needed for `index`, from high to low, until one is in `known`.

    Each is one order lower than the previous one, in one column. If no choice of this column leads
    to an index in `known`, it is the last column that can be reduced.
    """
    while index not in known:
        places = [place for place in reversed(range(len(index))) if index[place]]
        below = [(*index[:p], index[p] - 1, *index[p + 1 :]) for p in places]
        index = next((lower for lower in below if lower in known), below[0])
        yield index
