"""Proof, from the kinds of nodes and from shapes, that rows are independent.

Inputs ``[*batch, *columns]`` lead to outputs ``[*batch, *channels]``, and row i of the outputs is
to depend on row i of the inputs alone, so that a sum over rows has the derivatives of each:

    d (sum_j y_j) / d x_i = d y_i / d x_i

This proof only counts axes, which takes no time and is enough for most networks. What it cannot
prove, `row_independence` may.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.taylor.moves import Moves
from leafgrad._derivative.taylor.rules import RULES


def keep_rows_apart(path: _autograd.Path, inputs: Tensor, outputs: Tensor, batch: int) -> bool:
    """Return whether rows are seen to stay apart, and on the first axes of all that is computed.

    The first `batch` axes of inputs ``[*batch, *columns]`` and outputs ``[*batch, *channels]``
    count rows. Here the axes of a tensor are only counted, and those not that broadcasting adds in
    front. As no kind takes one of these away, the outputs have more axes then than were counted.
    """
    counts: dict[object, int] = {path.start: inputs.dim()}
    for node, edges in path.nodes.items():
        count = 0
        for edge in edges:
            known = counts.get(edge, 0)
            if known and known != count:
                if count:
                    return False
                count = known
        role = _ROLES.get(type(node)) or _role_of(node)
        if role.is_rowwise:
            for place in role.shared:
                if batch != 1 or edges[place] in counts:
                    return False
            counts[node, 0] = count
            continue
        left = role.moves.left(node, count, batch) if role.moves is not None and count else 0
        if not left:
            return False
        counts[node, 0] = left
    return counts.get(path.end) == outputs.dim()


class _Role(NamedTuple):
    """What a kind of node is known to do to rows, from its name alone: see `Rule` and `Moves`.

    Attributes:
        is_rowwise: As a rule says it.
        shared: As a rule says it.
        moves: How it moves axes, None where that is not known.
    """

    is_rowwise: bool
    shared: tuple[int, ...]
    moves: Moves | None


# Of kinds of PyTorch's own, each of which has a type that is there for good.
_ROLES: dict[type[Node], _Role] = {}


def _role_of(node: Node) -> _Role:
    rule = RULES.get(_autograd.node_name(node).removesuffix("_copy"))
    role = _Role(
        is_rowwise=rule is not None and rule.rowwise,
        shared=rule.shared if rule else (),
        moves=rule.moves if rule else None,
    )
    if _autograd.has_lasting_type(node):
        _ROLES[type(node)] = role
    return role
