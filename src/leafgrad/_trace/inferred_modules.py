"""The modules of nodes where nothing was recorded, from the parameters that they use."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import takewhile

from leafgrad._graph.nodes import TracedNode
from leafgrad._trace.columns import with_columns

Nodes = tuple[TracedNode, ...]


def infer_modules(nodes: Nodes, roots: Collection[str]) -> Nodes:
    """Return the nodes, each with the module that it is taken to belong to.

    A node that uses a parameter belongs to the module that has it, and what was made between the
    uses of two parameters belongs to the innermost module that has both. What several modules have
    tells no more than which module has these. The paths begin with those of `roots`; outside of
    these there is no module.
    """
    users = _users_of_parameters(nodes, roots)
    operations = sorted((n for n in nodes if n.created is not None), key=lambda n: n.created or 0)
    between = _modules_between(operations, users)
    inferred = dict(zip((node.index for node in operations), between, strict=True))
    inferred |= {leaf.index: _owner(leaf) for leaf in nodes if leaf.tensor_names and leaf.is_leaf}
    known = {index: path for index, path in inferred.items() if _is_inside(path, roots)}
    indices = range(len(nodes))
    return tuple(
        with_columns(
            TracedNode,
            nodes,
            module=map(known.get, indices),
            is_module_inferred=map(known.__contains__, indices),
        )
    )


def name_leaf_modules(nodes: Nodes, roots: Collection[str]) -> Nodes:
    """Return the nodes, each leaf with the module that has it by the first of its names."""
    return tuple(
        replace(node, module=_owner(node))
        if node.is_leaf and node.tensor_names and _is_inside(_owner(node), roots)
        else node
        for node in nodes
    )


def _is_inside(path: str, roots: Collection[str]) -> bool:
    return any(not root or f"{path}.".startswith(f"{root}.") for root in roots)


def _owner(leaf: TracedNode) -> str:
    return leaf.tensor_names[0].rpartition(".")[0]


def _owner_of_all_names(leaf: TracedNode) -> str:
    """Return the innermost module that has all modules of a leaf, of which a tied one has more."""
    return reduce(_common_module, (name.rpartition(".")[0] for name in leaf.tensor_names))


# What stands between a parameter and the operation that it is for.
_REARRANGING = {"TBackward0", "TransposeBackward0", "ViewBackward0", "ToCopyBackward0"}


def _users_of_parameters(nodes: Nodes, roots: Collection[str]) -> dict[int, str]:
    """Map each node that uses parameters onto the innermost module that has them all."""
    predecessors = defaultdict[int, list[int]](list)
    for node in nodes:
        for edge in node.edges:
            if edge.target is not None:
                predecessors[edge.target].append(node.index)
    users: dict[int, str] = {}
    owned = [(n.index, _owner_of_all_names(n)) for n in nodes if n.is_leaf and n.tensor_names]
    ahead = [(index, owner) for index, owner in owned if _is_inside(owner, roots)]
    while ahead:
        used, module = ahead.pop()
        for user in predecessors[used]:
            users[user] = _common_module(users.get(user, module), module)
            if nodes[user].name in _REARRANGING:
                ahead.append((user, module))
    return users


def _modules_between(operations: Sequence[TracedNode], users: dict[int, str]) -> Iterator[str]:
    """Yield the module of each operation, in the order in which they ran."""
    known = [users.get(operation.index) for operation in operations]
    ahead = [*_repeat_last_known(reversed(known))][::-1]
    for here, before, after in zip(known, _repeat_last_known(known), ahead, strict=True):
        yield _common_module(before, after) if here is None else here


def _repeat_last_known(modules: Iterable[str | None]) -> Iterator[str]:
    """Repeat the last module that was known; before all of them, it is the outermost."""
    last = ""
    for module in modules:
        last = last if module is None else module
        yield last


def _common_module(one: str, other: str) -> str:
    """Return the path of the innermost module that has both."""
    if one == other:
        return one
    pairs = zip(one.split("."), other.split("."), strict=False)
    return ".".join(part for part, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
