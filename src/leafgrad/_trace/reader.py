"""Reading live nodes, one after the other, into columns of plain values."""

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._graph.nodes import CustomFunction, Write
from leafgrad._record.log import Log
from leafgrad._record.module_paths import Roots
from leafgrad._trace.columns import Kind, Named, Nodes, Origin, Reading, Saved

AtHand = list[tuple[str | None, torch.Tensor]]  # with their names, if any


class Reader:
    """Reads the nodes of a graph, with an eye on what they share."""

    def __init__(
        self,
        numbers: Mapping[Any, int],
        tensors: Sequence[tuple[str | None, torch.Tensor]],
        log: Log,
        roots: Roots,
    ) -> None:
        """Take nodes, the tensors at hand that may belong to them, with their names if any, a log.

        The log is empty where nothing was recorded. Modules are called by their paths in the roots.
        """
        self.numbers = numbers
        self.nodes = [*numbers]
        self.types = [*map(type, self.nodes)]
        self.log = log
        self.roots = roots
        self.leaves = _autograd.leaf_variables(self.nodes, self.types)
        self.of_leaves: dict[int, AtHand] = defaultdict(list)
        self.of_nodes: dict[Node, AtHand] = defaultdict(list)
        for name, tensor in tensors:
            node = _autograd.plain(tensor, "grad_fn")
            of_same = self.of_leaves[id(tensor)] if node is None else self.of_nodes[node]
            of_same.append((name, tensor))

    def read(
        self, wiring: _autograd.Wiring, saved: Saved, complete: Callable[[Nodes], Nodes]
    ) -> Reading:
        """Read the rest of every node."""
        return Reading(
            wiring=wiring,
            kinds=self._kinds(),
            outputs=_autograd.outputs_of(self.nodes),
            saved=saved,
            named=dict(self._named()),
            origins=dict(_origins(wiring, self.log, self.roots)) if self.log else {},
            passes=self.log.passes if self.log.spans else None,
            complete=complete,
        )

    def _kinds(self) -> list[Kind]:
        """Tell the kind of each node, by its type where that is known already."""
        try:
            return [*map(_KINDS_OF_FORMULAS.__getitem__, self.types)]
        except KeyError:
            shared = {**_KINDS_OF_FORMULAS}
            nodes = zip(self.types, self.nodes, strict=True)
            return [shared.get(kind) or _kind(node, shared) for kind, node in nodes]

    def _named(self) -> Iterator[tuple[int, Named]]:
        """Read what is known from the leaves and from the tensors that nodes have made."""
        leaves = self.leaves
        retaining = map(_autograd.reader("retains_grad"), leaves.values())
        for number in compress(leaves, retaining):
            yield number, Named((), retains_grad=True)
        for number, leaf in leaves.items() if self.of_leaves else ():
            if id(leaf) in self.of_leaves:
                yield number, _known_from([(None, leaf), *self.of_leaves[id(leaf)]])
        for node, tensors in self.of_nodes.items():
            if node in self.numbers:
                yield self.numbers[node], _known_from(tensors)

    def saved(self) -> Saved:
        """Read what the nodes keep."""
        others = [*self.of_leaves.values(), *self.of_nodes.values()]
        at_hand = [*self.leaves.values(), *(tensor for many in others for _, tensor in many)]
        parameters = _autograd.storages_of_parameters(at_hand)
        numbers, storages, facts, wrappers = _autograd.saved_facts(self.nodes, parameters)
        return Saved(numbers, storages, facts, dict(self._writes(storages, facts, wrappers)))

    def _writes(
        self,
        storages: Iterable[int | None],
        facts: Iterable[_autograd.Told],
        wrappers: Mapping[int, int],
    ) -> Iterator[tuple[int, tuple[Write, ...]]]:
        """Tell what wrote into what was saved, as far as that was recorded."""
        rows = enumerate(zip(storages, facts, strict=True)) if self.log.writes else ()
        for row, (storage, told) in rows:
            *_, saved, current = told
            written = wrappers.get(row, storage)
            if writes := self.log.writes_between(written, saved, current):
                yield row, writes


_KINDS_OF_FORMULAS: dict[object, Kind] = {}  # PyTorch's own, whose types live for ever anyway


def _kind(node: Node, shared: dict[object, Kind]) -> Kind:
    """Tell the kind of a node, and keep it for all that share it."""
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
    return shared.setdefault(key, kind)


def _origins(wiring: _autograd.Wiring, log: Log, roots: Roots) -> Iterator[tuple[int, Origin]]:
    """Tell of each node that an operation made where that was recorded, if it was."""
    paths = log.paths(roots)
    for place, number in enumerate(_autograd.sequence_nrs(wiring.sequence_nrs)):
        if number is not None:
            call = log.module_of(number)
            module = None if call is None else paths[id(call)]
            yield place, Origin(module, log.source_of(number))


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
