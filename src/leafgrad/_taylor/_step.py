"""One step of the walk: a node, and what it knows of the operation that it recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._taylor._jet import Jet
from leafgrad._taylor._refusal import Refusal
from leafgrad._taylor._series import Series

Result = Series | Jet | None | Sequence[Series | None]
Rule = Callable[..., Result]  # of a step and a series, or None, for each input


@dataclass(eq=False)
class Step:
    """A node on the path."""

    node: Node

    @property
    def name(self) -> str:
        """The name that PyTorch gives the node."""
        return _autograd.node_name(self.node)

    @property
    def shape(self) -> torch.Size:
        """The shape of the operation's first result."""
        return self.results[0].shape

    @cached_property
    def results(self) -> list[_autograd.TensorType]:
        """Shape, dtype and device of each result."""
        return _autograd.output_types(self.node)

    @cached_property
    def successors(self) -> _autograd.Successors:
        """The node and output that each input comes from."""
        return _autograd.next_functions(self.node)

    def saved(self, name: str) -> Any:
        """Give what the node saved, a tensor with its graph or an argument."""
        if _autograd.is_recomputed(self.node, name):
            raise Refusal("what it saved would be computed anew for each look, by checkpoint")
        return _autograd.kept(self.node, name)

    def tensor(self, name: str) -> Tensor:
        """Give a tensor that the node saved."""
        tensor = self.saved(name)
        if not isinstance(tensor, Tensor):
            raise Refusal(f"it did not save {name}")
        return tensor

    def jet(self, name: str, series: Series | None) -> Jet:
        """Give a tensor that the node saved, with its series."""
        return Jet(self.tensor(name), series)
