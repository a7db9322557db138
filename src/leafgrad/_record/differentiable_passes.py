"""Which derivative a node belongs to, by the backward passes that a recording saw."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from torch import Tensor

from leafgrad import _autograd
from leafgrad._arguments.outputs import Output, gradient_edges
from leafgrad._record.pruning import nearest_living
from leafgrad._record.spans import find_span, living_spans


class DifferentiablePasses:
    """The backward passes that recorded a graph of their own, oldest first.

    Attributes:
        spans: The numbers that the nodes of a pass got, first and behind the last, and the order of
            the derivative that it computed.
        sources: The numbers of what each pass came from, by the first number of its nodes.
        custom_functions: By their numbers, the custom functions that were differentiated and keep
            something: their names, and whether it has no graph.
    """

    def __init__(self) -> None:
        """Start before the first pass."""
        self.spans: list[tuple[int, int, int]] = []
        self.sources: dict[int, frozenset[int]] = {}
        self.custom_functions: dict[int, tuple[str, bool]] = {}

    def note(
        self, start: int, stop: int, outputs: object, structure: _autograd.GraphStructure
    ) -> None:
        """Note a pass from `outputs`: one order above the highest that went into them.

        Only those of PyTorch's own types have a graph to look at.
        """
        ends = outputs if isinstance(outputs, list | tuple) else (outputs,)
        edges = gradient_edges([end for end in ends if isinstance(end, Output)])
        tensors = [end for end in ends if isinstance(end, Tensor)]
        self.sources[start] = frozenset(map(structure.add, tensors))
        graph = _autograd.walk(node for node, _ in edges)
        numbers = {_autograd.sequence_nr(node): node for node in graph}
        for number, node in numbers.items():
            kept = None if number is None else _autograd.keeps_without_graph(node)
            if number is not None and kept is not None:
                self.custom_functions[number] = _autograd.node_name(node), kept
        below = map(self._order_of, numbers)
        self.spans.append((start, stop, max(below, default=0) + 1))

    def of_what_depends(self, numbers: Iterable[int], behind: Collection[int]) -> int | None:
        """Return a node that a pass made which came from something that depends on a tensor.

        Nodes are given by their numbers, and what depends on it is `behind`.
        """
        for number in numbers:
            span = find_span(self.spans, number)
            if span is not None and not self.sources[span[0]].isdisjoint(behind):
                return number
        return None

    def orders(
        self, numbers: Sequence[int | None], targets: Sequence[Sequence[int | None]]
    ) -> list[int]:
        """Return for each node the highest order of derivative that its result is made of.

        Nodes are given by their numbers and the places of their successors, which come after them.
        """
        orders = [*map(self._order_of, numbers)]
        for place in reversed(range(len(orders))):
            for target in targets[place]:
                if target is not None:
                    orders[place] = max(orders[place], orders[target])
        return orders

    def _order_of(self, number: int | None) -> int:
        if number is None:
            return 0
        span = find_span(self.spans, number)
        return 0 if span is None else span[2]

    def prune(
        self,
        numbers: Sequence[int],
        successors: Mapping[int, Iterable[int]],
        living: Collection[int],
    ) -> None:
        """Drop the passes of which no node lives, by the sorted numbers of those that do.

        What the others came from is taken for the nearest of it that lives.
        """
        self.spans[:] = living_spans(self.spans, numbers)
        for number in self.custom_functions.keys() - successors.keys():
            del self.custom_functions[number]
        self.sources = {
            start: nearest_living(self.sources[start], successors, living)
            for start, _, _ in self.spans
        }
