"""Reading live nodes, one after the other, into columns of plain values."""

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._log import Log
from leafgrad._reading import Kind, Named, Nodes, Origin, Reading
from leafgrad._traced import CustomFunction


class Reader:
    """Reads the nodes of a graph, with an eye on what they share."""

    def __init__(
        self,
        nodes: Sequence[Node],
        tensors: Sequence[tuple[str | None, torch.Tensor]],
        log: Log,
    ) -> None:
        """Take nodes, the tensors at hand that may belong to them, with their names if any, a log.

        The log is empty where nothing was recorded.
        """
        self.nodes = nodes
        self.log = log
        self.storages = defaultdict[int, int](count().__next__)
        self.shared_kinds: dict[object, Kind] = {}
        self.kinds = [*map(self._kind, nodes)]
        self.leaves = {
            place: _autograd.leaf_variable(node)
            for place, (node, kind) in enumerate(zip(nodes, self.kinds, strict=True))
            if kind.is_leaf
        }
        at_hand = [*self.leaves.values(), *(tensor for _, tensor in tensors)]
        self.parameters = set(_parameter_storages(at_hand))
        self.tensors = defaultdict[Node | int, list[tuple[str | None, torch.Tensor]]](list)
        for name, tensor in tensors:
            node = _autograd.plain(tensor, "grad_fn")
            self.tensors[id(tensor) if node is None else node].append((name, tensor))

    def read(
        self,
        wiring: _autograd.Wiring,
        roots: Iterable[Node],
        complete: Callable[[Nodes], Nodes],
    ) -> Reading:
        """Read every node."""
        numbers = [*map(_autograd.sequence_nr, self.nodes)]
        starts = dict.fromkeys(roots)
        places = {node: place for place, node in enumerate(self.nodes) if node in starts}
        return Reading(
            wiring=wiring,
            roots=[places[root] for root in starts],
            kinds=self.kinds,
            outputs=self._outputs(),
            numbers=numbers,
            saved=dict(self._saved()),
            named=dict(self._named()),
            origins=dict(_origins(numbers, self.log)) if self.log else {},
            complete=complete,
        )

    def _kind(self, node: Node) -> Kind:
        kind = self.shared_kinds.get(type(node))
        if kind is None:
            name = _autograd.node_name(node)
            kind = Kind(name, _autograd.is_leaf_node(node), _custom_function(node))
            key = type(node) if _autograd.is_of_its_own_type(node) else name
            kind = self.shared_kinds.setdefault(key, kind)
        return kind

    def _outputs(self) -> list[tuple[_autograd.ForwardOutput, ...]]:
        """Read what each operation made, equal ones into one value."""
        known: dict[Any, Any] = {}
        every = map(_autograd.forward_outputs, self.nodes)
        return [known.setdefault(outputs, outputs) for outputs in every]

    def _named(self) -> Iterator[tuple[int, Named]]:
        for place, node in enumerate(self.nodes):
            leaf = self.leaves.get(place)
            tensors = self.tensors.get(node if leaf is None else id(leaf), [])
            if tensors or leaf is not None:
                at_hand = [tensor for _, tensor in tensors] + ([] if leaf is None else [leaf])
                names = tuple(name for name, _ in tensors if name is not None)
                yield place, Named(names, _retains_grad(at_hand))

    def _saved(self) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        for place, node in enumerate(self.nodes):
            slots = _autograd.saved_slots(node)
            if slots:
                yield place, [*map(self._kept, slots)]

    def _kept(self, slot: _autograd.Slot) -> dict[str, Any]:
        tensor = slot.tensor
        if tensor is None:
            return {"name": slot.name, "state": slot.state}
        identity, nbytes = _autograd.storage(tensor) or (None, None)
        shared = identity in self.parameters
        shown = slot.state != "packed"
        versions = slot.saved_version, slot.current_version
        writes = self.log.writes_between(identity, *versions)
        return {
            "name": slot.name,
            "state": slot.state,
            "shape": _autograd.shape(tensor) if shown else None,
            "dtype": _autograd.plain(tensor, "dtype") if shown else None,
            "device": _autograd.plain(tensor, "device"),
            "nbytes": nbytes,
            "storage": None if identity is None else self.storages[identity],
            "is_parameter": shared or _autograd.is_parameter_or_view(tensor),
            "saved_version": slot.saved_version,
            "current_version": slot.current_version,
            "writes": writes,
        }


def _origins(numbers: Iterable[int | None], log: Log) -> Iterator[tuple[int, Origin]]:
    """Tell of each node that an operation made where that was recorded, if it was."""
    for place, number in enumerate(numbers):
        if number is not None:
            yield place, Origin(log.module_of(number), log.source_of(number))


def _parameter_storages(tensors: Iterable[Any]) -> Iterator[int]:
    """Identify the storages that belong to parameters."""
    for tensor in tensors:
        if _autograd.is_parameter(tensor) and (memory := _autograd.storage(tensor)):
            yield memory[0]


def _retains_grad(tensors: list[torch.Tensor]) -> bool | None:
    """Tell whether one of a node's tensors retains its gradient, None where none is at hand."""
    return any(_autograd.plain(tensor, "retains_grad") for tensor in tensors) if tensors else None


def _custom_function(node: Node) -> CustomFunction | None:
    function = _autograd.forward_class(node)
    if function is None:
        return None
    code = getattr(inspect.unwrap(function.forward), "__code__", None)
    return CustomFunction(
        name=f"{function.__module__}.{function.__qualname__}",
        file=code.co_filename if code else None,
        line=code.co_firstlineno if code else None,
    )
