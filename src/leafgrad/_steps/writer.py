"""What is written into the boxes of a picture as a backward comes to them."""

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
    """Writes the numbers of a picture as far as they are known by then."""

    def __init__(self, visits: Visits, view: View) -> None:
        """Find the lines of each box, and the boxes that each leaf is shown in."""
        self.complete = {v: {leaf.index for leaf in visits.complete[v]} for v in visits.backward}
        self.missing = set[int]().union(*self.complete.values())
        self.lines = [[*_lines(box)] for box in view.boxes]
        self.seen = defaultdict[int, list[int]](list)
        self.holders = defaultdict[int, set[int]](set)
        for place, box in enumerate(view.boxes):
            for leaf in _leaves(box):
                self.holders[leaf].add(place)

    def values(self, visit: Visit) -> Iterator[Writing]:
        """Yield what a box says of its values."""
        for number, (line, _) in enumerate(self.lines[visit.place]):
            if line.style == "value":
                yield visit.place, number, line.text

    def gradients(self, visit: Visit) -> Iterator[Writing]:
        """Yield what a box says of its gradients, and what others say of leaves now complete."""
        self.seen[visit.place].append(visit.copy)
        self.missing -= self.complete[visit]
        so_far = replace(visit.box, alike=tuple(visit.box.alike[n] for n in self.seen[visit.place]))
        places = {visit.place}.union(*(self.holders[leaf] for leaf in self.complete[visit]))
        for place in sorted(places):
            for number, (line, waits) in enumerate(self.lines[place]):
                if line.style == "value" or waits & self.missing:
                    continue
                if waits:
                    yield place, number, line.text
                elif place == visit.place:
                    known = line if visit.box.name is None else next(arriving_lines(so_far), None)
                    yield from ((place, number, one.text) for one in (known,) if one is not None)


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
    return frozenset(leaf.index for one in box.leaves for leaf in one.alike)
