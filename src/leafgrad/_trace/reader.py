"""Reading a live graph, once, into nodes that are values."""

import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._graph.nodes import CustomFunction, SavedTensor, TracedEdge, TracedNode
from leafgrad._record.log import Log
from leafgrad._record.module_paths import ModuleCall, Roots
from leafgrad._trace.dataclass_maker import from_columns, maker
from leafgrad._trace.inferred_modules import infer_modules, name_leaf_modules

Tensors = Sequence[tuple[str | None, torch.Tensor]]  # with their names, if any
Columns = dict[str, Any]  # what all nodes tell of a field, by its name


class NodeKind(NamedTuple):
    """What all nodes of one kind have in common."""

    name: str
    is_leaf: bool
    custom_function: CustomFunction | None
    hides_saved: bool


_EDGE = "source", "target", "input_nr", "output_nr"
_FORMULAS: dict[object, NodeKind] = {}  # PyTorch's own, whose types live for ever anyway


class GraphReader:
    """Reads a graph, each of whose nodes has its place before those of its successors.

    Each field is read of all nodes before the next one is: see `from_rows`.

    Attributes:
        graph: Every live node, with its successors.
        nodes: The live nodes, by their places.
        indices: Their places, in order.
        places: Their places, by the nodes; None for None, which stands where there is no node.
        leaves: The leaf tensors, by the places of their nodes.
        calls: The modules that a log saw run, by their paths.
    """

    def __init__(self, roots: Iterable[Node], tensors: Tensors) -> None:
        """Find the nodes that `roots` lead to; the tensors at hand may belong to some of them."""
        self.tensors = tensors
        self.graph = _autograd.walk(roots)
        self.nodes = [*self.graph]
        self.indices = [*range(len(self.nodes))]
        self.places: dict[Any, Any] = dict(zip(self.nodes, self.indices, strict=True))
        self.places[None] = None  # where an input needed no gradient
        self.types = [*map(type, self.nodes)]
        self.leaves = _autograd.leaf_variables(self.nodes, self.types)
        self.calls: dict[str, ModuleCall] = {}

    def read(
        self, log: Log, modules: Roots, *, saved: bool, infers_modules: bool
    ) -> tuple[TracedNode, ...]:
        """Read every node, and of the log where it was made; paths of modules start at `modules`.

        Without `saved`, what the nodes keep is left out.
        """
        shapes, dtypes, devices = zip(*_autograd.outputs_of(self.nodes), strict=True)
        names, retains_grad = self._names()
        numbers = _autograd.sequence_nrs(self.nodes)
        columns: Columns = {
            **_columns(NodeKind, self._kinds()),
            "index": self.indices,
            "shapes": shapes,
            "dtype": dtypes,
            "device": devices,
            "edges": self._edges(),
            "saved": self._saved(log) if saved else [()] * len(self.nodes),
            "tensor_names": names,
            "retains_grad": retains_grad,
            "created": _ranks(numbers, self.indices),
        }
        if log:
            paths = log.paths(modules)
            self.calls = {paths[id(call)]: call for _, call in log.modules if call is not None}
            columns |= _recorded(log, numbers, columns["edges"], paths)
        if modules:
            columns |= self._modules(columns, modules, infers_modules=infers_modules)
        return tuple(from_columns(TracedNode, **columns))

    def _modules(self, columns: Columns, roots: Roots, *, infers_modules: bool) -> Columns:
        """Return to which module each node belongs, by what the other columns tell."""
        names = columns["tensor_names"]
        leaf_names = {place: names[place] for place in self.leaves if names[place]}
        if not infers_modules:
            recorded = columns.get("module", [None] * len(self.nodes))
            return {"module": name_leaf_modules(recorded, leaf_names, roots)}
        structure = columns["name"], columns["edges"], columns["created"]
        paths = infer_modules(*structure, leaf_names, roots)
        return {"module": paths, "is_module_inferred": [path is not None for path in paths]}

    def _kinds(self) -> list[NodeKind]:
        """Return the kind of each node, by its type where that is known already."""
        try:
            return [*map(_FORMULAS.__getitem__, self.types)]
        except KeyError:
            shared = {**_FORMULAS}
            nodes = zip(self.types, self.nodes, strict=True)
            return [shared.get(kind) or _kind(node, shared) for kind, node in nodes]

    def _edges(self) -> list[tuple[TracedEdge, ...]]:
        """Return the edges of each node."""
        places, new_edge = self.places, maker(TracedEdge, *_EDGE)
        edges = []
        for source, successors in zip(self.indices, self.graph.values(), strict=True):
            own: list[TracedEdge] = []
            for successor, input_nr in successors:
                own.append(new_edge(source, places[successor], input_nr, len(own)))
            edges.append(tuple(own))
        return edges

    def _names(self) -> tuple[list[tuple[str, ...]], list[bool | None]]:
        """Return what the tensors of each node are called, and whether one retains its gradient."""
        names: list[tuple[str, ...]] = [()] * len(self.nodes)
        retaining: list[bool | None] = [None] * len(self.nodes)
        retains_grad = _autograd.reader("retains_grad")
        places_of_leaves = defaultdict[int, list[int]](list)
        for place, leaf in self.leaves.items():
            retaining[place] = retains_grad(leaf)
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
                retaining[place] = retaining[place] or retains_grad(tensor)
                if name is not None:
                    names[place] += (name,)
        return names, retaining

    def _saved(self, log: Log) -> list[tuple[SavedTensor, ...]]:
        """Return what each node keeps, with what the log knows to have written into it since."""
        at_hand = [*self.leaves.values(), *(tensor for _, tensor in self.tensors)]
        rows = _autograd.saved_rows(self.nodes, _autograd.storages_of_parameters(at_hand))
        if not rows:
            return [()] * len(self.nodes)
        columns = _columns(_autograd.SavedFacts, rows)
        columns["node"] = map(self.indices.__getitem__, columns["node"])  # no number is there twice
        columns["storage"] = _numbered(columns["storage"])
        written = columns.pop("written")
        if log.writes:
            versions = columns["saved_version"], columns["current_version"]
            columns["writes"] = map(log.writes_between, written, *versions)
        saved = from_columns(SavedTensor, **columns)
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


def _columns(kind: Any, rows: Iterable[tuple[Any, ...]]) -> Columns:
    """Return named tuples field by field."""
    return dict(zip(kind._fields, zip(*rows, strict=True), strict=True))


Numbers = Sequence[int | None]


def _ranks(numbers: Numbers, ranks: Iterable[int]) -> list[int | None]:
    """Return the rank of each number among all, of the `ranks` that there are."""
    ordered = sorted(number for number in numbers if number is not None)
    known: dict[int | None, int] = dict(zip(ordered, ranks, strict=False))
    return [*map(known.get, numbers)]


def _numbered(storages: Numbers) -> Iterator[int | None]:
    """Number storages as they come."""
    distinct = [one for one in dict.fromkeys(storages) if one is not None]
    numbers: dict[int | None, int] = {one: number for number, one in enumerate(distinct)}
    return map(numbers.get, storages)


def _recorded(
    log: Log,
    numbers: Numbers,
    edges: Iterable[tuple[TracedEdge, ...]],
    paths: Mapping[int, str],
) -> Columns:
    """Return what a log knows of each node: its module, its line of code and its order."""
    calls = [None if number is None else log.module_of(number) for number in numbers]
    columns: Columns = {
        "module": [None if call is None else paths[id(call)] for call in calls],
        "source": [None if number is None else log.source_of(number) for number in numbers],
    }
    if log.spans:
        targets = [[edge.target for edge in each] for each in edges]
        columns["derivative_order"] = log.passes.orders(numbers, targets)
    return columns
