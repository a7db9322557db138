"""Match the axes of a tensor before and after `view`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

Shape = tuple[int, ...]


class Group(NamedTuple):
    """Neighbouring axes before and after a `view` that hold the same elements in the same order."""

    old: list[int]
    new: list[int]

    @property
    def is_one_axis(self) -> bool:
        """Whether the group consists of a single axis, both before and after the view."""
        return len(self.old) == len(self.new) == 1


def group_axes(old: Shape, new: Shape) -> Sequence[Group]:
    """Return the groups of axes of a `view` from the shape `old` to the shape `new`.

    Axes of size 1 are in no group.
    """
    try:
        return _group_axes(old, new)
    except TypeError:  # Symbolic sizes cannot be hashed.
        return _group_axes.__wrapped__(old, new)


@lru_cache(maxsize=1024)
def _group_axes(old: Shape, new: Shape) -> Sequence[Group]:
    before = [axis for axis, size in enumerate(old) if size != 1]
    after = [axis for axis, size in enumerate(new) if size != 1]
    groups = []
    while before:
        group = Group([before.pop(0)], [after.pop(0)])
        while (left := math.prod(old[axis] for axis in group.old)) != (
            right := math.prod(new[axis] for axis in group.new)
        ):
            if left < right:
                group.old.append(before.pop(0))
            else:
                group.new.append(after.pop(0))
        groups.append(group)
    return groups
