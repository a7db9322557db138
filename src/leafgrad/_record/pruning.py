"""What a long recording may forget: everything that belongs to no living graph.

A training loop makes as many nodes as it has steps, of which a few are alive at any time. Nodes and
tensors cannot be asked to tell when they die, so a recording that has grown looks at what lives.
Of the tape remain the calls that living nodes and tensors can lead to. Those in between that made
nothing that lives are contracted: a cut stays, once for all that are alike.
"""

from collections.abc import Collection, Container, Generator, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import torch
from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._record.flow import Flow, State, is_use
from leafgrad._record.place import key_of
from leafgrad._record.spans import is_any_in
from leafgrad._record.tape import JOINED, UNSEEN, Call, Value

Values = tuple[Value, ...]


def first_saved_versions(nodes: Sequence[Node]) -> dict[int, int]:
    """Return for each storage that nodes saved the lowest version at which one of them did."""
    lowest: dict[int, int] = {}
    with _autograd.unobserved():
        kept = _autograd.read_saved(nodes, ())
    for tensor in kept:
        identity, saved = tensor.written, tensor.saved_version
        if identity is not None and saved is not None:
            lowest[identity] = min(saved, lowest.get(identity, saved))
    return lowest


def nearest_living(
    numbers: Iterable[int], successors: Mapping[int, Iterable[int]], living: Container[int | None]
) -> frozenset[int]:
    """Return the living numbers that some numbers lead to through none but dead ones."""
    found: set[int] = set()
    ahead, seen = [*numbers], set[int]()
    while ahead:
        number = ahead.pop()
        if number in living:
            found.add(number)
        elif number not in seen:
            seen.add(number)
            ahead += successors.get(number, ())
    return frozenset(found)


def shorten(flow: Flow, numbers: Sequence[int], versions: Mapping[int, int]) -> list[Call]:
    """Return calls that say the same of what lives as all those of a tape.

    Nodes live whose sorted numbers are `numbers`; storages are saved since `versions`.
    """
    return [*_Shortened(flow, {*map(id, _lasting(flow, numbers, versions))}).calls()]


def _lasting(flow: Flow, numbers: Sequence[int], versions: Mapping[int, int]) -> Iterator[Call]:
    """Yield the calls that stay as they are.

    They made a living node, used a living leaf first, wrote to what a node has saved, or are the
    first of their line.
    """
    places: set[object] = set()
    used: set[Value] = set()
    oldest = numbers[0] if numbers else flow.tape.next_number
    newest = {id(write): write for writes in flow.writes.values() for _, write in writes[-1:]}
    for call in flow.tape.calls:
        place = None if call.place is None else key_of(call.place)
        is_first = call.start < call.stop and place not in places
        makes_living = is_any_in(numbers, call.start, call.stop)
        writes = any(
            write.version_after > versions.get(write.storage, write.version_after)
            or (id(write) in newest and call.stop > oldest)
            for write in call.writes
        )
        users = {value for value in call.inputs if value not in used and is_use(call, value)}
        is_used = any(value() is not None for value in users)
        is_replaced = call.name == ".data =" and any(one() is not None for one in call.outputs)
        if is_first or makes_living or writes or is_used or is_replaced:
            yield call
        places.update([place] if is_first else ())
        used |= users


class _Shortened:
    """The calls of a tape, with one in place of those that are alike and made nothing that lives.

    Attributes:
        nearest: For each state the values that stand for it: itself, or the nearest that remain.
        within: The same past what a custom function did with its inputs.
    """

    def __init__(self, flow: Flow, lasting: Collection[int]) -> None:
        self.flow = flow
        self.lasting = lasting
        self.nearest: dict[int, Values] = {}
        self.within: dict[int, Values] = {}
        self.joined: dict[Value, set[Value]] = {}
        self.substitutes: set[Value] = set()
        self.alike: dict[object, tuple[Value, set[Value]]] = {}
        inputs = [call.inputs for call in flow.tape.calls if id(call) in lasting]
        self.needed = {value for values in inputs for value in values}

    def calls(self) -> Iterator[Call]:
        flow = self.flow
        lives = [number for value, number in flow.newest.items() if value() is not None]
        lasting = [n for n, state in enumerate(flow.states) if id(state.call) in self.lasting]
        behind = {*flow.behind([*lives, *lasting, *flow.exits])}
        states: dict[int, list[int]] = {}
        for number in sorted(behind):
            call = flow.states[number].call
            if call is None:
                self.nearest[number] = self.within[number] = self._behind_initial(number)
            else:
                states.setdefault(id(call), []).append(number)
        for call in flow.tape.calls:
            made = states.get(id(call), ())
            if id(call) in self.lasting:
                yield call
                for number in made:
                    own = flow.states[number].value
                    self.nearest[number] = self.within[number] = () if own is None else (own,)
            else:
                for number in made:
                    yield from self._replace(number, call)

    def _behind_initial(self, number: int) -> Values:
        """Return what stands for the first state of a tensor: itself, or the ends of its graph."""
        value, sources = self.flow.states[number].value, self.flow.states[number].sources
        if value is not None and value() is not None:
            return (value,)
        return (*self._union(self.nearest, sources), *self._ends_of_graph(value))

    def _ends_of_graph(self, value: Value | None) -> Values:
        """Return the nearest living values in a graph that was built out of sight."""
        if value is None or value.number is None:
            return ()
        living = nearest_living([value.number], self.flow.tape.structure.successors, self.anchors)
        return tuple(self.flow.tape.read([self.anchors[one]])[0][0] for one in living)

    @cached_property
    def anchors(self) -> dict[int | None, Tensor]:
        """The living tensors, by the numbers of their places in graphs."""
        return {_autograd.number_if_valid(tensor): tensor for tensor in _autograd.alive()}

    def _replace(self, number: int, call: Call) -> Iterator[Call]:
        """Yield what stands for a state."""
        state = self.flow.states[number]
        sources = self._union(self.within if call.name == UNSEEN else self.nearest, state.sources)
        ends = self._ends_of_graph(state.value)
        sources, within = (*sources, *ends), (*self._union(self.within, state.sources), *ends)
        if state.lost or state.is_exit:
            lost = self._union(self.nearest, state.lost)
            lost = tuple(one for one in lost if one not in self.substitutes)
            sources = yield from self._merge(state, call, sources, lost)
            within = within if state.is_in_custom_function else sources
        own = state.value
        if own is not None and not state.is_exit and (own() is not None or own in self.needed):
            known = self.joined.setdefault(own, set())
            if own not in sources and known:
                known.clear()  # it was overwritten
                yield _joined(call, sources, own, has_graph=state.has_graph)
            elif not known.issuperset(sources):
                yield _joined(call, sources, own, has_graph=state.has_graph)
            known.update(sources, [own])
            sources = within = (own,)
        self.nearest[number], self.within[number] = sources, within

    def _merge(
        self, state: State, call: Call, sources: Values, lost: Values
    ) -> Generator[Call, None, Values]:
        """Yield a call for the first of all cuts that are alike, and return what stands for it."""
        key = call.name, call.place, call.site, state.kind, frozenset(lost)
        stands_for, known = self.alike.get(key, (None, set()))
        if stands_for is None:
            stands_for = Value(torch.empty(0))  # which is gone at once
            stands_for.copy_facts(state.value)
            self.alike[key] = stands_for, known
            self.substitutes.add(stands_for)
            known.update(sources, [stands_for])
            yield call._replace(
                start=call.stop,
                inputs=sources,
                graphs=lost,
                outputs=(stands_for,),
                recorded=(),
                writes=(),
                kind=state.kind,
            )
        more = tuple(one for one in sources if one not in known)
        if more:
            known.update(more)
            yield _joined(call, (stands_for, *more), stands_for, has_graph=False)
        return (stands_for,)

    def _union(self, values: Mapping[int, Values], numbers: Iterable[int]) -> Values:
        return tuple(dict.fromkeys(one for number in numbers for one in values[number]))


def _joined(call: Call, sources: Values, value: Value, *, has_graph: bool) -> Call:
    """Return a call that stands for those by which a value came from some others."""
    recorded = (value,) if has_graph else ()
    return Call(call.stop, call.stop, None, JOINED, sources, (), (value,), recorded)
