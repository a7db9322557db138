"""Nested reverse mode: order n by n reverse passes, each through the one before."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._axes import Axes
from leafgrad._order import MultiIndex, plan, successor
from leafgrad._recording import check_formulas, check_recorded
from leafgrad._rows import check_rows


@dataclass(frozen=True, kw_only=True)
class Reverse:
    """What is to be differentiated with respect to `inputs`, and how often."""

    inputs: Tensor
    axes: Axes
    orders: list[MultiIndex]
    create_graph: bool

    def differentiate(self, outputs: Tensor, path: Collection[Node]) -> dict[MultiIndex, Tensor]:
        """Compute the derivatives, channel by channel; `path` is what leads to `inputs`."""
        with _RetainedGradientsKept(outputs, self.inputs), _as_recorded(self.inputs):
            check_formulas(path)
            check_rows(outputs, self.inputs, self.axes, path)
            partials = [self._partials(channel) for channel in _channels(outputs, self.axes)]
        return {
            index: _joined([known[index] for known in partials], outputs.shape)
            for index in self.orders
        }

    def _partials(self, channel: Tensor) -> dict[MultiIndex, Tensor]:
        """Differentiate one channel, which has a number per row, on the way to all orders."""
        steps = plan(self.orders)
        wanted = {*steps, *self.orders}
        known = {(0,) * self.axes.columns: channel}
        for index in steps:
            above = {successor(index, column): column for column in range(self.axes.columns)}
            is_recorded = self.create_graph or not above.keys().isdisjoint(steps)
            gradient = _gradient(known[index], self.inputs, create_graph=is_recorded)
            if is_recorded:
                path = _autograd.path_between(known[index], self.inputs)
                check_recorded(path.nodes if path else (), order=sum(index) + 1)
            for higher in above.keys() & wanted - known.keys():
                known[higher] = _column(gradient, above[higher], self.axes)
        return known


def differentiate_once(
    outputs: Tensor,
    inputs: Tensor,
    axes: Axes,
    orders: Sequence[MultiIndex],
    *,
    create_graph: bool,
) -> dict[MultiIndex, Tensor]:
    """Compute first derivatives by one pass per channel, where it is proven that this is right.

    That is, that rows are independent, and that all on the way records itself.
    """
    with _RetainedGradientsKept(outputs, inputs), _as_recorded(inputs):
        gradients = [
            _gradient(channel, inputs, create_graph=create_graph)
            for channel in _channels(outputs, axes)
        ]
    return {
        order: _joined([_column(g, order.index(1), axes) for g in gradients], outputs.shape)
        for order in orders
    }


def _channels(outputs: Tensor, axes: Axes) -> Sequence[Tensor]:
    rows = axes.batch.numel()
    return [outputs] if outputs.numel() == rows else outputs.reshape(rows, -1).unbind(-1)


def _gradient(channel: Tensor, inputs: Tensor, *, create_graph: bool) -> Tensor:
    """Differentiate each row; zeros where the graph of `channel` does not lead to inputs."""
    if not channel.requires_grad:
        return torch.zeros_like(inputs)
    gradient = _autograd.gradient_of_all(channel, inputs, create_graph=create_graph)
    return torch.zeros_like(inputs) if gradient is None else gradient


def _column(gradient: Tensor, column: int, axes: Axes) -> Tensor:
    return gradient if axes.columns == 1 else gradient.select(-1, column)


def _joined(channels: list[Tensor], shape: torch.Size) -> Tensor:
    """Lay channels side by side."""
    whole = channels[0] if len(channels) == 1 else torch.stack(channels, -1)
    return whole if whole.shape == shape else whole.reshape(shape)


def _as_recorded(inputs: Tensor) -> AbstractContextManager[None]:
    """Compute in the dtypes of the graph, where autocast would cast what is computed now."""
    device = inputs.device.type
    if torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()


class _RetainedGradientsKept:
    """Gives results that retain their gradient the one back that they had, as passes add to it."""

    def __init__(self, *tensors: Tensor) -> None:
        self.kept = [(tensor, tensor.grad) for tensor in tensors if tensor.retains_grad]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        for tensor, gradient in self.kept:
            tensor.grad = gradient
