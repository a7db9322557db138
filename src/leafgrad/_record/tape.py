"""The tape of a recording: each PyTorch call in order, with the values in and out of it."""

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
    """A tensor as the tape knows it: it is not kept alive, and no later tensor is taken for it.

    Attributes:
        has_graph: Whether the tensor had a graph when it was last seen.
        follows_graph: Whether it has none, but was computed from something that has one.
        is_floating: Whether it holds numbers that may have a gradient.
        number: The number of its place in a graph that was built out of sight; None for others.
        address: The identity of its storage, where a question may need it; for what was made of an
            array, that of the tensor that had become the array.
        storage: A reference to that storage, which shows whether it still lives.
    """

    __slots__ = (
        "address",
        "follows_graph",
        "has_graph",
        "is_floating",
        "number",
        "storage",
    )
    if not TYPE_CHECKING:  # type checkers want functions, which would be slower
        __eq__ = object.__eq__  # that of `ref` compares tensors
        __hash__ = object.__hash__

    def __init__(self, _: Tensor) -> None:
        """Refer to a tensor of which nothing is known yet."""
        self.has_graph: bool = False
        self.follows_graph: bool = False
        self.is_floating: bool = True
        self.number: int | None = None
        self.address: int | None = None
        self.storage: Any = None  # a `StorageWeakRef` or None


class Site(NamedTuple):
    """What a call that lost a graph, or that wrote, is a part of.

    Attributes:
        within: The step of an optimizer, such as ``"SGD.step"``, or the loading of weights.
        place: The place of the call that the user made.
        function: What the user called, if that cuts its results off their graph.
        is_in_custom_function: Whether it is in the forward of a custom function, whose results may
            yet get a graph.
        switch: What had switched gradients off, such as ``"no_grad()"``, if they were, and where.
    """

    within: str | None
    place: Place | None
    function: str | None = None
    is_in_custom_function: bool = False
    switch: tuple[str | None, Place | None] = (None, None)


class WriteOnTape(NamedTuple):
    """A write into one storage, given by its identity."""

    storage: int
    value: Value
    version_before: int
    version_after: int
    through_view: bool


class Call(NamedTuple):
    """One call of a PyTorch function.

    Attributes:
        start: The number of the first node that it made.
        stop: The number behind that of the last one.
        place: The user's code and the instruction in it that called.
        name: The name of the function.
        inputs: The values that went in.
        graphs: Those of them that required grad.
        outputs: The values that came out or were written to.
        recorded: Those of them that had a graph then.
        is_grad_enabled: Whether autograd was recording.
        site: What the call is a part of, if it lost a graph or wrote.
        writes: What it wrote to.
        floats: The Python numbers that went in or came out, once any had come out.
        roots: The numbers of the outputs that a backward pass began at whose result can be
            differentiated; None for all other calls.
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
    """Return the call that made the node with a number, None if none of them did."""
    after = bisect_right(calls, number, key=itemgetter(0))
    return calls[after - 1] if after and number < calls[after - 1][1] else None


class Tape:
    """All calls in order, and the values in them. Nothing is kept alive.

    Attributes:
        calls: The calls.
        values: The newest value for each identity of a tensor.
        structure: The graphs that were built out of sight.
        arrays: What became an array, by the address of its memory.
        has_exits: Whether anything has left PyTorch.
        next_number: The first number that is not accounted for yet.
    """

    def __init__(self, number: int) -> None:
        """Start before the node with this number."""
        self.calls: list[Call] = []
        self.values: dict[int, Value] = {}
        self.structure: _autograd.GraphStructure = _autograd.GraphStructure()
        self.arrays: dict[int, Value] = {}
        self.has_exits: bool = False
        self.next_number: int = number

    def value_of(self, tensor: Tensor) -> Value | None:
        """Return the value that stands for a tensor, None if no call has seen it."""
        value = self.values.get(id(tensor))
        return value if value is not None and value() is tensor else None

    def read(self, tensors: Iterable[Tensor]) -> tuple[list[Value], list[Value]]:
        """Return the values of the inputs of a call, and those of them that require grad."""
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
        """Return a new value for a tensor that got a graph out of sight, as from a function."""
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
        """Return the values of the outputs of a call, and those of them that have a graph."""
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
        """Note the memory of a tensor without a graph, which others may come to share."""
        inner = _autograd.without_wrappers(tensor)
        if type(tensor) is Parameter or _autograd.storage_identity(inner) is None:
            return
        value.storage = _autograd.storage_reference(inner)
        value.address = value.storage.cdata
        array = self.arrays.get(_autograd.memory_address(inner) or 0) if self.arrays else None
        if array is not None and not array.storage.expired():
            value.address = array.address

    def note_array(self, value: Value) -> None:
        """Note that a tensor became an array in the same memory."""
        tensor = value()
        memory = None if tensor is None else _autograd.memory_address(tensor)
        if tensor is not None and memory is not None:
            value.storage = value.storage or _autograd.storage_reference(tensor)
            value.address = value.storage.cdata
            self.arrays[memory] = value


def has_graph(tensor: Tensor) -> bool:
    """Return whether a tensor is the result of something recorded."""
    if not requires_grad(tensor):
        return False
    try:
        return not _is_leaf(tensor)
    except RuntimeError:  # an invalid view
        return False


requires_grad, _is_leaf = _autograd.reader("requires_grad"), _autograd.reader("is_leaf")
_dtype = _autograd.reader("dtype")
ARRAYS = {"numpy", "__array__", "__dlpack__"}
UNSEEN = "unseen"
"""The name of what stands for a call that is not announced."""
