"""Reading live nodes, one after the other, into columns of plain values."""

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._log import Log
from leafgrad._reading import Kind, Named, Nodes, Origin, Reading, Saved
from leafgrad._traced import CustomFunction, Write


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
        self.shared_kinds: dict[object, Kind] = {**_KINDS_OF_FORMULAS}
        self.kinds = [self.shared_kinds.get(type(node)) or self._kind(node) for node in nodes]
        self.leaves = _autograd.leaf_variables(nodes)
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
        numbers = _autograd.sequence_nrs(self.nodes)
        starts = dict.fromkeys(roots)
        known = {*starts, *self.tensors}
        places = {node: place for place, node in enumerate(self.nodes) if node in known}
        return Reading(
            wiring=wiring,
            roots=[places[root] for root in starts],
            kinds=self.kinds,
            outputs=_autograd.outputs_of(self.nodes),
            numbers=numbers,
            saved=saved,
            named=dict(self._named(places)),
            origins=dict(_origins(numbers, self.log)) if self.log else {},
            passes=self.log.passes if self.log.spans else None,
            complete=complete,
        )

    def _kind(self, node: Node) -> Kind:
        name = _autograd.node_name(node)
        kind = Kind(
            name=name,
            is_leaf=_autograd.is_leaf_node(node),
            custom_function=_custom_function(node),
            hides_saved=_autograd.hides_saved(node),
        )
        if _autograd.is_own_formula(node):
            _KINDS_OF_FORMULAS[type(node)] = kind
        key = type(node) if _autograd.is_of_its_own_type(node) else name
        return self.shared_kinds.setdefault(key, kind)

    def _named(self, places: Mapping[Node, int]) -> Iterator[tuple[int, Named]]:
        """Read what is known from the leaves and from the tensors that nodes have made."""
        retaining = _autograd.reader("retains_grad")
        for place, leaf in self.leaves.items():
            if id(leaf) in self.tensors:
                yield place, _known_from([(None, leaf), *self.tensors[id(leaf)]])
            elif retaining(leaf):
                yield place, Named((), retains_grad=True)
        for node, place in places.items():
            if node in self.tensors:
                yield place, _known_from(self.tensors[node])

    def saved(self) -> Saved:
        """Read what the nodes keep."""
        at_hand = [*self.leaves.values(), *(t for many in self.tensors.values() for _, t in many)]
        parameters = set(_parameter_storages(at_hand))
        places, storages, facts = _autograd.saved_facts(self.nodes, parameters)
        return Saved(places, storages, facts, dict(self._writes(storages, facts)))

    def _writes(
        self, storages: Iterable[int | None], facts: Iterable[_autograd.SavedFacts]
    ) -> Iterator[tuple[int, tuple[Write, ...]]]:
        """Tell what wrote into what was saved, as far as that was recorded."""
        rows = enumerate(zip(storages, facts, strict=True)) if self.log.writes else ()
        for row, (storage, told) in rows:
            versions = told.saved_version, told.current_version
            if writes := self.log.writes_between(storage, *versions):
                yield row, writes


_KINDS_OF_FORMULAS: dict[object, Kind] = {}  # PyTorch's own, whose types live for ever anyway


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
