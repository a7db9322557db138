"""The flow of values through the calls on a tape, and where on the way a graph was lost."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from leafgrad import _autograd
from leafgrad._record.cut import CutKind
from leafgrad._record.spans import find_span
from leafgrad._record.tape import (
    ARRAYS,
    UNSEEN,
    Call,
    Tape,
    Value,
    WriteOnTape,
    has_graph,
)
from leafgrad._record.torch_functions import COLLECTIVES

LEAVING_PYTORCH = {
    **dict.fromkeys(["item", "tolist", "__float__", "__int__", "__complex__"], CutKind.PYTHON),
    **dict.fromkeys(ARRAYS, CutKind.NUMPY),
}
_CUTTING = {
    "detach": CutKind.DETACHED,
    "detach_": CutKind.DETACHED,
    ".data": CutKind.DATA,
    ".data =": CutKind.DATA,
    **dict.fromkeys(COLLECTIVES, CutKind.COLLECTIVE),
    **dict.fromkeys(["tensor", "as_tensor", "asarray", "new_tensor", "Parameter"], CutKind.COPIED),
}


@dataclass(slots=True)
class State:
    """What a tensor holds from one call to the next that writes to it.

    Attributes:
        value: The tensor.
        call: The call that made the state; None for what was there before.
        sources: The numbers of the states that it was computed from.
        lost: Those of them whose graph ended here.
        kind: How.
        order: The highest order of derivative that it is computed from.
    """

    value: Value | None
    call: Call | None
    sources: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    kind: CutKind | None = None
    order: int = 0

    @property
    def is_exit(self) -> bool:
        """Return whether the state is what left PyTorch."""
        return self.call is not None and self.call.name in LEAVING_PYTORCH

    @property
    def is_in_custom_function(self) -> bool:
        """Return whether the state was made within the forward of a custom function."""
        site = None if self.call is None else self.call.site
        return site is not None and site.is_in_custom_function


class Flow:
    """The states of all values on a tape, each after those that it was computed from.

    Attributes:
        states: The states, by number.
        exits: The numbers of those that stand for what left PyTorch.
        certain: The numbers of exits whose very number came back into a tensor.
        newest: The newest state of each value.
        orders: The order of derivative that each differentiable backward pass computed, by the
            number of its first node.
    """

    def __init__(self, tape: Tape) -> None:
        """Follow the values through all calls."""
        self.tape = tape
        self.states: list[State] = []
        self.exits: list[int] = []
        self.newest: dict[Value, int] = {}
        self.orders: dict[int, int] = {}
        self.certain: set[int] = set()
        self._reached: dict[int, int] = {}
        self._by_storage: dict[int, int] = {}
        self._by_number: dict[float, int] = {}
        self._arrays: dict[Value, int] = {}
        self._aliases: dict[Value, Value] = {}
        self.data: set[Value] = set()
        for call in tape.calls:
            self._follow(call)

    # --- Following one call

    def _follow(self, call: Call) -> None:
        before = {value: self._state(value) for value in call.inputs}
        if call.name in LEAVING_PYTORCH:
            self._leave(call, before)
            return
        if call.name in _MAKING_ALIASES and call.inputs:
            self._aliases[call.outputs[0]] = call.inputs[0]
            if call.name == ".data":
                self.data.add(call.outputs[0])
        numbers = self._from_numbers(call)
        order = 0 if call.roots is None else self._order_of_pass(call)
        for output in call.outputs:
            values = call.inputs if call.name == UNSEEN else sources_of(call, output)
            is_kept = output in before and call.name not in _OVERWRITING
            lost = [before[value] for value in values if value in call.graphs]
            kind = kind_of_cut(call, output) if lost else None
            sources = [*map(before.__getitem__, values), *([before[output]] if is_kept else ())]
            sources += numbers or self._behind_memory(output) if not sources else numbers
            self._add(output, call, sources, lost if kind else (), kind, order)
            self.data.update([output] if self._is_view_of_data(call, output) else ())
        self._follow_write_past_graph(call, before)

    def _is_view_of_data(self, call: Call, output: Value) -> bool:
        return output.address is not None and any(
            one in self.data and one.address == output.address for one in call.inputs
        )

    def _leave(self, call: Call, before: dict[Value, int]) -> None:
        """Follow values out of PyTorch: into numbers, or into an array by its memory."""
        lost = [before[value] for value in call.graphs]
        kind = LEAVING_PYTORCH[call.name]
        if call.site is None:
            return  # nothing has a graph to lose
        value = call.outputs[0] if call.outputs else None
        number = self._add(value, call, before.values(), lost, kind)
        self.exits.append(number)
        self._by_number.update(dict.fromkeys(call.floats, number))
        if kind is CutKind.NUMPY:
            self._arrays[call.inputs[0]] = number

    def _from_numbers(self, call: Call) -> list[int]:
        """Return the exits that the Python numbers among the arguments come from.

        Any number may be computed from those that left PyTorch if a tensor is made of it.
        """
        found = [self._by_number[one] for one in call.floats if one in self._by_number]
        self.certain.update(
            self._by_number[one] for one in call.floats if one % 1 and one in self._by_number
        )
        return self.exits if call.floats and not found and call.name in _FROM_NUMBERS else found

    def _follow_write_past_graph(self, call: Call, before: dict[Value, int]) -> None:
        """Follow a write through ``.data`` or ``detach()`` to the tensor with the same memory."""
        if not (call.inputs and call.name.endswith("_")):
            return
        original = self._aliases.get(call.inputs[0])
        lost = [before[value] for value in call.graphs if value is not call.inputs[0]]
        if original is not None and lost:
            self._add(original, call, [self._state(original), *lost], lost, CutKind.DATA)

    def _state(self, value: Value) -> int:
        """Return the newest state of a value; one not seen before shares memory, or is new."""
        if value in self.newest:
            return self.newest[value]
        return self._add(value, None, self._behind_memory(value))

    def _behind_memory(self, value: Value) -> tuple[int, ...]:
        """Return the state of what has the same memory, for a value that was made out of sight."""
        shared = self._by_storage.get(value.address or 0)
        if shared is None and value.array is not None:
            shared = self._arrays.get(value.array)
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
            order = max(order, 0 if value.number is None else self.order_at(value.number))
            order = max([order, *(self.states[one].order for one in sources)])
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
        """Return the order of what a differentiable backward pass computed."""
        behind = [self.states[self.newest[one]].order for one in call.inputs if one in self.newest]
        calls = [find_span(self.tape.calls, one) for one in call.roots or () if one is not None]
        behind += [self._reached.get(one.start, 0) for one in calls if one is not None]
        order = self.orders[call.start] = max(behind, default=0) + 1
        return order

    # --- Questions

    def state_of(self, tensor: Tensor) -> int | None:
        """Return the newest state of a tensor, or of what has the same memory."""
        value = self.tape.value_of(tensor)
        if value is not None and value in self.newest:
            return self.newest[value]
        if has_graph(tensor):
            return None
        return self._by_storage.get(_autograd.storage_identity(tensor) or 0)

    def behind(self, states: Iterable[int]) -> list[int]:
        """Return the numbers of all states that some were computed from, in order."""
        found: set[int] = set()
        ahead = [*states]
        while ahead:
            number = ahead.pop()
            if number not in found:
                found.add(number)
                ahead += self.states[number].sources
        return sorted(found)

    def dependent(
        self, tensor: Tensor, states: Iterable[int], *, by_graph: bool = True
    ) -> set[int]:
        """Return which of some states, in order, depend on a tensor, by graphs or in any way."""
        value = self.tape.value_of(tensor)
        numbers = self.tape.structure.depend_on(tensor)
        found: set[int] = set()
        for number in states:
            state = self.states[number]
            if (
                (state.value is not None and state.value is value)
                or (state.value is not None and state.value.number in numbers)
                or any(
                    one in found and not (by_graph and one in state.lost) for one in state.sources
                )
            ):
                found.add(number)
        return found

    def last_cuts(self, ends: Iterable[int], dependent: Collection[int] | None = None) -> list[int]:
        """Return the last states behind some others that lost a graph, of those that depend.

        What a custom function does with its inputs is no cut if its result has a graph. What left
        PyTorch counts for all that was lost before.
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
            exit_ = number if exit_ is None and state.is_exit else exit_
            is_lost = any(dependent is None or one in dependent for one in state.lost)
            if is_lost and not (is_within and state.is_in_custom_function):
                found.add(number if exit_ is None else exit_)
                continue
            is_within |= state.call is not None and state.call.name == UNSEEN
            ahead += [(source, is_within, exit_) for source in state.sources]
        return sorted(found)

    @cached_property
    def writes(self) -> dict[int, list[tuple[Call, WriteOnTape]]]:
        """The writes into each storage, in order."""
        found: dict[int, list[tuple[Call, WriteOnTape]]] = {}
        pairs = ((call, write) for call in self.tape.calls for write in call.writes)
        for call, write in pairs:
            found.setdefault(write.storage, []).append((call, write))
        return found

    def is_difference(self, state: State) -> bool:
        """Return whether what a state lost is a difference, as in ``z + (q - z).detach()``."""
        calls = [self.states[number].call for number in state.lost]
        return any(call is not None and call.name in _SUBTRACTIONS for call in calls)

    # --- Uses

    def uses(self, value: Value) -> Iterator[Call]:
        """Yield the calls that made something of a value while that could have a gradient."""
        return (call for call in self.tape.calls if value in call.inputs and is_use(call, value))

    def orders_of(
        self, numbers: Sequence[int | None], targets: Sequence[Sequence[int | None]]
    ) -> list[int]:
        """Return for each node the highest order of derivative that its result is made of.

        Nodes are given by their numbers and the places of their successors, which come after them.
        """
        orders = [0 if number is None else self.order_at(number) for number in numbers]
        for place in reversed(range(len(orders))):
            for target in targets[place]:
                if target is not None:
                    orders[place] = max(orders[place], orders[target])
        return orders

    def order_at(self, number: int) -> int:
        """Return the order of the derivative that a node was made for, 0 outside of all passes."""
        call = find_span(self.tape.calls, number)
        return 0 if call is None else self.orders.get(call.start, 0)


def is_use(call: Call, value: Value) -> bool:
    """Return whether a call made something of a value while that could have a gradient."""
    if not (call.is_grad_enabled or value in call.graphs):
        return False
    if takes_shape(call.name, is_first=value is call.inputs[0]):
        return False
    return call.name in LEAVING_PYTORCH or any(one is not value for one in call.outputs)


def sources_of(call: Call, output: Value) -> Sequence[Value]:
    """Return the inputs whose values an output is made of.

    Of several outputs, each may be a view of one input.
    """
    name, inputs = call.name, call.inputs
    if name.startswith(("_foreach_", "_fused_")):
        inputs = _row_of(output, call.outputs, inputs)
    places = enumerate(inputs)
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


def _row_of(output: Value, outputs: Sequence[Value], inputs: Sequence[Value]) -> tuple[Value, ...]:
    """Return what one entry of the lists of a foreach function is computed from.

    Tensors that are in no list come first, and go into all entries.
    """
    place = outputs.index(output)
    shared = len(inputs) % len(outputs)
    return (*inputs[:shared], *inputs[shared + place :: len(outputs)])


def takes_shape(name: str, *, is_first: bool) -> bool:
    """Return whether a function takes no more of an input than its shape or type."""
    if name in _SHAPED_AS_ANOTHER:
        return not is_first
    if name in {".grad", ".grad ="}:
        return True
    return is_first and (name.endswith("_like") or name == "new" or name.startswith("new_"))


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
_SUBTRACTIONS = {"sub", "__sub__", "rsub", "__rsub__", "subtract", "sub_", "__isub__"}
_MAKING_ALIASES = {"detach", ".data"}


def kind_of_cut(call: Call, output: Value) -> CutKind | None:
    """Return how an output lost the graph of what it was made from, None where it did not.

    Of the results of one function, a number without a graph beside one with it may come from other
    inputs.
    """
    if output in call.recorded:
        return None
    if call.name in _CUTTING:
        return _CUTTING[call.name]
    if not call.is_grad_enabled:
        return CutKind.NO_GRAD
    if not output.is_floating:
        return CutKind.NOT_FLOATING
    return None if call.recorded else CutKind.NOT_DIFFERENTIABLE
