"""What a recording knows of the paths between tensors and the outputs."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from torch import Tensor

from leafgrad import _autograd
from leafgrad._arguments.outputs import Output, gradient_edges
from leafgrad._graph.nodes import Source
from leafgrad._record.cut import Cut
from leafgrad._record.leaf_uses import LeafUse
from leafgrad._record.log import Log


class Use(NamedTuple):
    """A call that read a tensor, and whether the tensor required grad then."""

    operation: str
    source: Source | None
    required_grad: bool


class Paths:
    """Answers questions about paths by value; call its methods while nothing observes."""

    def __init__(self, outputs: Sequence[Output], log: Log) -> None:
        """Ask about paths to these outputs."""
        self.outputs = [end for end in outputs if isinstance(end, Tensor)]
        self.log = log
        self.graph = _autograd.walk([node for node, _ in gradient_edges(outputs)])

    def cuts(self, tensor: Tensor) -> tuple[Cut, ...]:
        """Return where the paths from a tensor to the outputs stop being differentiable."""
        tracker = self.log.cuts
        behind = tracker.structure.depend_on(tensor)
        is_lost = all(_autograd.leaf_variable(node) is not None for node in self.graph)
        candidates = self._behind_outputs or (tracker.left if is_lost else ())
        found = [one for one in candidates if not behind.isdisjoint(tracker.entries[one][1])]
        return tracker.nearest(found, behind) if found else ()

    def cuts_before(self, tensor: Tensor) -> tuple[Cut, ...]:
        """Return the cuts that a tensor without a graph comes from."""
        return self.log.cuts.nearest(self._indices(tensor))

    def exits(self, tensor: Tensor) -> tuple[Cut, ...]:
        """Return where values of a tensor left PyTorch."""
        tracker = self.log.cuts
        behind = tracker.structure.depend_on(tensor)
        left = [one for one in tracker.left if not behind.isdisjoint(tracker.entries[one][1])]
        return tracker.cuts_at([min(left)] if left else [])

    def first_use(self, tensor: Tensor) -> Use | None:
        """Return the first call that read a leaf."""
        return self._use(self.log.uses.of(tensor))

    def shared_use(self, tensor: Tensor) -> Use | None:
        """Return a use of another leaf in the same memory that the outputs depend on."""
        return self._use(self.log.uses.through_shared_memory(tensor, self.numbers))

    def _use(self, found: LeafUse | None) -> Use | None:
        if found is None:
            return None
        return Use(found.operation, self.log.source_at(found.place), found.required_grad)

    def derivative(self, tensor: Tensor) -> int | None:
        """Return a node of a derivative of something that depends on a tensor."""
        behind = self.log.cuts.structure.depend_on(tensor)
        return self.log.passes.of_what_depends(self.numbers, behind)

    def lossy_function(self, tensor: Tensor) -> int | None:
        """Return a custom function on the way that may have lost a part of its derivative."""
        behind = self.log.cuts.structure.depend_on(tensor)
        return min(behind & self.log.passes.custom_functions.keys(), default=None)

    @cached_property
    def numbers(self) -> dict[int, None]:
        """The sequence numbers of the nodes, in order; leaves have none."""
        numbers = map(_autograd.sequence_nr, self.graph)
        return dict.fromkeys(number for number in numbers if number is not None)

    @cached_property
    def _behind_outputs(self) -> frozenset[int]:
        return frozenset[int]().union(*map(self._indices, self.outputs))

    def _indices(self, tensor: Tensor) -> frozenset[int]:
        """Return the cuts behind a tensor, also by memory that it shares with others."""
        return self.log.cuts.cuts_behind(tensor) or self.log.cuts.cuts_of_memory(tensor)
