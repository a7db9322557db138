"""Where the last bend of a path is, after which each coefficient goes its own way."""

from __future__ import annotations

from torch.autograd.graph import Node

from leafgrad import _autograd

# What is linear in each of its inputs, so that it takes the coefficients of one input one by one.
_STRAIGHT = frozenset(
    f"{name}Backward{number}"
    for names, number in (
        ("Add Addmm Alias Clone Mm Mul Neg Select Slice Squeeze Sub T Transpose", 0),
        ("UnsafeView Unsqueeze View", 0),
        ("Add Div Mul Squeeze Sub", 1),
    )
    for name in names.split()
)


def last_bend(path: _autograd.Path) -> Node:
    """Follow the path back from the outputs through what is straight in its only input on it.

    All that is computed from the result of the node where this ends is straight in it.
    """
    node = path.end[0]
    while node in path.nodes and _autograd.node_name(node) in _STRAIGHT:
        inputs = [edge[0] for edge in path.nodes[node] if edge[0] in path.nodes]
        if len(inputs) != 1 or path.start in path.nodes[node]:
            break
        node = inputs[0]
    return node
