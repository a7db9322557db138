"""The Taylor rule of a kind of node, and the `Step` with which the walk calls it at a node.

A rule takes the step and, for each input x_i of the operation y = F(x_1, ...), a series h_i
``[K, *shape of x_i]`` or None for zero. It returns the series ``F(a + h) - F(a)``,
``[K, *shape of y]``, for the values a that the node saved (see `propagate`).
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
Propagate = Callable[..., Result]  # called with a step and, for each input, a series or None


class Rule(NamedTuple):
    """The Taylor rule of one kind of node, and properties of this kind.

    Attributes:
        propagate: Computes the series of the results from the series of the inputs.
        rowwise: Whether all nodes of this kind are elementwise: each element of the result depends
            only on the input elements that are broadcast to its position.
        has_exact_type: Whether the returned series always has the shape and dtype of the node's
            only result, so that neither needs a check.
        is_for_complex: Whether the rule is correct for complex numbers too, as rules of linear or
            holomorphic functions are.
    """

    propagate: Propagate
    rowwise: bool = False
    has_exact_type: bool = False
    is_for_complex: bool = False


def make_rules(table: Mapping[str, Propagate], **properties: bool) -> dict[str, Rule]:
    """Return a rule with these properties for each function in `table`, by node name."""
    return {name: Rule(propagate, **properties) for name, propagate in table.items()}


class Step(NamedTuple):
    """A node on the path, with the methods that a rule needs to read what it saved."""

    node: Node
    successors: _autograd.Successors
    name: str
    dtype: torch.dtype  # The dtype of the coefficients. All values are at least this precise.
    is_in_backward: bool  # In a backward pass, a checkpoint unpacks each saved tensor only once.
    seen: dict[str, Any]  # a cache of the saved arguments that were read

    @property
    def results(self) -> Sequence[_autograd.TensorType]:
        """The shape and dtype of each result of the operation."""
        return _autograd.output_types(self.node)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the operation's first result."""
        return tuple(self.results[0].shape)

    def saved(self, name: str) -> Any:
        """Return the argument of the operation that the node saved under `name`."""
        if name not in self.seen:
            self.seen[name] = self._usable(name, _autograd.kept(self.node, name))
        return self.seen[name]

    def tensor(self, name: str) -> Tensor:
        """Return the tensor ``[*shape]`` that the node saved under `name`, with its graph."""
        tensor: Tensor | None = self.seen.get(name)
        if tensor is None:
            look = _autograd.kept if self.is_in_backward else _autograd.kept_at_hand
            tensor = self.seen[name] = self._usable(name, look(self.node, name))
        return tensor

    def wide(self, dtype: torch.dtype) -> torch.dtype:
        """Return `dtype`, or a wider dtype with at least the precision of the coefficients."""
        return wider(dtype, self.dtype)

    def _usable(self, name: str, value: Any) -> Any:
        """Convert a saved tensor to at least the precision of the coefficients.

        Other values are returned unchanged. Raise an error if the tensor's memory is gone, because
        reading it would crash the process.
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
        """Return a jet of the tensor ``[*shape]`` saved under `name`, with this series."""
        return Jet(self.tensor(name), series and series.computed())

    def result_dim(self) -> int:
        """Return the saved axis as a negative number. It is an axis of the first result."""
        dim: int = self.saved("dim")
        return dim - len(self.shape) if dim >= 0 else dim

    def dims(self, x: Series) -> list[int]:
        """Return the axes of `x` that the node saved, as negative numbers.

        If it saved None, return all axes.
        """
        dims = self.saved("dim")
        dims = [dims] if isinstance(dims, int) else dims
        return [x.from_end(dim) for dim in dims or range(x.ndim)]
