"""The data of a recording: sequence numbers and code objects. It keeps no tensor alive."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from leafgrad import _autograd
from leafgrad._graph.nodes import Source, Write
from leafgrad._graph.summary import NotFinite, TensorSummary, summary_of
from leafgrad._record.flow import SUBTRACTIONS, Cut, CutKind, Flow, State
from leafgrad._record.module_paths import ModuleCall, OutermostModule, Roots, paths_of
from leafgrad._record.place import Place, place_of, source_at, switch_of
from leafgrad._record.tape import Call, Tape, WriteOnTape, find_call
from leafgrad._record.torch_functions import tensors_in
from leafgrad._record.training_events import TrainingEvents

MAX_ENTRIES = 300_000
"""The maximum number of entries of each kind, such as calls: about half a gigabyte."""


class Birth(NamedTuple):
    """The call that produced the NaN or infinity in a tensor without a graph."""

    operation: str
    place: Place | None
    kind: NotFinite


class Given(NamedTuple):
    """A tensor argument of a call, as a weak reference.

    Attributes:
        argument: The name of the argument.
        tensor: A weak reference to the tensor.
        birth: The call that made it non-finite, if that call created no node.
    """

    argument: str
    tensor: Callable[[], torch.Tensor | None]
    birth: Birth | None = None


class Pass(NamedTuple):
    """A backward pass that ran.

    Attributes:
        number: The next sequence number when the pass began.
        place: The line that called it.
        call: The kind of call: ``"backward()"``, ``"backward(inputs=...)"`` or
            ``"torch.autograd.grad()"``.
        roots: The numbers of the outputs at which it began.
        frees: Whether it freed its graph.
    """

    number: int
    place: Place | None
    call: str
    roots: frozenset[int | None]
    frees: bool


class Log:
    """Everything that one recording collects in its thread.

    Attributes:
        tape: The calls of PyTorch functions.
        modules: Pairs of a sequence number and the module that runs from there on, in order. The
            module is None where none runs.
        outermost: The modules that no other module called.
        backwards: The last backward pass of each line, by the line and whether it freed its graph.
        training: The order of optimizer steps and of resets of gradients.
        finish_step: A function that records the writes of an optimizer step that has begun.
        has_failed: Whether the last backward pass raised an error.
        switches: What disabled gradients, and where; the innermost last.
        values: Summaries of results, by the number of the node and the index of its output.
        refusals: The places of calls without a derivative formula. Their nodes have no number, so
            the keys are the numbers of their successors.
        inputs: The argument name of each tensor passed to an outermost module. The tensors are weak
            keys.
        given: The non-finite arguments of calls whose result is non-finite although no recorded
            input was, by the number of the first node of the call.
        births: The call that made each non-finite tensor without a graph, or None. The tensors are
            weak keys.
        contents: Summaries of tensors that share memory with arrays, each with the next sequence
            number at that time, by place in memory. They come with a reference to the storage, so
            that no other storage gets the same place.
        sources_by_place: A cache of source lines, by the identity of the code. It holds the code
            objects, so that no identity is used twice.
        max_entries: The maximum number of entries of each kind.
        is_full: Whether the entries were dropped because there were too many.
    """

    def __init__(self, number: int) -> None:
        """Start an empty log; `number` is the sequence number of the next node."""
        self.tape: Tape = Tape(number)
        self.modules: list[tuple[int, ModuleCall | None]] = []
        self.outermost: list[OutermostModule] = []
        self.backwards: dict[tuple[Source | None, bool], Pass] = {}
        self.finish_step: Callable[[], None] = lambda: None
        self.has_failed: bool = False
        self.training: TrainingEvents = TrainingEvents()
        self.switches: list[tuple[str | None, Place | None]] = []
        self.values: dict[tuple[int, int], TensorSummary | None] = {}
        self.refusals: dict[tuple[int, ...], Place | None] = {}
        self.inputs: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self.given: dict[int, tuple[Given, ...]] = {}
        self.births: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self.contents: dict[object, tuple[object, list[tuple[int, TensorSummary | None]]]] = {}
        self.sources_by_place: dict[tuple[object, ...], tuple[Place, Source | None]] = {}
        self.max_entries: int = MAX_ENTRIES
        self.is_full: bool = False
        self._flow: tuple[object, Flow] | None = None

    def __bool__(self) -> bool:
        """Return whether the log knows the line or module of any node."""
        return bool(self.spans or self.modules)

    @property
    def spans(self) -> list[Call]:
        """The recorded calls that created graph nodes."""
        return [call for call in self.tape.calls if call.start < call.stop]

    @property
    def flow(self) -> Flow:
        """The data flow between the calls so far."""
        calls = self.tape.calls
        key = len(calls), id(calls[-1]) if calls else 0
        if self._flow is None or self._flow[0] != key:
            self._flow = key, Flow(self.tape)
        return self._flow[1]

    def note_content(self, number: int, tensor: torch.Tensor) -> None:
        """Store a summary of a tensor that shares memory with an array, if its values changed.

        `number` is the sequence number of the next node.
        """
        found = summary_of(_autograd.as_row(tensor))
        new = _autograd.storage_reference(tensor), [(number, found)]
        _, contents = self.contents.setdefault(_autograd.place_in_memory(tensor), new)
        contents += [] if contents[-1][1] == found else [(number, found)]

    def has_changed(self, number: int, tensor: torch.Tensor) -> bool:
        """Check whether the values of an array have changed since a node used them.

        `number` is the sequence number of the node. `tensor` shares its memory with the array.
        """
        _, contents = self.contents.get(_autograd.place_in_memory(tensor), (None, []))
        before = bisect_right(contents, number, key=itemgetter(0))
        known = contents[max(before - 1, 0)][1] if contents else None
        return bool(contents) and known != summary_of(_autograd.as_row(tensor))

    def drop_if_large(self) -> None:
        """Drop all entries, and mark the log as full, once there are too many of a kind."""
        kinds: list[Any] = [self.tape.calls, self.modules, self.inputs, self.contents]
        if max(map(len, kinds)) > self.max_entries:
            self.is_full = True
            kinds += [self.tape.values, self.values, self.given, self.births, self.sources_by_place]
            for kind in kinds:
                kind.clear()

    def note_backward(self, one: Pass) -> None:
        """Record the backward pass `one`, which ran without an error."""
        self.has_failed = False
        self.training.note_backward(one.place)
        self.backwards[self.source_at(one.place), one.frees] = one

    def backwards_after(self, number: int) -> list[Pass]:
        """Return the backward passes that freed their graph after a node was created, in order.

        `number` is the sequence number of the node.
        """
        later = [one for one in self.backwards.values() if one.frees and one.number > number]
        return sorted(later, key=itemgetter(0))

    def has_run_before(self, source: Source | None, number: int) -> bool:
        """Check whether a line of code had created a node before the node `number` was created.

        `number` is a sequence number.
        """
        return any(
            self.source_at(call.place) == source for call in self.spans if call.start < number
        )

    def note_switch(self, frame: FrameType | None, *, is_on: bool) -> None:
        """Record the line that disabled gradients, or remove it when its block ends.

        `frame` is the frame that changed the setting, and `is_on` whether gradients are enabled
        now. Nested `no_grad()` blocks change nothing: the outer one counts.
        """
        name, is_end = switch_of(frame)
        if is_end and is_on:
            del self.switches[-1:]
        elif not is_end and not is_on and torch.is_grad_enabled():
            self.switches.append((name, place_of(frame) if name else None))

    def sources(self) -> tuple[Source, ...]:
        """Return the lines that created nodes, in the order of their first node."""
        found = dict.fromkeys(self.source_at(call.place) for call in self.spans)
        return tuple(source for source in found if source is not None)

    def source_of(self, number: int) -> Source | None:
        """Return the line that created the node with this sequence number; None if unknown."""
        call = find_call(self.tape.calls, number)
        return None if call is None else self.source_at(call.place)

    def source_at(self, place: Place | None) -> Source | None:
        """Return the source line of a place in the code, from a cache if it was read before.

        Both are None if the line is unknown.
        """
        if place is None:
            return None
        code, instruction, library = place
        key = id(code), instruction, library and (id(library[0]), library[1])
        if key not in self.sources_by_place:
            self.sources_by_place[key] = place, source_at(place)
        return self.sources_by_place[key][1]

    def paths(self, roots: Roots) -> dict[int, str]:
        """Return the path of each module call, by the `id` of the call, in order.

        `roots` are the modules that the user named.
        """
        calls = [call for _, call in self.modules if call is not None]
        return paths_of(calls, self.outermost, roots)

    def module_of(self, number: int) -> ModuleCall | None:
        """Return the innermost module that ran when the node with this sequence number was created.

        Return None if no module ran.
        """
        after = bisect_right(self.modules, number, key=lambda event: event[0])
        return self.modules[after - 1][1] if after else None

    def note_inputs(self, arguments: Mapping[str, object]) -> None:
        """Store the tensors among the named arguments of an outermost module."""
        for argument, given in arguments.items():
            self.inputs.update(dict.fromkeys(tensors_in((given,)), argument))

    def given_tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield each living tensor argument of an outermost module, with the argument name."""
        return ((argument, tensor) for tensor, argument in self.inputs.items())

    def replaced_leaves(self) -> Iterator[tuple[torch.Tensor, int]]:
        """Yield each living tensor whose ``.data`` was assigned.

        With it comes the next sequence number after the assignment.
        """
        calls = (call for call in self.tape.calls if call.name == ".data =")
        pairs = ((value(), call.stop) for call in calls for value in call.outputs)
        return ((tensor, number) for tensor, number in pairs if tensor is not None)

    def given_to(self, number: int) -> tuple[Given, ...] | None:
        """Return the non-finite arguments of the call that created a node with a non-finite result.

        `number` is the sequence number of the node. For any other node, return None.
        """
        call = find_call(self.tape.calls, number)
        return None if call is None else self.given.get(call.start)

    def writes_between(
        self, storage: int | None, saved: int | None, current: int | None
    ) -> tuple[Write, ...]:
        """Return the writes between two versions of a storage, the oldest first.

        The search goes backwards: an older storage may have had the same identity. `saved` and
        `current` are the versions; None if unknown, which returns no writes.
        """
        found: list[Write] = []
        for call, one in self.flow.writes.get(storage or 0, ())[::-1]:
            if saved is not None and saved < one.version_after == current:
                found.append(self.write_of(call, one))
                current = one.version_before
        return tuple(reversed(found))

    def last_write(
        self, storage: int | None, *, is_hidden: bool = False
    ) -> tuple[int, Write | None]:
        """Return the newest write into a storage, and the next sequence number at that time.

        With `is_hidden`, look for writes through ``.data``, which autograd does not count. The
        write is None if there was none.
        """
        return next(
            (
                (call.stop, self.write_of(call, one))
                for call, one in self.flow.writes.get(storage or 0, ())[::-1]
                if (one.value in self.flow.data) == is_hidden
            ),
            (0, None),
        )

    @property
    def writes(self) -> list[Write]:
        """All in-place writes, in order."""
        return [self.write_of(call, one) for call in self.tape.calls for one in call.writes]

    def write_of(self, call: Call, write: WriteOnTape) -> Write:
        """Return a recorded write as a `Write`, with its source line."""
        return Write(
            operation=call.name,
            version_before=write.version_before,
            version_after=write.version_after,
            through_view=write.through_view,
            source=self.source_at(call.place),
            within=None if call.site is None else call.site.within,
        )

    def cut_of(self, state: State) -> Cut:
        """Return a state that lost a graph as a `Cut`, with its source lines.

        A state is the content of a tensor between two writes.
        """
        call = state.call
        if call is None or call.site is None or state.kind is None:
            raise ValueError("the state lost no graph")
        site, kind = call.site, state.kind
        lost = [self.flow.states[number].call for number in state.lost]
        switch, place = site.switch if kind is CutKind.NO_GRAD else (None, None)
        return Cut(
            kind=CutKind.NOT_DIFFERENTIABLE if site.is_in_custom_function else kind,
            operation=site.within or site.function or call.name,
            source=self.source_at(site.place),
            switch=switch,
            switch_source=self.source_at(place),
            is_difference=kind is CutKind.DETACHED
            and any(one is not None and one.name in SUBTRACTIONS for one in lost),
        )
