"""The tape of a recording: all PyTorch calls in order, with their inputs and outputs.

A tensor *has a graph* if it has a `grad_fn`. The *number* of a node is its sequence number, as far
as it has one.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import torch
from torch import Tensor
from torch.nn import Parameter

from leafgrad import _autograd
from leafgrad._record.place import Place


class Value(ref[Tensor]):
    """A weak reference to a tensor on the tape, with facts about the tensor.

    Attributes:
        has_graph: Whether the tensor had a graph at its last call.
        follows_graph: Whether it has no graph, but was computed from a tensor with one.
        is_floating: Whether its dtype is floating-point or complex.
        number: The number of its node, if its graph was built by unrecorded code.
        address: The identity of its storage. For a tensor made from an array, it is that of the
            tensor from which the array was made.
        storage: A weak reference to the storage.
    """

    __slots__ = (
        "address",
        "follows_graph",
        "has_graph",
        "is_floating",
        "number",
        "storage",
    )
    if not TYPE_CHECKING:  # type checkers want functions, which are slower
        __eq__ = object.__eq__  # `ref.__eq__` would compare the tensors
        __hash__ = object.__hash__

    def __init__(self, _: Tensor) -> None:
        """Start without facts about the tensor."""
        self.has_graph: bool = False
        self.follows_graph: bool = False
        self.is_floating: bool = True
        self.number: int | None = None
        self.address: int | None = None
        self.storage: Any = None  # a `StorageWeakRef` or None


class Site(NamedTuple):
    """The context of a call that lost a graph or wrote in place.

    Attributes:
        within: The running optimizer step, such as ``"SGD.step"``, or ``"load_state_dict"``.
        place: The user line that made the call.
        function: The function that the user called, if it detaches its results.
        is_in_custom_function: Whether the call is in the forward of a custom function, whose
            results may still get a graph.
        switch: What had disabled gradients, such as ``"no_grad()"``, and where.
    """

    within: str | None
    place: Place | None
    function: str | None = None
    is_in_custom_function: bool = False
    switch: tuple[str | None, Place | None] = (None, None)


class WriteOnTape(NamedTuple):
    """An in-place write into a storage, given by its identity, and the versions around it."""

    storage: int
    value: Value
    version_before: int
    version_after: int
    through_view: bool


class Call(NamedTuple):
    """One call of a PyTorch function.

    Attributes:
        start: The sequence number of the first node that it created.
        stop: The sequence number behind its last node; `start` if it created none.
        place: The user line that made the call.
        name: The name of the function.
        inputs: The input tensors.
        graphs: The inputs that required grad.
        outputs: The output tensors, and the inputs that were changed in place.
        recorded: The outputs that had a graph after the call.
        is_grad_enabled: Whether gradients were enabled.
        site: The context of the call, if it lost a graph or wrote in place.
        writes: The in-place writes.
        floats: The Python numbers among arguments and results, once one had come from a tensor.
        roots: For a backward pass with ``create_graph=True``, the numbers of the outputs at which
            it began; else None.
    """

    start: int
    stop: int
    place: Place | None
    name: str
    inputs: tuple[Value, ...] = ()
    graphs: tuple[Value, ...] = ()
    outputs: tuple[Value, ...] = ()
    recorded: tuple[Value, ...] = ()
    is_grad_enabled: bool = True
    site: Site | None = None
    writes: tuple[WriteOnTape, ...] = ()
    floats: tuple[float, ...] = ()
    roots: tuple[int | None, ...] | None = None


def find_call(calls: Sequence[Call], number: int) -> Call | None:
    """Return the call among `calls` that created the node with a sequence number, or None."""
    after = bisect_right(calls, number, key=itemgetter(0))
    return calls[after - 1] if after and number < calls[after - 1][1] else None


class Tape:
    """All calls in order, and the tensors in them as weak references.

    Attributes:
        calls: The calls.
        values: The newest `Value` for each `id` of a tensor.
        structure: The graphs that were built by unrecorded code.
        arrays: The tensors that share memory with an array, by memory address.
        has_exits: Whether a tensor was converted to a Python number or an array.
        next_number: The first sequence number behind all recorded nodes.
    """

    def __init__(self, number: int) -> None:
        """Start an empty tape; `number` is the sequence number of the next node."""
        self.calls: list[Call] = []
        self.values: dict[int, Value] = {}
        self.structure: _autograd.GraphStructure = _autograd.GraphStructure()
        self.arrays: dict[int, Value] = {}
        self.has_exits: bool = False
        self.next_number: int = number

    def value_of(self, tensor: Tensor) -> Value | None:
        """Return the `Value` that stands for a tensor on the tape, or None if no call used it."""
        value = self.values.get(id(tensor))
        return value if value is not None and value() is tensor else None

    def read(self, tensors: Iterable[Tensor]) -> tuple[list[Value], list[Value]]:
        """Return a `Value` for each input of a call, and those of the inputs that require grad."""
        inputs: list[Value] = []
        graphs: list[Value] = []
        is_enabled = torch.is_grad_enabled()
        for tensor in tensors:
            known = self.values.get(id(tensor))
            value = known if known is not None and known() is tensor else self._add(tensor)
            if requires_grad(tensor):
                if not value.has_graph and has_graph(tensor):
                    value = self._note_unseen_graph(value, tensor)
                graphs.append(value)
            if is_enabled and value.storage is None and not value.has_graph:
                self._note_storage(value, tensor)
            inputs.append(value)
        return inputs, graphs

    def _add(self, tensor: Tensor) -> Value:
        value = self.values[id(tensor)] = Value(tensor)
        return value

    def _note_unseen_graph(self, value: Value, tensor: Tensor) -> Value:
        """Return a new `Value` for a tensor that got a graph from unrecorded code."""
        made = self._add(tensor)
        made.has_graph = True
        made.number = self.structure.add(tensor)
        number = self.next_number
        self.calls.append(
            Call(number, number, None, UNSEEN, inputs=(value,), outputs=(made,), recorded=(made,))
        )
        return made

    def write(
        self,
        tensors: Sequence[Tensor],
        inputs: Sequence[Value],
        graphs: Sequence[Value],
        *,
        is_unseen: bool,
    ) -> tuple[list[Value], list[Value]]:
        """Return a `Value` for each output tensor of a call, and those of outputs with a graph.

        Args:
            tensors: The output tensors.
            inputs: The values of the inputs.
            graphs: Those of the inputs that require grad.
            is_unseen: Whether the call created no node. If an output has a graph nevertheless,
                unrecorded code built it.
        """
        outputs: list[Value] = []
        recorded: list[Value] = []
        follows = bool(graphs)
        for value in inputs:
            follows = follows or value.follows_graph
        for tensor in tensors:
            known = self.values.get(id(tensor))
            if known is not None and known() is tensor:
                value = known
            else:
                value = self._add(tensor)
                dtype = _dtype(tensor)
                value.is_floating = dtype.is_floating_point or dtype.is_complex
            had_graph = value.has_graph
            value.has_graph = has_graph(tensor)
            if value.has_graph:
                if is_unseen and not had_graph:
                    value.number = self.structure.add(tensor)
                recorded.append(value)
            else:
                value.follows_graph = follows or value.follows_graph
                if value.follows_graph and value.storage is None:
                    self._note_storage(value, tensor)
            outputs.append(value)
        if len(outputs) > 1:
            for value in (*inputs, *outputs):
                living = value()
                if living is not None and value.address is None:
                    value.address = _autograd.storage_identity(living)
        return outputs, recorded

    def _note_storage(self, value: Value, tensor: Tensor) -> None:
        """Store in `value` the identity of the memory of its tensor, unless it is a parameter."""
        inner = _autograd.without_wrappers(tensor)
        if type(tensor) is Parameter or _autograd.storage_identity(inner) is None:
            return
        value.storage = _autograd.storage_reference(inner)
        value.address = value.storage.cdata
        array = self.arrays.get(_autograd.memory_address(inner) or 0) if self.arrays else None
        if array is not None and not array.storage.expired():
            value.address = array.address

    def note_array(self, value: Value) -> None:
        """Record that the tensor of `value` was converted to an array that shares its memory."""
        tensor = value()
        memory = None if tensor is None else _autograd.memory_address(tensor)
        if tensor is not None and memory is not None:
            value.storage = value.storage or _autograd.storage_reference(tensor)
            value.address = value.storage.cdata
            self.arrays[memory] = value


def has_graph(tensor: Tensor) -> bool:
    """Check whether a tensor has a `grad_fn`; False for an invalid view."""
    if not requires_grad(tensor):
        return False
    try:
        return not _is_leaf(tensor)
    except RuntimeError:  # The tensor is an invalid view.
        return False


requires_grad, _is_leaf = _autograd.reader("requires_grad"), _autograd.reader("is_leaf")
_dtype = _autograd.reader("dtype")
ARRAYS = {"numpy", "__array__", "__dlpack__"}
UNSEEN = "unseen"
"""The name on the tape for calls that PyTorch does not announce to function modes."""
