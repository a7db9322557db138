"""What a recording writes down while code runs: numbers and code, never a tensor or a node."""

import os
from bisect import bisect_right
from pathlib import PurePath
from types import CodeType, FrameType
from typing import NamedTuple
from weakref import ReferenceType

import torch
from torch.autograd.function import FunctionCtx

from leafgrad import _autograd
from leafgrad._graph.nodes import Source, Write
from leafgrad._graph.summary import TensorSummary
from leafgrad._record.cut_tracker import Losses
from leafgrad._record.differentiable_passes import Passes
from leafgrad._record.leaf_uses import Uses
from leafgrad._record.module_paths import ModuleCall, OutermostModule, Roots, paths_of
from leafgrad._record.pruning import forget

Place = tuple[CodeType, int]

MOST = 100_000
MOST_CUTS = 500
"""How many entries of a kind a recording takes before it looks for what it may forget."""


class Given(NamedTuple):
    """A tensor that a call was given and that was not finite, which is not kept alive."""

    argument: str
    tensor: ReferenceType[torch.Tensor]


class Log:
    """Everything that one recording sees in its thread, as it comes.

    Attributes:
        spans: The numbers that the nodes of a call got, first and behind the last, and its place.
        modules: From which number on which module was running, None outside of all.
        outermost: The modules that no other one called.
        writes: Each write in place, and the identity of the storage.
        losses: What lost its graph.
        uses: Which leaves were used.
        passes: The backward passes that made nodes.
        values: What operations made, by the number of the node and of the output.
        given: Of each call that made what is not finite, though nothing such came to it from
            another node, the numbers that its nodes got, and what else it was given.
        numbered: Behind the last number that is accounted for.
        known: The places that were read already, by the identity of their code.
        most: How many entries of a kind there may be before some are forgotten.
        most_cuts: The same for what lost its graph, of which each may stand for many.
    """

    def __init__(self, number: int) -> None:
        """Start before the node with this number."""
        self.spans: list[tuple[int, int, Place | None]] = []
        self.modules: list[tuple[int, ModuleCall | None]] = []
        self.outermost: list[OutermostModule] = []
        self.writes: list[tuple[int, Write]] = []
        self.losses = Losses()
        self.uses = Uses()
        self.passes = Passes()
        self.values: dict[tuple[int, int], TensorSummary | None] = {}
        self.given: list[tuple[int, int, tuple[Given, ...]]] = []
        self.numbered = number
        self.known: dict[tuple[int, int], Source | None] = {}
        self.most = MOST
        self.most_cuts = MOST_CUTS

    def __bool__(self) -> bool:
        """Say whether anything was seen that tells where a node comes from."""
        return bool(self.spans or self.modules)

    def note_nodes(self, start: int, stop: int, frame: FrameType | None) -> None:
        """Note that a call from `frame` made nodes with these numbers.

        Numbers in between belong to custom functions, which nothing announces.
        """
        if self.numbered < start:
            self.spans.append((self.numbered, start, _caller_of_custom_function(frame)))
        if start < stop:
            self.spans.append((start, stop, place_of(frame)))
        self.numbered = stop
        if len(self.spans) > self.most:
            self.trim()

    def trim(self) -> None:
        """Forget what belongs to no living graph, once there is much that may.

        While a backward runs, gradients with a graph may be where Python does not see them.
        """
        is_small = self._size() <= self.most and len(self.losses.cuts) <= self.most_cuts
        if is_small or _autograd.is_backward_running():
            return
        forget(self)
        self.most = max(self.most, 2 * self._size())
        self.most_cuts = len(self.losses.cuts) + MOST_CUTS

    def _size(self) -> int:
        """Count what there is most of."""
        return max(
            len(self.spans),
            len(self.modules),
            len(self.writes),
            len(self.values),
            len(self.given),
            len(self.uses.known),
            len(self.uses.memory),
            len(self.losses.memory),
        )

    def sources(self) -> tuple[Source, ...]:
        """List the lines that made nodes, in the order in which they first did."""
        found = dict.fromkeys(self._source_at(place) for _, _, place in self.spans)
        return tuple(source for source in found if source is not None)

    def source_of(self, number: int) -> Source | None:
        """Tell which line made the node with this number."""
        after = bisect_right(self.spans, number, key=lambda span: span[0])
        start, stop, place = self.spans[after - 1] if after else (0, 0, None)
        return self._source_at(place) if start <= number < stop else None

    def _source_at(self, place: Place | None) -> Source | None:
        """Read a place once, however many nodes were made there.

        Code is known by its identity, as code that is the same in two files counts as equal.
        """
        if place is None:
            return None
        key = id(place[0]), place[1]
        if key not in self.known:
            self.known[key] = source_at(place)
        return self.known[key]

    def paths(self, roots: Roots) -> dict[int, str]:
        """Give the paths of all modules that ran, by the identities of their calls, in order."""
        calls = [call for _, call in self.modules if call is not None]
        return paths_of(calls, self.outermost, roots)

    def module_of(self, number: int) -> ModuleCall | None:
        """Tell which module was running when the node with this number was made."""
        after = bisect_right(self.modules, number, key=lambda event: event[0])
        return self.modules[after - 1][1] if after else None

    def given_to(self, number: int) -> tuple[Given, ...] | None:
        """Tell what was given to the call that made the node and that is not finite, if it did."""
        after = bisect_right(self.given, number, key=lambda call: call[0])
        start, stop, given = self.given[after - 1] if after else (0, 0, ())
        return given if start <= number < stop else None

    def writes_between(
        self, storage: int | None, saved: int | None, current: int | None
    ) -> tuple[Write, ...]:
        """List the writes that led from one version of a storage to another, the first one first.

        The search begins with the newest: an older storage may have had the same identity.
        """
        found: list[Write] = []
        if storage is None or saved is None or saved == current:
            return ()
        for written, write in reversed(self.writes):
            if written == storage and saved < write.version_after == current:
                found.append(write)
                current = write.version_before
        return tuple(reversed(found))


class _Skipped(dict[str, bool]):
    """Whether each file is none of the user's; every call asks for a dozen of them."""

    def __missing__(self, file: str) -> bool:
        return self.setdefault(file, file.startswith(_NOT_THE_USERS))


_skipped = _Skipped()
_NOT_THE_USERS = tuple(
    f"{folder}{os.sep}"
    for folder in (PurePath(torch.__file__).parent, PurePath(__file__).parents[1])
)


def place_of(frame: FrameType | None) -> Place | None:
    """Find the innermost place outside PyTorch and leafgrad; `source_at` reads it later."""
    while frame is not None:
        code = frame.f_code
        if not _skipped[code.co_filename]:
            return code, frame.f_lasti
        frame = frame.f_back
    return None


_APPLY = getattr(getattr(torch.autograd.Function.apply, "__func__", None), "__code__", None)


def _caller_of_custom_function(frame: FrameType | None) -> Place | None:
    """Find where a custom function that is running was called."""
    running = running_custom_function(frame)
    return None if running is None else place_of(running.f_back)


def running_custom_function(frame: FrameType | None) -> FrameType | None:
    """Find the frame of the innermost custom function that is running."""
    while frame is not None:
        if frame.f_code is _APPLY or _is_forward_with_ctx(frame):
            return frame
        frame = frame.f_back
    return None


def _is_forward_with_ctx(frame: FrameType) -> bool:
    """Say whether a custom function of the combined style runs in the frame, itself."""
    code = frame.f_code
    if code.co_name != "forward" or not code.co_argcount:
        return False
    return isinstance(frame.f_locals[code.co_varnames[0]], FunctionCtx)


def source_at(place: Place | None) -> Source | None:
    """Read file, line and function of a place."""
    if place is None:
        return None
    code, instruction = place
    lines = (line for start, stop, line in code.co_lines() if start <= instruction < stop)
    line = next(lines, None) or code.co_firstlineno
    return Source(file=code.co_filename, line=line, function=code.co_qualname)
