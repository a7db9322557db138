"""The data flow between recorded calls, and the calls at which a graph was lost.

A *state* is the content of a tensor between two writes; its *sources* are the states that it was
computed from. A call *loses a graph* if a source has one and the result has none. An *exit* is the
state of a tensor that was converted to a Python number or an array.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from torch import Tensor

from leafgrad import _autograd
from leafgrad._graph.nodes import Source
from leafgrad._record.tape import (
    ARRAYS,
    UNSEEN,
    Call,
    Tape,
    Value,
    WriteOnTape,
    find_call,
    has_graph,
)
from leafgrad._record.torch_functions import is_collective


class CutKind(StrEnum):
    """The reason why a result has no graph; ``str()`` of it reads as prose.

    Attributes:
        DETACHED: ``detach()`` was called.
        DATA: ``.data`` was read or assigned.
        NO_GRAD: The result was computed while gradients were disabled.
        NOT_FLOATING: The result holds integers or truth values, which have no gradient.
        NOT_DIFFERENTIABLE: The operation has no derivative.
        COPIED: The values were copied into a new tensor, such as a parameter.
        PYTHON: The value was converted to a Python number or list.
        NUMPY: The value was converted to an array of NumPy or another library.
        COLLECTIVE: A collective of ``torch.distributed`` wrote the values into other tensors.
    """

    DETACHED = "detached"
    DATA = "taken as .data"
    NO_GRAD = "computed without recording"
    NOT_FLOATING = "turned into integers or truth values"
    NOT_DIFFERENTIABLE = "put through an operation without a derivative"
    COPIED = "made into a new tensor"
    PYTHON = "turned into a number of Python's"
    NUMPY = "turned into an array outside PyTorch"
    COLLECTIVE = "sent through a collective operation"


DERIVATIVE = "grad(create_graph=True)"
"""The name of a ``torch.autograd.grad`` call with ``create_graph=True`` on the tape.

If its result has no graph, the differentiated function was linear.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """A call whose result lost the graph of its inputs.

    Attributes:
        kind: The reason.
        operation: The function that was called, such as ``"detach"``.
        source: The line of code, or None if unknown.
        switch: What had disabled gradients, such as ``"no_grad()"``, if that is the reason.
        switch_source: The line of `switch`; None if it ran before the recording.
        is_difference: Whether the detached value is a difference, as in ``z + (q - z).detach()``.
    """

    kind: CutKind
    operation: str
    source: Source | None
    switch: str | None = None
    switch_source: Source | None = None
    is_difference: bool = False


LEAVING_PYTORCH = {
    **dict.fromkeys(["item", "tolist", "__float__", "__int__", "__complex__"], CutKind.PYTHON),
    **dict.fromkeys(ARRAYS, CutKind.NUMPY),
}
_CUTTING = {
    "detach": CutKind.DETACHED,
    "detach_": CutKind.DETACHED,
    ".data": CutKind.DATA,
    ".data =": CutKind.DATA,
    **dict.fromkeys(["tensor", "as_tensor", "asarray", "new_tensor", "Parameter"], CutKind.COPIED),
}


@dataclass(slots=True)
class State:
    """The content of a tensor between two calls that write to it.

    Attributes:
        value: The tensor.
        call: The call that produced the content; None if that was before the recording.
        sources: The numbers of the states from which it was computed.
        lost: The numbers of the sources whose graph ended here.
        kind: The reason why their graph ended.
        order: The highest derivative order among the values from which it was computed.
    """

    value: Value | None
    call: Call | None
    sources: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    kind: CutKind | None = None
    order: int = 0


class Flow:
    """The states of all values on a tape, each after its sources.

    A state is the content of a tensor between two writes. Its sources are the states from which it
    was computed. An exit is a state that was converted to a Python number or an array.

    Attributes:
        states: The states, by number.
        exits: The numbers of the states that were converted to Python numbers or arrays.
        certain: The numbers of the exits whose Python number was passed to a later call. Whole
            numbers do not count: the same number may come from somewhere else.
        newest: The newest state of each value.
        orders: The derivative order of each backward pass with ``create_graph=True``, by the number
            of its first node.
        data: The values read as ``.data``, and the results in the same memory.
    """

    def __init__(self, tape: Tape) -> None:
        """Follow the calls on the tape, and add a state for each content that a tensor gets.

        A state is the content of a tensor between two calls that write to it.
        """
        self.tape = tape
        self.states: list[State] = []
        self.exits: list[int] = []
        self.newest: dict[Value, int] = {}
        self.orders: dict[int, int] = {}
        self.certain: set[int] = set()
        self._reached: dict[int, int] = {}
        self._by_storage: dict[int, int] = {}
        self._by_number: dict[float, int] = {}
        self._aliases: dict[Value, Value] = {}
        self.data: set[Value] = set()
        for call in tape.calls:
            self._follow(call)

    # --- Adding the states of one call

    def _follow(self, call: Call) -> None:
        before = {value: self._state(value) for value in call.inputs}
        if call.name in LEAVING_PYTORCH:
            self._leave(call, before)
            return
        if call.name in _MAKING_ALIASES and call.inputs:
            self._aliases[call.outputs[0]] = call.inputs[0]
            self.data.update(call.outputs if call.name == ".data" else ())
        numbers = self._from_numbers(call)
        order = 0 if call.roots is None else self._order_of_pass(call)
        memory = {one.address for one in call.inputs if one in self.data} - {None}
        for output in call.outputs:
            values = call.inputs if call.name == UNSEEN else sources_of(call, output)
            is_kept = output in before and call.name not in _OVERWRITING
            lost = [before[value] for value in values if value in call.graphs]
            kind = kind_of_cut(call, output) if lost else None
            sources = [*map(before.__getitem__, values), *([before[output]] if is_kept else ())]
            sources += numbers or self._behind_memory(output) if not sources else numbers
            self._add(output, call, sources, lost if kind else (), kind, order)
            self.data.update([output] if output.address in memory else ())
        self._follow_write_past_graph(call, before)

    def _leave(self, call: Call, before: dict[Value, int]) -> None:
        """Add a state for a call that converts a tensor to a Python number or an array.

        A state is the content of a tensor between two writes. `before` maps the inputs of the call
        to the numbers of their states.
        """
        lost = [before[value] for value in call.graphs]
        kind = LEAVING_PYTORCH[call.name]
        if call.site is None:
            return  # No input has a graph that the call could lose.
        value = call.outputs[0] if call.outputs else None
        number = self._add(value, call, before.values(), lost, kind)
        self.exits.append(number)
        self._by_number.update(dict.fromkeys(call.floats, number))
        if kind is CutKind.NUMPY:
            self._by_storage[call.inputs[0].address or 0] = number

    def _from_numbers(self, call: Call) -> list[int]:
        """Return the exits from which the Python numbers among a call's arguments come.

        An exit is a value that left the graph, for example by `.item()`. It is returned as the
        number of its state. For a function that builds a tensor from unknown numbers, return all
        exits so far.
        """
        found = {one: self._by_number[one] for one in call.floats if one in self._by_number}
        self.certain.update(exit_ for one, exit_ in found.items() if one % 1)
        is_any = call.floats and not found and call.name in _FROM_NUMBERS
        return self.exits if is_any else [*found.values()]

    def _follow_write_past_graph(self, call: Call, before: dict[Value, int]) -> None:
        """Add a state for the original tensor if a call wrote to its ``.data`` or ``detach()``.

        A state is the content of a tensor between two writes. `before` maps the inputs of the call
        to the numbers of their states.
        """
        if not (call.inputs and call.name.endswith("_")):
            return
        original = self._aliases.get(call.inputs[0])
        lost = [before[value] for value in call.graphs if value is not call.inputs[0]]
        if original is not None and lost:
            self._add(original, call, [self._state(original), *lost], lost, CutKind.DATA)

    def _state(self, value: Value) -> int:
        """Return the number of the newest state of a value; add one if it has none.

        A state is the content of the tensor between two writes.
        """
        if value in self.newest:
            return self.newest[value]
        return self._add(value, None, self._behind_memory(value))

    def _behind_memory(self, value: Value) -> tuple[int, ...]:
        """Return a tuple with the newest state of any tensor in the value's memory.

        A state is the content of a tensor between two writes, and is returned as its number. The
        tuple is empty if no such state is known, or if the value has a graph itself.
        """
        shared = self._by_storage.get(value.address or 0)
        return () if shared is None or value.has_graph else (shared,)

    def _add(
        self,
        value: Value | None,
        call: Call | None,
        sources: Iterable[int],
        lost: Iterable[int] = (),
        kind: CutKind | None = None,
        order: int = 0,
    ) -> int:
        sources = tuple(dict.fromkeys(sources))
        has_graph = value is not None and (value in call.recorded if call else value.has_graph)
        if value is not None and has_graph:
            orders = [self.states[one].order for one in sources]
            order = max(order, self.order_at(value.number), *orders)
            if call is not None and call.start < call.stop:
                self._reached[call.start] = order
        self.states.append(State(value, call, sources, (*lost,), kind, order))
        number = len(self.states) - 1
        if value is not None:
            self.newest[value] = number
            if value.address is not None and value.storage is not None:
                self._by_storage[value.address] = number
        return number

    def _order_of_pass(self, call: Call) -> int:
        """Return the derivative order of a pass with ``create_graph=True``, and remember it."""
        calls = [find_call(self.tape.calls, one) for one in call.roots or () if one is not None]
        behind = [self._reached.get(one.start, 0) for one in calls if one is not None]
        order = self.orders[call.start] = max(behind, default=0) + 1
        return order

    # --- Searching the states

    def state_of(self, tensor: Tensor) -> int | None:
        """Return the number of the newest state of a tensor or of its memory; None if unknown.

        A state is the content of a tensor between two writes.
        """
        value = self.tape.value_of(tensor)
        if value is not None and value in self.newest:
            return self.newest[value]
        if has_graph(tensor):
            return None
        return self._by_storage.get(_autograd.storage_identity(tensor) or 0)

    def dependent(self, tensor: Tensor, *, by_graph: bool = True) -> set[int]:
        """Return the numbers of the states that depend on a tensor.

        A state is the content of a tensor between two writes. With `by_graph`, only dependencies
        count along which the graph was kept.
        """
        value = self.tape.value_of(tensor)
        numbers = self.tape.structure.depend_on(tensor)
        found: set[int] = set()
        for number, state in enumerate(self.states):
            own = state.value
            is_it = own is not None and (own is value or own.number in numbers)
            sources = {*state.sources} - {*state.lost} if by_graph else {*state.sources}
            if is_it or not found.isdisjoint(sources):
                found.add(number)
        return found

    def last_cuts(self, ends: Iterable[int], dependent: Collection[int] | None = None) -> list[int]:
        """Search backwards from the states `ends` for the first states that lost a graph.

        A state is the content of a tensor between two writes. Return the numbers of these states in
        order. If the search passed a conversion to a Python number or an array on the way, the
        number of that state is returned instead.

        Calls inside a custom function do not count if the result of the function has a graph. With
        `dependent`, a state counts only if a graph that it lost is that of a state in `dependent`.
        """
        found: set[int] = set()
        ahead: list[tuple[int, bool, int | None]] = [(end, False, None) for end in ends]
        seen: set[tuple[int, bool, int | None]] = set()
        while ahead:
            step = number, is_within, exit_ = ahead.pop()
            if step in seen:
                continue
            seen.add(step)
            state = self.states[number]
            name = "" if state.call is None else state.call.name
            exit_ = number if exit_ is None and name in LEAVING_PYTORCH else exit_
            is_lost = any(dependent is None or one in dependent for one in state.lost)
            site = None if state.call is None else state.call.site
            is_aside = is_within and site is not None and site.is_in_custom_function
            if is_lost and not is_aside:
                found.add(number if exit_ is None else exit_)
                continue
            is_within |= name == UNSEEN
            ahead += [(source, is_within, exit_) for source in state.sources]
        return sorted(found)

    @cached_property
    def writes(self) -> dict[int, list[tuple[Call, WriteOnTape]]]:
        """The writes into each storage with their calls, in order, by storage identity."""
        found: dict[int, list[tuple[Call, WriteOnTape]]] = defaultdict(list)
        for call in self.tape.calls:
            for write in call.writes:
                found[write.storage].append((call, write))
        return found

    # --- Uses of a value

    def uses(self, value: Value) -> Iterator[Call]:
        """Yield the calls that used a value while autograd could track it."""
        for call in self.tape.calls:
            if (
                value in call.inputs
                and (call.is_grad_enabled or value in call.graphs)
                and (call.name in LEAVING_PYTORCH or {*call.outputs} - {value})
                and not takes_shape(call.name, is_first=value is call.inputs[0])
            ):
                yield call

    def orders_of(
        self, numbers: Sequence[int | None], targets: Sequence[Sequence[int | None]]
    ) -> list[int]:
        """Return the derivative order of each node: the highest among itself and its successors.

        Args:
            numbers: The sequence number of each node, or None if it has none. Each node comes
                before its successors.
            targets: The positions of the successors of each node; None where there is no node.
        """
        orders = [*map(self.order_at, numbers)]
        for place in reversed(range(len(orders))):
            behind = [orders[target] for target in targets[place] if target is not None]
            orders[place] = max([orders[place], *behind])
        return orders

    def order_at(self, number: int | None) -> int:
        """Return the derivative order of the backward pass that created a node; 0 if none did.

        `number` is the sequence number of the node, or None if the node has none.
        """
        call = None if number is None else find_call(self.tape.calls, number)
        return 0 if call is None else self.orders.get(call.start, 0)


def sources_of(call: Call, output: Value) -> Sequence[Value]:
    """Return the inputs from whose values a call computed one of its outputs.

    If a call has several outputs, each may be a view of one input.
    """
    name, places = call.name, enumerate(call.inputs)
    inputs = tuple(one for place, one in places if not takes_shape(name, is_first=place == 0))
    if name == ".data =":
        return inputs[1:]
    is_alone = len(call.outputs) == 1
    if output in inputs:
        if name == "detach_":
            return inputs
        is_written = is_alone or name.endswith("_")
        return [one for one in inputs if one is not output] if is_written else ()
    if is_alone or output.address is None:
        return inputs
    return [one for one in inputs if one.address == output.address] or inputs


def takes_shape(name: str, *, is_first: bool) -> bool:
    """Check whether a function uses only the shape or dtype of an input, not its values."""
    return (
        name in {".grad", ".grad ="}
        or (name in _SHAPED_AS_ANOTHER and not is_first)
        or (is_first and (name.endswith("_like") or name == "new" or name.startswith("new_")))
    )


_SHAPED_AS_ANOTHER = {
    "expand_as",
    "view_as",
    "reshape_as",
    "type_as",
    "to",
    "resize_as_",
    "sum_to_size",
}
_FROM_NUMBERS = {"tensor", "as_tensor", "asarray", "new_tensor", "scalar_tensor"}
_OVERWRITING = {"copy_", "fill_", "normal_", "uniform_", "zero_"}
SUBTRACTIONS = {"sub", "__sub__", "rsub", "__rsub__", "subtract", "sub_", "__isub__"}
_MAKING_ALIASES = {"detach", ".data"}


def kind_of_cut(call: Call, output: Value) -> CutKind | None:
    """Return why an output of a call has no graph although an input had one; None if it has one.

    If another output of the call has a graph, an output without one may come from other inputs.
    """
    reasons = (
        (CutKind.COLLECTIVE, is_collective(call.name)),
        (CutKind.NO_GRAD, not call.is_grad_enabled),
        (CutKind.NOT_FLOATING, not output.is_floating),
        (CutKind.NOT_DIFFERENTIABLE, not call.recorded),
    )
    kind = _CUTTING.get(call.name) or next((kind for kind, holds in reasons if holds), None)
    return None if output in call.recorded else kind
