"""Read a live graph once into nodes that are values."""

import inspect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._graph.nodes import CustomFunction, SavedTensor, TracedEdge, TracedNode
from leafgrad._record.log import Log
from leafgrad._record.module_paths import ModuleCall, Roots
from leafgrad._trace.derivatives import name_derivatives, pass_at
from leafgrad._trace.modules import infer_modules, name_leaf_modules

Tensors = Sequence[tuple[str | None, torch.Tensor]]
"""Tensors with their names, if any."""

Edges = tuple[TracedEdge, ...]


class NodeKind(NamedTuple):
    """The facts that all nodes of one kind share."""

    name: str
    is_leaf: bool
    custom_function: CustomFunction | None
    hides_saved: bool


_FORMULAS: dict[object, NodeKind] = {}
"""The kinds of PyTorch's own nodes by type. These types live as long as the process."""


class GraphReader:
    """Reads a graph. Each node comes before its successors.

    Attributes:
        graph: The live nodes with their successors.
        nodes: The live nodes.
        places: The index of each node. None maps to None: the target of an input without a
            gradient.
        leaves: The leaf tensors, by the indices of their nodes.
        calls: The recorded calls of modules, by path.
    """

    def __init__(self, roots: Iterable[Node], tensors: Tensors) -> None:
        """Find all nodes that `roots` lead to.

        `tensors` are the outputs and the named tensors.
        """
        self.tensors = tensors
        self.graph = _autograd.walk(roots)
        self.nodes = [*self.graph]
        self.places: dict[Any, Any] = {node: index for index, node in enumerate(self.nodes)}
        self.places[None] = None
        leaves = enumerate(map(_autograd.leaf_variable, self.nodes))
        self.leaves = {index: leaf for index, leaf in leaves if leaf is not None}
        self.calls: dict[str, ModuleCall] = {}

    def read(
        self, log: Log, modules: Roots, *, saved: bool, infers_modules: bool
    ) -> tuple[TracedNode, ...]:
        """Return all nodes as values, with the recorded lines and modules.

        Args:
            log: What a recording saw.
            modules: The modules that the user named, by path.
            saved: Whether to read the saved tensors.
            infers_modules: Whether to infer modules from the parameters that nodes use.
        """
        numbers = [*map(_autograd.sequence_nr, self.nodes)]
        edges = self._read_edges()
        kinds = [_FORMULAS.get(type(node)) or _read_kind(node) for node in self.nodes]
        names, retaining = self._read_names()
        kept = self._read_saved(log) if saved else {}
        ordered = sorted(number for number in numbers if number is not None)
        ranks: dict[int | None, int] = {number: rank for rank, number in enumerate(ordered)}
        created = [ranks.get(number) for number in numbers]
        paths, sources, orders = self._read_log(log, numbers, edges, modules)
        inferred: list[str | None] = [None] * len(self.nodes)
        derivatives = self._read_derivatives(log, numbers, paths)
        leaf_names = {index: names[index] for index in self.leaves if names[index]}
        if modules and infers_modules:
            node_names = [kind.name for kind in kinds]
            paths = inferred = infer_modules(node_names, edges, created, leaf_names, modules)
        elif modules:
            paths = name_leaf_modules(paths, leaf_names, modules)
        outputs = map(_autograd.forward_outputs, self.nodes)
        return tuple(
            TracedNode(
                index=index,
                name=kind.name,
                shapes=tuple(output.shape for output in made),
                dtype=made[0].dtype,
                device=made[0].device,
                edges=edges[index],
                saved=tuple(kept.get(index, ())),
                tensor_names=names[index],
                is_leaf=kind.is_leaf,
                retains_grad=retaining[index],
                custom_function=kind.custom_function,
                created=created[index],
                module=paths[index],
                is_module_inferred=inferred[index] is not None,
                source=sources[index],
                derivative_order=orders[index],
                derivative=derivatives[index],
                hides_saved=kind.hides_saved,
                settings=_autograd.settings(self.nodes[index]),
            )
            for index, (kind, made) in enumerate(zip(kinds, outputs, strict=True))
        )

    def _read_edges(self) -> list[Edges]:
        """Return the edges of each node."""
        return [
            tuple(
                TracedEdge(
                    source=source,
                    target=self.places[successor],
                    input_nr=input_nr,
                    output_nr=output_nr,
                )
                for output_nr, (successor, input_nr) in enumerate(successors)
            )
            for source, successors in enumerate(self.graph.values())
        ]

    def _read_names(self) -> tuple[list[tuple[str, ...]], list[bool | None]]:
        """Return the names of each node's tensors, and whether one of them retains its gradient."""
        names: list[tuple[str, ...]] = [()] * len(self.nodes)
        retaining: list[bool | None] = [None] * len(self.nodes)
        places_of_leaves = defaultdict[int, list[int]](list)
        for place, leaf in self.leaves.items():
            retaining[place] = _autograd.plain(leaf, "retains_grad")
            places_of_leaves[id(leaf)].append(place)
        for one in _autograd.sharded_parameters():
            places_of_leaves[id(one.parameter)] += places_of_leaves.get(id(one.whole), [])
        for name, tensor in self.tensors:
            node = _autograd.plain(tensor, "grad_fn")
            if node is None:
                places = places_of_leaves.get(id(tensor), [])
            else:
                places = [self.places[node]] if node in self.places else []
            for place in places:
                retaining[place] = retaining[place] or _autograd.plain(tensor, "retains_grad")
                if name is not None:
                    names[place] += (name,)
        return names, retaining

    def _read_saved(self, log: Log) -> Mapping[int, Sequence[SavedTensor]]:
        """Return the saved tensors of each node, with the recorded writes to them."""
        at_hand = [*self.leaves.values(), *(tensor for _, tensor in self.tensors)]
        rows = _autograd.read_saved(self.nodes, _autograd.storages_of_parameters(at_hand))
        numbers: dict[int | None, int] = {}  # storages are numbered in the order of the nodes
        kept = defaultdict[int, list[SavedTensor]](list)
        for row in rows:
            facts: dict[str, Any] = dict(zip(row._fields, row, strict=True))
            written, storage = facts.pop("written"), facts.pop("storage")
            if storage is not None:
                numbers.setdefault(storage, len(numbers))
            if log.writes:
                versions = facts["saved_version"], facts["current_version"]
                facts["writes"] = log.writes_between(written, *versions)
            kept[facts["node"]].append(SavedTensor(storage=numbers.get(storage), **facts))
        return kept

    def _read_log(
        self, log: Log, numbers: Sequence[int | None], edges: Sequence[Edges], modules: Roots
    ) -> tuple[list[Any], list[Any], Sequence[int | None]]:
        """Return the recorded module, line and derivative order of each node, None if unknown.

        `numbers` contains the sequence number of each node, None if it has none, and `edges` its
        edges.
        """
        unknown: list[Any] = [None] * len(numbers)
        if not log:
            return unknown, unknown, unknown
        paths = log.paths(modules)
        self.calls = {paths[id(call)]: call for _, call in log.modules if call is not None}
        calls = [None if number is None else log.module_of(number) for number in numbers]
        sources = [None if number is None else log.source_of(number) for number in numbers]
        orders: Sequence[int | None] = unknown
        if log.spans:
            orders = log.flow.orders_of(numbers, [[edge.target for edge in own] for own in edges])
        return [None if call is None else paths[id(call)] for call in calls], sources, orders

    def _read_derivatives(
        self, log: Log, numbers: Sequence[int | None], paths: Sequence[str | None]
    ) -> Sequence[str | None]:
        """Return the name of the derivative that each node helps to compute, None if unknown.

        `numbers` contains the sequence number of each node, None if it has none. `paths` contains
        the path of its module; a node in a module helps to compute no derivative.
        """
        if not any(call.roots for call in log.spans):
            return [None] * len(numbers)
        named = [(tensor, name) for name, tensor in self.tensors if name]
        ends = ((_autograd.plain(tensor, "grad_fn"), name) for tensor, name in named)
        made = [(node, name) for node, name in ends if node is not None]
        names = {_autograd.sequence_nr(node): name for node, name in made}
        values = {log.tape.value_of(tensor): name for tensor, name in named}
        found = name_derivatives(log, names, values)
        return [
            None if path else found.get(pass_at(log, number))
            for number, path in zip(numbers, paths, strict=True)
        ]


def _read_kind(node: Node) -> NodeKind:
    """Return the kind of a node; cache it if the node runs one of PyTorch's formulas."""
    kind = NodeKind(
        name=_autograd.node_name(node),
        is_leaf=_autograd.is_leaf_node(node),
        custom_function=_custom_function(node),
        hides_saved=_autograd.hides_saved(node),
    )
    if _autograd.is_own_formula(node):
        _FORMULAS[type(node)] = kind
    return kind


def _custom_function(node: Node) -> CustomFunction | None:
    """Return the name, file and line of the custom function that made a node, or None."""
    function = _autograd.forward_class(node)
    if function is None:
        return None
    code = getattr(inspect.unwrap(function.forward), "__code__", None)
    return CustomFunction(
        name=f"{function.__module__}.{function.__qualname__}",
        file=code.co_filename if code else None,
        line=code.co_firstlineno if code else None,
    )
