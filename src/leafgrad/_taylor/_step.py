"""One step of the walk: a node, and what it knows of the operation that it recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._taylor._jet import Jet
from leafgrad._taylor._refusal import Recomputation
from leafgrad._taylor._series import Series

Result = Series | Jet | None | Sequence[Series | None]
Rule = Callable[..., Result]  # of a step and a series, or None, for each input


class Step:
    """A node on the path."""

    __slots__ = ("first", "is_in_backward", "name", "node", "results", "seen", "successors")

    def __init__(
        self,
        node: Node,
        successors: _autograd.Successors,
        *,
        first: int = 0,
        is_in_backward: bool = False,
    ) -> None:
        self.node = node
        self.first = first  # no index of its result before this one is asked for
        self.successors = successors
        self.is_in_backward = is_in_backward  # where a checkpoint lets each look happen once
        self.seen: dict[str, Any] = {}
        self.name = _autograd.node_name(node)
        self.results = _autograd.output_types(node)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the operation's first result."""
        return tuple(self.results[0].shape)

    def saved(self, name: str) -> Any:
        """Give an argument of the operation that the node saved."""
        if name not in self.seen:
            self.seen[name] = _autograd.kept(self.node, name)
        return self.seen[name]

    def tensor(self, name: str) -> Tensor:
        """Give a tensor that the node saved, with its graph."""
        if not self.is_in_backward and _autograd.is_recomputed(self.node, name):
            raise Recomputation
        tensor: Tensor = self.saved(name)
        return tensor

    def jet(self, name: str, series: Series | None) -> Jet:
        """Give a tensor that the node saved, with its series."""
        return Jet(self.tensor(name), series and series.computed())

    def dims(self, x: Series) -> list[int]:
        """Give the saved axes, counted from the end; none means all."""
        dims = self.saved("dim")
        dims = [dims] if isinstance(dims, int) else dims
        return [x.from_end(dim) for dim in dims or range(x.ndim)]
