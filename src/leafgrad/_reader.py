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
from leafgrad._reading import Kept, Kind, Named, Nodes, Origin, Reading, Saved
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
        self.parameters = set[int]()
        self.shared_kinds: dict[object, Kind] = {}
        self.kinds = [*map(self._kind, nodes)]
        self.leaves = {
            place: _autograd.leaf_variable(node)
            for place, (node, kind) in enumerate(zip(nodes, self.kinds, strict=True))
            if kind.is_leaf
        }
        self.tensors = defaultdict[Node | int, list[tuple[str | None, torch.Tensor]]](list)
        for name, tensor in tensors:
            node = _autograd.plain(tensor, "grad_fn")
            self.tensors[id(tensor) if node is None else node].append((name, tensor))

    def read(
        self,
        wiring: _autograd.Wiring,
        roots: Iterable[Node],
        saved: Saved,
        complete: Callable[[Nodes], Nodes],
    ) -> Reading:
        """Read the rest of every node."""
        numbers = [*map(_autograd.sequence_nr, self.nodes)]
        starts = dict.fromkeys(roots)
        places = {node: place for place, node in enumerate(self.nodes) if node in starts}
        return Reading(
            wiring=wiring,
            roots=[places[root] for root in starts],
            kinds=self.kinds,
            outputs=[*map(_autograd.OutputReader(), self.nodes)],
            numbers=numbers,
            saved=saved,
            named=dict(self._named()),
            origins=dict(_origins(numbers, self.log)) if self.log else {},
            passes=self.log.passes if self.log.spans else None,
            complete=complete,
        )

    def _kind(self, node: Node) -> Kind:
        kind = self.shared_kinds.get(type(node))
        if kind is None:
            name = _autograd.node_name(node)
            kind = Kind(
                name=name,
                is_leaf=_autograd.is_leaf_node(node),
                custom_function=_custom_function(node),
                hides_saved=_autograd.hides_saved(node),
            )
            key = type(node) if _autograd.is_of_its_own_type(node) else name
            kind = self.shared_kinds.setdefault(key, kind)
        return kind

    def _named(self) -> Iterator[tuple[int, Named]]:
        """Read what is known from the leaves and from the tensors that nodes have made."""
        for place, leaf in self.leaves.items():
            yield place, _known_from([(None, leaf), *self.tensors.get(id(leaf), ())])
        for place, node in enumerate(self.nodes):
            if node in self.tensors:
                yield place, _known_from(self.tensors[node])

    def saved(self) -> Saved:
        """Read what the nodes keep; equal facts become one value, however many have them."""
        at_hand = [*self.leaves.values(), *(t for many in self.tensors.values() for _, t in many)]
        self.parameters = set(_parameter_storages(at_hand))
        saved = Saved()
        known: dict[tuple[Any, ...], Kept] = {}
        for place, node in enumerate(self.nodes):
            for slot in _autograd.saved_slots(node):
                storage, facts = self._kept(slot)
                kept = known.get(facts)
                if kept is None:
                    kept = known[facts] = Kept(*facts)
                saved.places.append(place)
                saved.storages.append(storage)
                saved.kept.append(kept)
        return saved

    def _kept(self, slot: _autograd.Slot) -> tuple[int | None, tuple[Any, ...]]:
        """Read one slot: the number of its storage, and what other slots may have just so."""
        name, state, tensor, saved, current = slot
        if tensor is None:
            return None, (name, state)
        identity, nbytes = _autograd.storage(tensor) or (None, None)
        number = None if identity is None else self.storages[identity]
        shape, dtype, device, is_parameter = _autograd.facts(tensor)
        shown = (None, None) if state == "packed" else (shape, dtype)
        is_own = is_parameter or identity in self.parameters
        writes = () if saved == current else self.log.writes_between(identity, saved, current)
        return number, (name, state, *shown, device, nbytes, is_own, saved, current, writes)


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


def _known_from(tensors: Sequence[tuple[str | None, Any]]) -> Named:
    """Tell what a node's tensors are called, and whether one of them retains its gradient."""
    names = tuple([name for name, _ in tensors if name is not None])
    return Named(names, any(_autograd.plain(tensor, "retains_grad") for _, tensor in tensors))


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
