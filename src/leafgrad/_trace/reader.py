"""Reading a live graph, once, into nodes that are values."""

import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise, repeat
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._graph.nodes import CustomFunction, SavedTensor, Source, TracedEdge, TracedNode
from leafgrad._record.log import Log
from leafgrad._record.module_paths import Roots
from leafgrad._trace.columns import from_columns

Tensors = Sequence[tuple[str | None, torch.Tensor]]  # with their names, if any


class NodeKind(NamedTuple):
    """What all nodes of one kind have in common."""

    name: str
    is_leaf: bool
    custom_function: CustomFunction | None
    hides_saved: bool


_FORMULAS: dict[object, NodeKind] = {}  # PyTorch's own, whose types live for ever anyway


class GraphReader:
    """Reads a graph, each of whose nodes has its place before those of its successors.

    Each field is read of all nodes before the next one is: see `from_columns`.

    Attributes:
        nodes: The live nodes, by their places.
        leaves: The leaf tensors, by the places of their nodes.
        roots: The places of the roots.
    """

    def __init__(self, roots: Iterable[Node], tensors: Tensors) -> None:
        """Find the nodes that `roots` lead to; the tensors at hand may belong to some of them."""
        self.tensors = tensors
        self.numbers, self.wiring = _autograd.survey(roots)
        self.order = self.wiring.order()
        self.places: dict[int | None, int] = {n: place for place, n in enumerate(self.order)}
        self.nodes = [*map([*self.numbers].__getitem__, self.order)]
        self.types = [*map(type, self.nodes)]
        self.leaves = _autograd.leaf_variables(self.nodes, self.types)
        self.roots = [self.places[root] for root in range(self.wiring.roots)]

    def read(self, log: Log, modules: Roots, *, saved: bool) -> tuple[TracedNode, ...]:
        """Read every node, and of the log where it was made; paths of modules start at `modules`.

        Without `saved`, what the nodes keep is left out.
        """
        kinds = self._kinds()
        outputs = _autograd.outputs_of(self.nodes)
        edges = self._edges()
        names, retains_grad = self._names()
        numbers = _autograd.sequence_nrs(map(self.wiring.sequence_nrs.__getitem__, self.order))
        paths, sources = _origins(numbers, log, modules) if log else (repeat(None), repeat(None))
        nodes = from_columns(
            TracedNode,
            len(self.nodes),
            index=range(len(self.nodes)),
            name=[kind.name for kind in kinds],
            shapes=map(itemgetter(0), outputs),
            dtype=map(itemgetter(1), outputs),
            device=map(itemgetter(2), outputs),
            edges=edges,
            saved=self._saved(log) if saved else repeat(()),
            tensor_names=names,
            is_leaf=[kind.is_leaf for kind in kinds],
            retains_grad=retains_grad,
            custom_function=[kind.custom_function for kind in kinds],
            hides_saved=[kind.hides_saved for kind in kinds],
            created=_ranks(numbers),
            module=paths,
            source=sources,
            derivative_order=_orders(log, numbers, edges),
        )
        return tuple(nodes)

    def _kinds(self) -> list[NodeKind]:
        """Return the kind of each node, by its type where that is known already."""
        try:
            return [*map(_FORMULAS.__getitem__, self.types)]
        except KeyError:
            shared = {**_FORMULAS}
            nodes = zip(self.types, self.nodes, strict=True)
            return [shared.get(kind) or _kind(node, shared) for kind, node in nodes]

    def _edges(self) -> list[tuple[TracedEdge, ...]]:
        """Return the edges of each node, all of which are made in the order of the wiring."""
        wiring = self.wiring
        spans = [*pairwise(wiring.starts)]
        counts = [stop - start for start, stop in spans]
        places = map(self.places.get, range(len(counts)))
        edges = from_columns(
            TracedEdge,
            len(wiring.targets),
            source=chain.from_iterable(map(repeat, places, counts)),
            target=map(self.places.get, wiring.targets),
            input_nr=wiring.input_nrs,
            output_nr=chain.from_iterable(map(range, counts)),
        )
        return [tuple(edges[start:stop]) for start, stop in map(spans.__getitem__, self.order)]

    def _names(self) -> tuple[list[tuple[str, ...]], list[bool | None]]:
        """Return what the tensors of each node are called, and whether one retains its gradient."""
        names: list[tuple[str, ...]] = [()] * len(self.nodes)
        retaining: list[bool | None] = [None] * len(self.nodes)
        retains_grad = _autograd.reader("retains_grad")
        places_of_leaves = defaultdict[int, list[int]](list)
        for place, leaf in self.leaves.items():
            retaining[place] = retains_grad(leaf)
            places_of_leaves[id(leaf)].append(place)
        for name, tensor in self.tensors:
            node = _autograd.plain(tensor, "grad_fn")
            if node is None:
                places = places_of_leaves.get(id(tensor), [])
            else:
                places = [self.places[self.numbers[node]]] if node in self.numbers else []
            for place in places:
                retaining[place] = retaining[place] or retains_grad(tensor)
                if name is not None:
                    names[place] += (name,)
        return names, retaining

    def _saved(self, log: Log) -> list[tuple[SavedTensor, ...]]:
        """Return what each node keeps, with what the log knows to have written into it since."""
        at_hand = [*self.leaves.values(), *(tensor for _, tensor in self.tensors)]
        rows = _autograd.read_saved(self.nodes, _autograd.storages_of_parameters(at_hand))
        columns: dict[str, Iterable[Any]] = {
            name: map(itemgetter(number), rows)
            for number, name in enumerate(_autograd.SavedFacts._fields)
            if name != "written"
        }
        columns["storage"] = _numbered([row.storage for row in rows])
        if log.writes:
            columns["writes"] = [
                log.writes_between(row.written, row.saved_version, row.current_version)
                for row in rows
            ]
        saved = from_columns(SavedTensor, len(rows), **columns)
        kept: list[tuple[SavedTensor, ...]] = [()] * len(self.nodes)
        for place, tensors in groupby(saved, attrgetter("node")):
            kept[place] = tuple(tensors)
        return kept


def _kind(node: Node, shared: dict[object, NodeKind]) -> NodeKind:
    """Return the kind of a node, and keep it for all that share it."""
    name = _autograd.node_name(node)
    kind = NodeKind(
        name=name,
        is_leaf=_autograd.is_leaf_node(node),
        custom_function=_custom_function(node),
        hides_saved=_autograd.hides_saved(node),
    )
    if _autograd.is_own_formula(node):
        _FORMULAS[type(node)] = kind
    key = type(node) if _autograd.is_of_its_own_type(node) else name
    return shared.setdefault(key, kind)


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


Numbers = Sequence[int | None]


def _ranks(numbers: Numbers) -> Iterator[int | None]:
    """Return the rank of each number among all."""
    ordered = sorted(number for number in numbers if number is not None)
    ranks: dict[int | None, int] = {number: rank for rank, number in enumerate(ordered)}
    return map(ranks.get, numbers)


def _numbered(storages: Numbers) -> Iterator[int | None]:
    """Number storages as they come."""
    distinct = [one for one in dict.fromkeys(storages) if one is not None]
    numbers: dict[int | None, int] = {one: number for number, one in enumerate(distinct)}
    return map(numbers.get, storages)


def _origins(
    numbers: Numbers, log: Log, modules: Roots
) -> tuple[Iterable[str | None], Iterable[Source | None]]:
    """Return the module and the line of code that made each node; a leaf has neither."""
    paths = log.paths(modules)
    calls = [None if number is None else log.module_of(number) for number in numbers]
    return (
        [None if call is None else paths[id(call)] for call in calls],
        [None if number is None else log.source_of(number) for number in numbers],
    )


def _orders(
    log: Log, numbers: Numbers, edges: Iterable[tuple[TracedEdge, ...]]
) -> Iterable[int | None]:
    """Return the order of derivative of each node, None where nothing was recorded."""
    if not log.spans:
        return repeat(None)
    return log.passes.orders(numbers, [[edge.target for edge in each] for each in edges])
