"""The rule of a kind of node, and the step of the walk that it is called with.

A rule gets the step and a series h_i ``[K, *shape of x_i]``, or None, for each input x_i of the
operation y = F(x_1, ...), and returns ``F(a + h) - F(a)``, ``[K, *shape of y]``, for the values a
that the node saved (see `propagate`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.taylor.dtypes import at_least, wider
from leafgrad._derivative.taylor.jet import Jet
from leafgrad._derivative.taylor.series import Series
from leafgrad._messages import message

Result = Series | Jet | None | Sequence[Series | None]
Propagate = Callable[..., Result]  # of a step and a series, or None, for each input


class Rule(NamedTuple):
    """How series pass through one kind of node, and what is known of the kind.

    Attributes:
        propagate: Computes the series of the results from those of the inputs.
        rowwise: Whether the kind is elementwise, whatever the node holds: each element of the
            result depends on the elements that broadcasting puts in its place.
        has_exact_type: Whether the series has the shape and dtype of the node's only result, so
            that neither is asked.
        is_for_complex: Whether it holds for complex numbers as well, as it does for what is linear
            or holomorphic.
    """

    propagate: Propagate
    rowwise: bool = False
    has_exact_type: bool = False
    is_for_complex: bool = False


def make_rules(table: Mapping[str, Propagate], **properties: bool) -> dict[str, Rule]:
    """Make the rules of kinds of nodes that have the same properties, by PyTorch's names."""
    return {name: Rule(propagate, **properties) for name, propagate in table.items()}


class Step(NamedTuple):
    """A node on the path."""

    node: Node
    successors: _autograd.Successors
    name: str
    dtype: torch.dtype  # of coefficients, which no value is less precise than
    is_in_backward: bool  # where a checkpoint lets each look happen once
    seen: dict[str, Any]  # what it saved, as far as it was asked for

    @property
    def results(self) -> Sequence[_autograd.TensorType]:
        """What the node knows of the tensors that its operation made."""
        return _autograd.output_types(self.node)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the operation's first result."""
        return tuple(self.results[0].shape)

    def saved(self, name: str) -> Any:
        """Return an argument of the operation that the node saved."""
        if name not in self.seen:
            self.seen[name] = self._usable(name, _autograd.kept(self.node, name))
        return self.seen[name]

    def tensor(self, name: str) -> Tensor:
        """Return a tensor ``[*shape]`` that the node saved, with its graph."""
        tensor: Tensor | None = self.seen.get(name)
        if tensor is None:
            look = _autograd.kept if self.is_in_backward else _autograd.kept_at_hand
            tensor = self.seen[name] = self._usable(name, look(self.node, name))
        return tensor

    def wide(self, dtype: torch.dtype) -> torch.dtype:
        """Return a dtype, made as precise as that of coefficients."""
        return wider(dtype, self.dtype)

    def _usable(self, name: str, value: Any) -> Any:
        """Return a tensor in the dtype of coefficients, where its own is less precise.

        Raise where its memory is gone, which kills the process that reads it.
        """
        if not isinstance(value, Tensor):
            return value
        if lack := _autograd.lacking_memory(value):
            words = {"node": self.name, "name": name, "lack": lack}
            raise RuntimeError(message("derivative.tensor.saved-memory", **words))
        if value.dtype == self.dtype or not (value.is_floating_point() or value.is_complex()):
            return value
        return at_least(value, self.dtype)

    def jet(self, name: str, series: Series | None) -> Jet:
        """Return a tensor that the node saved, ``[*shape]``, with its series ``[K, *shape]``."""
        return Jet(self.tensor(name), series and series.computed())

    def result_dim(self) -> int:
        """Return the saved axis of the operation's first result, counted from the end."""
        dim: int = self.saved("dim")
        return dim - len(self.shape) if dim >= 0 else dim

    def dims(self, x: Series) -> list[int]:
        """Return the saved axes of ``[K, *shape]``, counted from the end; none means all."""
        dims = self.saved("dim")
        dims = [dims] if isinstance(dims, int) else dims
        return [x.from_end(dim) for dim in dims or range(x.ndim)]
