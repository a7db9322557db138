"""What a recording writes down while code runs: numbers and code, never a tensor or a node."""

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
"""How many entries of a kind a recording takes, such as calls: half a gigabyte of memory."""


class Birth(NamedTuple):
    """The call that made a tensor without a graph not finite, of numbers that were better."""

    operation: str
    place: Place | None
    kind: NotFinite


class Given(NamedTuple):
    """A tensor that a call was given, which is not kept alive.

    Attributes:
        argument: Which argument it was.
        tensor: The tensor.
        birth: Where it became not finite, if a call made it so that left no node.
    """

    argument: str
    tensor: Callable[[], torch.Tensor | None]
    birth: Birth | None = None


class Pass(NamedTuple):
    """A backward.

    Attributes:
        number: The next number of a node when it began.
        place: The line that called it.
        call: How it was called: ``"backward()"``, ``"backward(inputs=...)"`` or
            ``"torch.autograd.grad()"``.
        roots: The numbers of the outputs that it began at.
        frees: Whether it frees its graph.
    """

    number: int
    place: Place | None
    call: str
    roots: frozenset[int | None]
    frees: bool


class Log:
    """Everything that one recording sees in its thread, as it comes.

    Attributes:
        tape: The calls of PyTorch functions.
        modules: From which number on which module was running, None outside of all.
        outermost: The modules that no other one called.
        backwards: Each line's last backward, by the line and whether it freed its graph.
        training: In which order optimizers stepped and gradients were set to zero.
        finish_step: Notes what a step of an optimizer wrote, if one has begun.
        has_failed: Whether the last backward raised an error.
        switches: What has switched gradients off, and where, the innermost one last.
        values: What operations made, by the number of the node and of the output.
        refusals: The places of calls whose results have a node that refuses its backward and has no
            number, by the numbers of what it leads to.
        inputs: The arguments of the outermost modules, by the tensors, which are not kept alive.
        given: The calls that made what is not finite, though no other node handed them such: by
            the number of the first node, which other arguments were not finite.
        births: Where a living tensor without a graph became not finite, None where that was not
            seen.
        contents: What the memory of arrays held each time that a call read it, with the number of
            the next node, by its place; and a reference to the storage, so that no other gets it.
        sources_by_place: The places that were read already, by the identity of their code, which is
            kept alive so that no other code gets it.
        max_entries: How many entries of a kind there may be.
        is_full: Whether there were more, so that they were dropped.
    """

    def __init__(self, number: int) -> None:
        """Start before the node with this number."""
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
        """Return whether anything was seen that tells where a node comes from."""
        return bool(self.spans or self.modules)

    @property
    def spans(self) -> list[Call]:
        """The calls that made nodes."""
        return [call for call in self.tape.calls if call.start < call.stop]

    @property
    def flow(self) -> Flow:
        """The flow of values through the calls so far."""
        calls = self.tape.calls
        key = len(calls), id(calls[-1]) if calls else 0
        if self._flow is None or self._flow[0] != key:
            self._flow = key, Flow(self.tape)
        return self._flow[1]

    def note_content(self, number: int, tensor: torch.Tensor) -> None:
        """Note what a tensor holds before the node with a number is made."""
        found = summary_of(_autograd.as_row(tensor))
        new = _autograd.storage_reference(tensor), [(number, found)]
        _, contents = self.contents.setdefault(_autograd.place_in_memory(tensor), new)
        contents += [] if contents[-1][1] == found else [(number, found)]

    def has_changed(self, number: int, tensor: torch.Tensor) -> bool:
        """Return whether memory of an array holds something else than when a node used it."""
        _, contents = self.contents.get(_autograd.place_in_memory(tensor), (None, []))
        before = bisect_right(contents, number, key=itemgetter(0))
        known = contents[max(before - 1, 0)][1] if contents else None
        return bool(contents) and known != summary_of(_autograd.as_row(tensor))

    def drop_if_large(self) -> None:
        """Drop what was written down once there is too much of it."""
        kinds: list[Any] = [self.tape.calls, self.modules, self.inputs, self.contents]
        if max(map(len, kinds)) > self.max_entries:
            self.is_full = True
            kinds += [self.tape.values, self.values, self.given, self.births, self.sources_by_place]
            for kind in kinds:
                kind.clear()

    def note_backward(self, one: Pass) -> None:
        """Note a backward that ran."""
        self.has_failed = False
        self.training.note_backward(one.place)
        self.backwards[self.source_at(one.place), one.frees] = one

    def backwards_after(self, number: int) -> list[Pass]:
        """Return the passes that freed their graph since a node got its number, in order."""
        later = [one for one in self.backwards.values() if one.frees and one.number > number]
        return sorted(later, key=itemgetter(0))

    def has_run_before(self, source: Source | None, number: int) -> bool:
        """Return whether a line made a node before the one with this number."""
        return any(
            self.source_at(call.place) == source for call in self.spans if call.start < number
        )

    def note_switch(self, frame: FrameType | None, *, is_on: bool) -> None:
        """Note what switches gradients off, until its block ends.

        What is off already is not switched off again.
        """
        name, is_end = switch_of(frame)
        if is_end and is_on:
            del self.switches[-1:]
        elif not is_end and not is_on and torch.is_grad_enabled():
            self.switches.append((name, place_of(frame) if name else None))

    def sources(self) -> tuple[Source, ...]:
        """Return the lines that made nodes, in the order in which they first did."""
        found = dict.fromkeys(self.source_at(call.place) for call in self.spans)
        return tuple(source for source in found if source is not None)

    def source_of(self, number: int) -> Source | None:
        """Return the line that made the node with this number."""
        call = find_call(self.tape.calls, number)
        return None if call is None else self.source_at(call.place)

    def source_at(self, place: Place | None) -> Source | None:
        """Read a place once, however many nodes were made there.

        Code is known by its identity, as code that is the same in two files counts as equal.
        """
        if place is None:
            return None
        code, instruction, library = place
        key = id(code), instruction, library and (id(library[0]), library[1])
        if key not in self.sources_by_place:
            self.sources_by_place[key] = place, source_at(place)
        return self.sources_by_place[key][1]

    def paths(self, roots: Roots) -> dict[int, str]:
        """Return the paths of all modules that ran, by the identities of their calls, in order."""
        calls = [call for _, call in self.modules if call is not None]
        return paths_of(calls, self.outermost, roots)

    def module_of(self, number: int) -> ModuleCall | None:
        """Return the module that was running when the node with this number was made."""
        after = bisect_right(self.modules, number, key=lambda event: event[0])
        return self.modules[after - 1][1] if after else None

    def note_inputs(self, arguments: Mapping[str, object]) -> None:
        """Note the tensors that an outermost module was given, by the arguments."""
        for argument, given in arguments.items():
            self.inputs.update(dict.fromkeys(tensors_in((given,)), argument))

    def given_tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield what outermost modules were given and is alive, by the arguments."""
        return ((argument, tensor) for tensor, argument in self.inputs.items())

    def replaced_leaves(self) -> Iterator[tuple[torch.Tensor, int]]:
        """Return the tensors that live and whose data was replaced, and when."""
        calls = (call for call in self.tape.calls if call.name == ".data =")
        pairs = ((value(), call.stop) for call in calls for value in call.outputs)
        return ((tensor, number) for tensor, number in pairs if tensor is not None)

    def given_to(self, number: int) -> tuple[Given, ...] | None:
        """Return what else was given to the call that made what is not finite, None to others."""
        call = find_call(self.tape.calls, number)
        return None if call is None else self.given.get(call.start)

    def writes_between(
        self, storage: int | None, saved: int | None, current: int | None
    ) -> tuple[Write, ...]:
        """Return the writes that led from one version of a storage to another, the first one first.

        The search begins with the newest: an older storage may have had the same identity.
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
        """Return the newest write into a storage, and the next number of a node then.

        A hidden one went through ``.data``: autograd does not count it.
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
        """All writes, in order."""
        return [self.write_of(call, one) for call in self.tape.calls for one in call.writes]

    def write_of(self, call: Call, write: WriteOnTape) -> Write:
        """Return a write as a value."""
        return Write(
            operation=call.name,
            version_before=write.version_before,
            version_after=write.version_after,
            through_view=write.through_view,
            source=self.source_at(call.place),
            within=None if call.site is None else call.site.within,
        )

    def cut_of(self, state: State) -> Cut:
        """Return a state that lost a graph as a value."""
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
