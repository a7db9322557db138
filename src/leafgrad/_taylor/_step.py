"""One step of the walk: a node, and what it knows of the operation that it recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._taylor._jet import Jet
from leafgrad._taylor._refusal import Refusal
from leafgrad._taylor._series import Series

Result = Series | Jet | None | Sequence[Series | None]
Rule = Callable[..., Result]  # of a step and a series, or None, for each input


class Step:
    """A node on the path."""

    __slots__ = ("name", "node", "results", "successors")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name = _autograd.node_name(node)
        self.results = _autograd.output_types(node)
        self.successors = _autograd.next_functions(node)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the operation's first result."""
        return tuple(self.results[0].shape)

    def saved(self, name: str) -> Any:
        """Give an argument of the operation that the node saved."""
        return _autograd.kept(self.node, name)

    def tensor(self, name: str) -> Tensor:
        """Give a tensor that the node saved, with its graph."""
        if _autograd.is_recomputed(self.node, name):
            raise Refusal("what it saved would be computed anew for each look, by checkpoint")
        tensor: Tensor = _autograd.kept(self.node, name)
        return tensor

    def jet(self, name: str, series: Series | None) -> Jet:
        """Give a tensor that the node saved, with its series."""
        return Jet(self.tensor(name), series)

    def dims(self, x: Series) -> list[int]:
        """Give the saved axes, counted from the end; none means all."""
        dims = self.saved("dim")
        dims = [dims] if isinstance(dims, int) else dims
        return [x.from_end(dim) for dim in dims or range(x.ndim)]
