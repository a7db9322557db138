"""Proof, from the kinds of nodes and from shapes, that rows are independent.

Inputs ``[*batch, *columns]`` lead to outputs ``[*batch, *channels]``, and row i of the outputs is
to depend on row i of the inputs alone, so that a sum over rows has the derivatives of each:

    d (sum_j y_j) / d x_i = d y_i / d x_i

What is followed along the path is which axis of each tensor counts which axis of the batch (see
`batch_axes`): kinds that are row-wise keep it, `row_kinds` tells where others move it, and where
an operation would let two rows meet, no answer is given. There are two proofs: one that counts axes
and takes no time, and one that follows each of them.

No coefficient is computed, and no saved tensor read but by the few rules that ask for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.taylor import batch_axes
from leafgrad._derivative.taylor.algebra import powers
from leafgrad._derivative.taylor.batch_axes import Axes
from leafgrad._derivative.taylor.dtypes import wider
from leafgrad._derivative.taylor.propagate import check_results, results_of, step_at
from leafgrad._derivative.taylor.row_kinds import LOOKS, MOVES, Known, Masks, Moves
from leafgrad._derivative.taylor.rule import Rule
from leafgrad._derivative.taylor.rules import RULES
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import Unsupported


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
            if role.shared and (batch != 1 or any(edges[n] in counts for n in role.shared)):
                return False
            counts[node, 0] = count
            continue
        left = role.moves.left(node, count, batch) if role.moves is not None and count else 0
        if not left:
            return False
        counts[node, 0] = left
    return counts.get(path.end) == outputs.dim()


class _Role(NamedTuple):
    """What a kind of node is known to do to rows, from its name alone: see `Rule` and `Moves`."""

    is_rowwise: bool
    shared: tuple[int, ...]
    moves: Moves | None


# Of kinds of PyTorch's own, each of which has a type that is there for good.
_ROLES: dict[type[Node], _Role] = {}


def _role_of(node: Node) -> _Role:
    name = _autograd.node_name(node)
    rule = RULES.get(name)
    is_rowwise = rule is not None and rule.rowwise
    role = _Role(is_rowwise, rule.shared if rule else (), MOVES.get(name))
    if _autograd.has_lasting_type(node):
        _ROLES[type(node)] = role
    return role


def axes_at_end(path: _autograd.Path, inputs: Tensor, batch: int) -> Axes | None:
    """Return where the rows of inputs lie at the end of a path, None where none get there.

    Raise `Unsupported` where that is not known.
    The first `batch` axes of inputs, ``[*batch, columns]``, count rows. Kinds that are row-wise
    pass axes on, a few tell where theirs go, and the rules of others are run on series without a
    coefficient.
    """
    known: dict[object, Axes] = {path.start: batch_axes.rows_of(tuple(inputs.shape), batch)}
    masks: Masks = {}
    for node, edges in path.nodes.items():
        name = _autograd.node_name(node)
        row_wise = _row_wise_rule(node, name)
        if row_wise is not None:
            axes = _passed_on(row_wise, node, [known.get(edge) for edge in edges])
            if axes is not None:
                known[node, 0] = axes
                continue
        given = [
            Known(known[before, number], (before, number))
            if before is not None and (before, number) in known
            else None
            for before, number in edges
        ]
        if not any(given):  # as where nothing is taken
            continue
        results = _results(RULES.get(name), node, edges, given, masks)
        known.update({(node, n): axes for n, axes in enumerate(results) if axes is not None})
        if len(results) < len(_autograd.output_types(node)):
            read = {edge for edges in path.nodes.values() for edge in edges}
            check_results(step_at(node, edges, inputs.dtype), len(results), read, path.end)
    return known.get(path.end)


def _row_wise_rule(node: Node, name: str) -> Rule | None:
    """Return the rule of a kind that is row-wise, None for any other kind.

    Where an operation goes element by element, so does the formula of its derivative, which has no
    rule of its own: what is told of ``TanhBackward0`` holds for ``TanhBackwardBackward0``, unless
    that makes more than one result.
    """
    rule = RULES.get(name)
    if rule is None and name.endswith(_OF_FORMULA):
        rule = RULES.get(name.replace(_OF_FORMULA, "Backward0"))
        if rule is not None and (rule.shared or len(_autograd.output_types(node)) > 1):
            return None
    return rule if rule is not None and rule.rowwise else None


_OF_FORMULA = "BackwardBackward0"


def _passed_on(rule: Rule, node: Node, inputs: Sequence[Axes | None]) -> Axes | None:
    """Return the axes of what a row-wise kind makes, None where its rule is to tell."""
    if len(inputs) == 1:
        return inputs[0]
    given = [axes for axes in inputs if axes is not None]
    if not given:
        return None
    ndim = len(_autograd.output_types(node)[0].shape)
    if not rule.shared:
        return batch_axes.merged([batch_axes.aligned(axes, ndim) for axes in given])
    axes, *others = given
    if others or len(axes) != ndim or inputs[rule.shared[0]] is not None:
        return None
    batch_axes.free(axes, [-1])
    return axes  # whose last one is as free


def _results(
    rule: Rule | None,
    node: Node,
    edges: _autograd.Successors,
    given: Sequence[Known | None],
    masks: Masks,
) -> Sequence[Axes | None]:
    """Return the axes of each result of a node, or raise `Unsupported`."""
    look = LOOKS.get(_autograd.node_name(node))
    if look is not None and (found := look(node, given, masks)):
        return found
    made = _autograd.output_types(node)[0]
    if rule is None or not (made.dtype.is_floating_point or made.dtype.is_complex):
        raise Unsupported("its kind has no rule")
    step = step_at(node, edges, torch.float32)
    empty = [each and _without_coefficients(each) for each in given]
    series = results_of(rule, step, empty)
    return [None if each is None else each.axes for each in series]


def _without_coefficients(known: Known) -> Series:
    """Return a series of this tensor without any coefficient, ``[0, 1, ..., 1]``."""
    node, number = known.edge
    made = _autograd.output_types(node)[number]
    dtype = wider(made.dtype, torch.float32)
    empty = torch.empty((0, *[1] * len(known.shape)), dtype=dtype, device=made.device)
    return Series(algebra=powers(1), indices=(), source=empty, shape=known.shape, axes=known.axes)
