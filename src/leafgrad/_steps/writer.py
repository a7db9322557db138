"""The numbers that appear in the boxes of a picture, step by step."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from leafgrad._graph.nodes import value_text
from leafgrad._messages import message
from leafgrad._picture.box import Box, View
from leafgrad._picture.box_text import Line, arriving_lines, leaf_gradient_lines, number_lines
from leafgrad._steps.step import Writing
from leafgrad._steps.visits import Visit, Visits

Waiting = tuple[Line, frozenset[int]]
"""A line, and the leaves whose gradients must be complete before it is known."""

AT_ONCE = frozenset[int]()


class Writer:
    """Writes the numbers into the boxes of a picture as soon as a pass has computed them."""

    def __init__(self, visits: Visits, view: View) -> None:
        """Find the lines of each box, and the boxes that show each leaf."""
        leaves = visits.complete_leaves
        self.complete = {visit: {leaf.index for leaf in leaves[visit]} for visit in visits.backward}
        self.missing = set[int]().union(*self.complete.values())
        self.lines = [[*_lines(box)] for box in view.boxes]
        self.seen = defaultdict[int, list[int]](list)
        self.holders = defaultdict[int, set[int]](set)
        for index, box in enumerate(view.boxes):
            for leaf in _leaves(box):
                self.holders[leaf].add(index)

    def values(self, visit: Visit) -> Iterator[Writing]:
        """Yield the values in a box."""
        for number, (line, _) in enumerate(self.lines[visit.box_index]):
            if line.style == "value":
                yield visit.box_index, number, line.text

    def gradients(self, visit: Visit) -> Iterator[Writing]:
        """Yield the gradients in a box, and in other boxes those of leaves now complete."""
        here = visit.box_index
        self.seen[here].append(visit.copy)
        self.missing -= self.complete[visit]
        so_far = replace(visit.box, alike=tuple(visit.box.alike[n] for n in self.seen[here]))
        boxes = {here}.union(*(self.holders[leaf] for leaf in self.complete[visit]))
        for box in sorted(boxes):
            for number, (line, waits) in enumerate(self.lines[box]):
                if line.style == "value" or waits & self.missing:
                    continue
                if waits:
                    yield box, number, line.text
                elif box == here:
                    by_now = [line] if visit.box.name is None else arriving_lines(so_far)
                    yield from ((box, number, current.text) for current in by_now)


def _lines(box: Box) -> Iterator[Waiting]:
    """Yield the numbers in a box, in the order of its lines."""
    if box.name is not None:
        if box.copies == 1 and (value := value_text(box.node)) is not None:
            yield Line(text=message("box.value", value=value), style="value"), AT_ONCE
        yield from ((line, AT_ONCE) for line in arriving_lines(box))
        yield from ((line, _leaves(box)) for line in leaf_gradient_lines(box))
    elif box.copies == 1 and box.input is None:
        yield from ((line, AT_ONCE) for line in number_lines(box.node))
        for leaf in box.leaves:
            yield from ((line, frozenset({leaf.node.index})) for line in number_lines(leaf.node))


def _leaves(box: Box) -> frozenset[int]:
    return frozenset(leaf.index for folded in box.leaves for leaf in folded.alike)
