"""Whose node it is, where nothing was recorded: what the use of parameters tells."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from leafgrad._traced import TracedNode

Nodes = tuple[TracedNode, ...]


def as_they_are(nodes: Nodes) -> Nodes:
    """Say nothing of modules that is not known already."""
    return nodes


def with_inferred_modules(nodes: Nodes) -> Nodes:
    """Say of each node which module it is taken to belong to.

    A node that uses a parameter belongs to the module that has it, and what was made between the
    uses of two parameters belongs to the innermost module that has both.
    """
    users = _users_of_parameters(nodes)
    operations = sorted((n for n in nodes if n.created is not None), key=lambda n: n.created or 0)
    inferred = dict(zip((n.index for n in operations), _between(operations, users), strict=True))
    inferred |= {leaf.index: _owner(leaf) for leaf in nodes if leaf.tensor_names and leaf.is_leaf}
    return tuple(_with_module(node, inferred.get(node.index)) for node in nodes)


def with_owners(nodes: Nodes) -> Nodes:
    """Say of each leaf with a name which module has it."""
    return tuple(
        replace(node, module=_owner(node)) if node.is_leaf and node.tensor_names else node
        for node in nodes
    )


def _with_module(node: TracedNode, module: str | None) -> TracedNode:
    return replace(node, module=module, is_module_inferred=module is not None)


def _owner(leaf: TracedNode) -> str:
    return leaf.tensor_names[-1].rpartition(".")[0]


# What stands between a parameter and the operation that it is for.
_REARRANGING = {"TBackward0", "TransposeBackward0", "ViewBackward0", "ToCopyBackward0"}


def _users_of_parameters(nodes: Nodes) -> dict[int, str]:
    """Map each node that uses a parameter onto the module that has it."""
    predecessors = defaultdict[int, list[int]](list)
    for node in nodes:
        for edge in node.edges:
            if edge.target is not None:
                predecessors[edge.target].append(node.index)
    users: dict[int, str] = {}
    ahead = [(n.index, _owner(n)) for n in nodes if n.is_leaf and n.tensor_names]
    while ahead:
        used, module = ahead.pop()
        for user in predecessors[used]:
            users[user] = module
            if nodes[user].name in _REARRANGING:
                ahead.append((user, module))
    return users


def _between(operations: Sequence[TracedNode], users: dict[int, str]) -> Iterator[str]:
    """Give each operation, in the order in which they ran, the module that it stands in."""
    known = [users.get(operation.index) for operation in operations]
    ahead = [*_last_known(reversed(known))][::-1]
    for here, before, after in zip(known, _last_known(known), ahead, strict=True):
        yield _common(before, after) if here is None else here


def _last_known(modules: Iterable[str | None]) -> Iterator[str]:
    """Repeat the last module that was known; before all of them, it is the outermost."""
    last = ""
    for module in modules:
        last = last if module is None else module
        yield last


def _common(one: str, other: str) -> str:
    """Give the path of the innermost module that has both."""
    pairs = zip(one.split("."), other.split("."), strict=False)
    shared: list[str] = []
    for part, counterpart in pairs:
        if part != counterpart:
            break
        shared.append(part)
    return ".".join(shared)
