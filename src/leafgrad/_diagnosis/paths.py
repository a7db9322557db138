"""The paths between tensors and the outputs, in a recording and in the graph.

A *cut* is a recorded call whose result has no graph although an input had one: a `Cut`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._arguments.outputs import Output, gradient_edges
from leafgrad._graph.nodes import Source
from leafgrad._record.flow import Cut, CutKind
from leafgrad._record.log import Log
from leafgrad._record.tape import Call, Value, find_call

COPYING_WEIGHTS = {"state_dict", "deepcopy", "load_state_dict"}


class Use(NamedTuple):
    """A recorded call that read a tensor, and whether the tensor required grad at that time."""

    operation: str
    source: Source | None
    required_grad: bool


class Paths:
    """The paths from tensors to the outputs, and the cuts in them.

    A cut is a recorded call whose result has no graph although an input had one.

    Attributes:
        graph: The autograd nodes behind the outputs, with their successors.
        is_lost: Whether the outputs have no graph, or only leaves in it.
    """

    def __init__(self, outputs: Sequence[Output], log: Log) -> None:
        """Store the outputs and the log of the recording."""
        self.outputs = [end for end in outputs if isinstance(end, Tensor)]
        self.log = log
        self.flow = log.flow
        self.graph = _autograd.walk([node for node, _ in gradient_edges(outputs)])
        self.is_lost = all(_autograd.leaf_variable(node) is not None for node in self.graph)

    def cuts(self, tensor: Tensor) -> tuple[Cut, ...]:
        """Return the cuts between a tensor and the outputs, likeliest first.

        A cut is a recorded call whose result lost the graph, so that no gradient reaches the
        tensor.
        """
        is_uncut = self.is_lost and not self.flow.last_cuts(self._ends)
        ends = self.flow.exits if is_uncut else self._ends
        dependent = self.flow.dependent(tensor) if ends else set()
        found = self.flow.last_cuts(ends, dependent) if dependent else ()
        return self._cuts_at(found, tensor)

    def _is_unlikely(self, number: int, tensor: Tensor) -> bool:
        """Return whether a cut is unlikely to be the cause that a tensor gets no gradient.

        A cut is a call whose result lost its graph; `number` is the number of the result's state in
        the recorded data flow. A cut is unlikely in three cases:

        - It is a guess: a tensor was converted to a Python number, and no later call is known to
          have used exactly this number.
        - It belongs to an earlier training step: the values that lost their graph are older than
          the last write to the tensor or the last backward pass that freed its graph.
        - It copied weights, as `state_dict()` and `deepcopy()` do.
        """
        state, storage = self.flow.states[number], _autograd.storage_identity(tensor) or 0
        starts = [call.start for call, _ in self.flow.writes.get(storage, ())]
        starts += [one.number for one in self.log.backwards.values() if one.frees]
        calls = [self.flow.states[one].call for one in state.lost]
        is_old = all(call is not None and call.start < max(starts, default=0) for call in calls)
        is_guess = state.kind is CutKind.PYTHON and number not in self.flow.certain
        return is_old or is_guess or self.log.cut_of(state).operation in COPYING_WEIGHTS

    def cuts_before(self, tensor: Tensor) -> tuple[Cut, ...]:
        """Return the cuts at which the values of a tensor lost their graph, likeliest first.

        A cut is a recorded call whose result has no graph although an input had one.
        """
        state = self.flow.state_of(tensor)
        return self._cuts_at(() if state is None else self.flow.last_cuts([state]), tensor)

    def exits(self, tensor: Tensor) -> tuple[Cut, ...]:
        """Return the first place where values of a tensor left PyTorch, or an empty tuple."""
        exits = self.flow.exits
        dependent = self.flow.dependent(tensor, by_graph=False) if exits else set()
        return self._cuts_at([one for one in exits if one in dependent][:1], tensor)

    def _cuts_at(self, states: Iterable[int], tensor: Tensor) -> tuple[Cut, ...]:
        """Return the cuts whose results are these states, the likeliest first.

        A cut is a call whose result lost its graph. `states` are numbers in the recorded data flow.
        """
        ranked = sorted(states, key=lambda one: self._is_unlikely(one, tensor))
        return tuple(self.log.cut_of(self.flow.states[number]) for number in ranked)

    def first_use(self, tensor: Tensor) -> Use | None:
        """Return the first recorded call that used a tensor; None if there is none."""
        value = self.log.tape.value_of(tensor)
        call = None if value is None else next(self.flow.uses(value), None)
        return None if call is None or value is None else self._use(call, value)

    def shared_use(self, tensor: Tensor) -> Use | None:
        """Return a call that computed the outputs from another leaf in the memory of a tensor.

        Return None if there is no such call.
        """
        own, address = self.log.tape.value_of(tensor), _autograd.storage_identity(tensor)
        uses = (
            self._use(call, value)
            for call in self.log.spans
            if any(number in self.numbers for number in range(call.start, call.stop))
            for value in call.inputs
            if value.storage is not None and value.address == address
            if value is not own and not value.has_graph
        )
        return None if address is None else next(uses, None)

    def _use(self, call: Call, value: Value) -> Use:
        """Return a recorded call as a use of `value`, one of its inputs."""
        return Use(call.name, self.log.source_at(call.place), value in call.graphs)

    def derivative(self, tensor: Tensor) -> int | None:
        """Return a node behind the outputs that a derivative created, by its sequence number.

        The differentiated function depended on the tensor. If the outputs do not, they are
        derivatives in which the tensor no longer occurs. Return None if there is no such node.
        """
        passes = [call for call in self.log.spans if call.roots is not None]
        dependent = self.flow.dependent(tensor) if passes else set()
        values = {self.flow.states[number].value for number in dependent}
        numbers = (
            number
            for number in self.numbers
            if (call := find_call(passes, number)) and not values.isdisjoint(call.inputs)
        )
        return next(numbers, None)

    @cached_property
    def numbers(self) -> dict[int, None]:
        """The sequence numbers of the nodes behind the outputs, in order; leaves have none."""
        numbers = map(_autograd.sequence_nr, self.graph)
        return dict.fromkeys(number for number in numbers if number is not None)

    @cached_property
    def _ends(self) -> list[int]:
        """The numbers of the outputs' states in the recorded data flow.

        An output without a recorded state is left out.
        """
        states = map(self.flow.state_of, self.outputs)
        return [state for state in states if state is not None]


class Origin(NamedTuple):
    """The only leaf that a tensor was computed from.

    Attributes:
        leaf: The leaf.
        operation: The first operation on the leaf, as it is written in code.
        is_same: Whether the tensor has numbers of the leaf unchanged, perhaps only some of them, in
            another order or in another dtype.
    """

    leaf: Tensor
    operation: str
    is_same: bool


def origin_of(tensor: Tensor) -> Origin | None:
    """Return the only leaf that a tensor was computed from.

    Return None if there are several, or if more than 20 operations lie between the two.
    """
    steps: list[str] = []
    for node in _nodes_behind(tensor):
        leaf = _autograd.leaf_variable(node)
        if leaf is not None and steps:
            return Origin(leaf, steps[-1], is_same={*steps} <= _KEEPING)
        steps.append(operation_of(node))
    return None


def edges_behind(tensor: Tensor) -> Iterator[_autograd.Edge]:
    """Yield the edges that lead from a copy or slice to the tensors that it was taken from.

    Yield nothing for a tensor that was computed in another way.
    """
    for node in _nodes_behind(tensor):
        if operation_of(node) not in _KEEPING:
            return
        yield from _edges(node)


def _nodes_behind(tensor: Tensor) -> Iterator[Node]:
    """Yield the nodes behind a tensor, as long as each has only one input that needs a gradient."""
    node = _autograd.plain(tensor, "grad_fn")
    for _ in range(MAX_STEPS):
        if node is None:
            return
        yield node
        edges = _edges(node)
        node = edges[0][0] if len(edges) == 1 else None


def _edges(node: Node) -> list[_autograd.Edge]:
    """Return the edges to the inputs of a node, without inputs that need no gradient."""
    edges = _autograd.next_functions(node)
    return [(after, number) for after, number in edges if after is not None]


MAX_STEPS = 20


def operation_of(node: Node) -> str:
    """Return the operation of a node as it is written in code, such as `to` or `matmul`."""
    name = _autograd.stem(_autograd.node_name(node))
    word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return _WORDS.get(word, word)


_WORDS = {
    **dict.fromkeys(("to_copy", "to_copy_slices"), "to"),
    **dict.fromkeys(("unsafe_view", "reshape_alias", "view"), "view"),
    **dict.fromkeys(("select", "slice", "index"), "indexing"),
}
_MOVING = "view to clone t transpose permute squeeze unsqueeze expand alias contiguous unfold"
_KEEPING = {*_MOVING.split(), "indexing", "split", "unbind", "diagonal", "as_strided"}
