"""Find the module of each node, recorded or inferred, and read modules into values."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from itertools import takewhile

import torch
from torch.nn import Module

from leafgrad import _autograd
from leafgrad._graph.modules import TracedModule, outwards
from leafgrad._graph.nodes import TracedEdge, TracedNode, element_count
from leafgrad._record.module_paths import ModuleCall, Roots, join
from leafgrad._trace.not_finite_turns import only_moves

Paths = list[str | None]
Edges = Sequence[tuple[TracedEdge, ...]]
LeafNames = Mapping[int, tuple[str, ...]]  # by the positions of the leaves that have names


def infer_modules(
    kinds: Sequence[str],
    edges: Edges,
    created: Sequence[int | None],
    leaf_names: LeafNames,
    roots: Collection[str],
) -> Paths:
    """Return the module path that each node belongs to, inferred from the parameters in the graph.

    A node that uses a parameter belongs to the module that owns it. Operations between the uses of
    two parameters belong to the innermost module that contains both. Nodes outside of the named
    modules have None.

    Args:
        kinds: The name of each node. Each node comes before its successors.
        edges: The edges of each node.
        created: The order of the operations, as in `TracedNode.created`.
        leaf_names: The names of the leaves, by the positions of their nodes.
        roots: The paths of the modules that the user named.
    """
    users = _users_of_parameters(kinds, edges, leaf_names, roots)
    ranks = {place: rank for place, rank in enumerate(created) if rank is not None}
    operations = sorted(ranks, key=ranks.__getitem__)
    between = _modules_between([users.get(place) for place in operations])
    inferred = dict(zip(operations, between, strict=True))
    inferred |= {place: _owner(names) for place, names in leaf_names.items()}
    inside = _inside(inferred.values(), roots)
    paths = map(inferred.get, range(len(kinds)))
    return [path if path in inside else None for path in paths]


def name_leaf_modules(recorded: Paths, leaf_names: LeafNames, roots: Collection[str]) -> Paths:
    """Return the recorded module paths; for a leaf, the path of the module that owns it."""
    owners = {place: _owner(names) for place, names in leaf_names.items()}
    inside = _inside(owners.values(), roots)
    owners = {place: owner for place, owner in owners.items() if owner in inside}
    return [owners.get(place, path) for place, path in enumerate(recorded)]


def _inside(paths: Iterable[str], roots: Collection[str]) -> set[str]:
    """Return the module paths that lie in one of the root modules; an empty root contains all."""
    if "" in roots:
        return {*paths}
    return {path for path in {*paths} if any(f"{path}.".startswith(f"{root}.") for root in roots)}


def _owner(names: tuple[str, ...]) -> str:
    """Return the path of the module that owns a parameter, from the parameter's first name."""
    return names[0].rpartition(".")[0]


def _users_of_parameters(
    kinds: Sequence[str], edges: Edges, leaf_names: LeafNames, roots: Collection[str]
) -> dict[int, str]:
    """Map each node that uses parameters to the innermost module that contains all of them.

    `kinds` contains the name of each node, and `edges` its edges. `leaf_names` contains the names
    of each leaf, and `roots` the names of the outermost modules.
    """
    # A tied parameter has several names: take the innermost module around all of its owners.
    owners = {
        place: reduce(_common_module, [name.rpartition(".")[0] for name in names])
        for place, names in leaf_names.items()
    }
    inside = _inside(owners.values(), roots)
    handed_on = {place: owner for place, owner in owners.items() if owner in inside}
    users: dict[int, str] = {}
    for place in reversed(range(len(kinds))):
        for edge in edges[place]:
            if edge.target in handed_on:
                module = handed_on[edge.target]
                users[place] = _common_module(users.get(place, module), module)
        if place in users and (only_moves(kinds[place]) or kinds[place] == "ToCopyBackward0"):
            handed_on[place] = users[place]
    return users


def _modules_between(known: Sequence[str | None]) -> Iterator[str]:
    """Yield the module path of each operation, in the order of the forward pass.

    An operation whose path in `known` is None gets the innermost module around its neighbours.
    """
    common = cache(_common_module)  # many operations have the same two modules
    ahead = [*_repeat_last_known(reversed(known))][::-1]
    for here, before, after in zip(known, _repeat_last_known(known), ahead, strict=True):
        yield common(before, after) if here is None else here


def _repeat_last_known(modules: Iterable[str | None]) -> Iterator[str]:
    """Yield the last known module path for each operation; before the first, the outermost."""
    last = ""
    for module in modules:
        last = last if module is None else module
        yield last


def _common_module(one: str, other: str) -> str:
    """Return the path of the innermost module that contains the modules `one` and `other`."""
    if one == other:
        return one
    pairs = zip(one.split("."), other.split("."), strict=False)
    return ".".join(part for part, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def traced_modules(
    nodes: Sequence[TracedNode], roots: Roots, calls: Mapping[str, ModuleCall]
) -> tuple[TracedModule, ...]:
    """Return the modules that nodes belong to, and the modules around them, as values.

    Args:
        nodes: The nodes.
        roots: The modules that the user named.
        calls: The recorded calls of modules, by path. Some modules may be deleted by now.
    """
    paths = {node.module for node in nodes if node.module is not None}
    wanted = {path for inner in paths for path in ("", *outwards(inner))}
    alive: dict[str, Module] = {}
    for name, root in roots.items():
        for path, module in root.named_modules():
            alive.setdefault(join(name, path), module)
    for path, call in calls.items():
        if path not in alive and (called := call.module()) is not None:
            alive |= {join(path, inner): module for inner, module in called.named_modules()}
    # The parameters of each module and of all within it, by identity, so that each counts once.
    held: dict[str, dict[int, torch.Tensor]] = {path: {} for path in wanted}
    for path, module in alive.items():
        # The base class is used because a subclass may override named_parameters().
        for _, parameter in Module.named_parameters(module, recurse=False):
            for outer in ("", *outwards(path)):
                if outer in held:
                    held[outer][id(parameter)] = parameter
    read = [
        _read(path, module, [*held[path].values()])
        for path, module in alive.items()
        if path in wanted
    ]
    gone = [
        TracedModule(path=path, class_name=calls[path].kind, has_forward=True)
        for path in calls
        if path in wanted and path not in alive
    ]
    return (*read, *gone)


def _read(path: str, module: Module, parameters: Sequence[torch.Tensor]) -> TracedModule:
    """Return the facts about a module: its path, class, settings and parameter counts.

    `parameters` are those of the module and of all modules within it.
    """
    frozen = [one for one in parameters if not _autograd.plain(one, "requires_grad")]
    is_overridden = type(module).forward is not Module.forward
    return TracedModule(
        path=path,
        class_name=type(module).__name__,
        has_forward=is_overridden or "forward" in vars(module),
        parameters=len(parameters),
        frozen=len(frozen),
        frozen_numbers=sum(element_count(_autograd.shape(one)) or 0 for one in frozen),
        settings=module.extra_repr() if type(module).__module__.startswith("torch.nn.") else "",
    )
