"""Nested reverse mode: order n by n reverse passes, each through the one before."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    is_proven: bool  # that rows are independent, and that all on the way records itself

    def differentiate(self, outputs: Tensor, path: Sequence[Node]) -> dict[MultiIndex, Tensor]:
        """Compute the derivatives, channel by channel; `path` is what leads to `inputs`."""
        with _retained_gradients_kept(outputs, self.inputs):
            if not self.is_proven:
                check_formulas(path)
                check_rows(outputs, self.inputs, self.axes, path)
            partials = [self._partials(channel) for channel in self._channels(outputs)]
        return {
            index: _joined([known[index] for known in partials], outputs.shape)
            for index in self.orders
        }

    def _channels(self, outputs: Tensor) -> Sequence[Tensor]:
        rows = self.axes.batch.numel()
        return [outputs] if outputs.numel() == rows else outputs.reshape(rows, -1).unbind(-1)

    def _partials(self, channel: Tensor) -> dict[MultiIndex, Tensor]:
        """Differentiate one channel, which has a number per row, on the way to all orders."""
        steps = plan(self.orders)
        wanted = {*steps, *self.orders}
        known = {(0,) * self.axes.columns: channel}
        for index in steps:
            above = {successor(index, column): column for column in range(self.axes.columns)}
            is_recorded = self.create_graph or not above.keys().isdisjoint(steps)
            gradient = self._gradient(known[index], create_graph=is_recorded)
            if is_recorded and not self.is_proven:
                path = _autograd.nodes_between(known[index], self.inputs) or ()
                check_recorded(path, order=sum(index) + 1)
            for higher in above.keys() & wanted - known.keys():
                is_alone = self.axes.columns == 1
                known[higher] = gradient if is_alone else gradient.select(-1, above[higher])
        return known

    def _gradient(self, channel: Tensor, *, create_graph: bool) -> Tensor:
        """Differentiate each row; zeros where the graph of `channel` does not lead to inputs."""
        if not channel.requires_grad:
            return torch.zeros_like(self.inputs)
        gradients: tuple[Tensor | None, ...] = torch.autograd.grad(
            channel,
            self.inputs,
            torch.ones_like(channel),
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
        )
        return torch.zeros_like(self.inputs) if gradients[0] is None else gradients[0]


def _joined(channels: list[Tensor], shape: torch.Size) -> Tensor:
    """Lay channels side by side."""
    whole = channels[0] if len(channels) == 1 else torch.stack(channels, -1)
    return whole if whole.shape == shape else whole.reshape(shape)


@contextmanager
def _retained_gradients_kept(*tensors: Tensor) -> Iterator[None]:
    """Give results that retain their gradient the one back that they had, as passes add to it."""
    kept = [(tensor, tensor.grad) for tensor in tensors if tensor.retains_grad]
    try:
        yield
    finally:
        for tensor, gradient in kept:
            tensor.grad = gradient
