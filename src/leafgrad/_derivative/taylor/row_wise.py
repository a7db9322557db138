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
from leafgrad._derivative.taylor.moves import Moves
from leafgrad._derivative.taylor.propagate import check_results, results_of, step_at
from leafgrad._derivative.taylor.row_kinds import LOOKS, Known, Masks
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
        is_formula: Whether it is the formula of the derivative of a kind that is row-wise. Where
            an operation goes element by element, so does this, which has no rule of its own: what
            is told of ``TanhBackward0`` holds for ``TanhBackwardBackward0``, unless that makes
            more than one result.
        shared: As a rule says it.
        moves: How it moves axes, None where that is not known.
    """

    is_rowwise: bool
    is_formula: bool
    shared: tuple[int, ...]
    moves: Moves | None


# Of kinds of PyTorch's own, each of which has a type that is there for good.
_ROLES: dict[type[Node], _Role] = {}
_OF_FORMULA = "BackwardBackward0"


def _role_of(node: Node) -> _Role:
    name = _autograd.node_name(node).removesuffix("_copy")
    rule, differentiated = RULES.get(name), None
    if rule is None and name.endswith(_OF_FORMULA):
        differentiated = RULES.get(name.replace(_OF_FORMULA, "Backward0"))
    role = _Role(
        is_rowwise=rule is not None and rule.rowwise,
        is_formula=(
            differentiated is not None and differentiated.rowwise and not differentiated.shared
        ),
        shared=rule.shared if rule else (),
        moves=rule.moves if rule else None,
    )
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
        role = _ROLES.get(type(node)) or _role_of(node)
        if role.is_rowwise or (role.is_formula and len(_autograd.output_types(node)) == 1):
            axes = _passed_on(role.shared, node, [*map(known.get, edges)])
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
        results = _results(node, edges, given, masks)
        for number, axes in enumerate(results):
            if axes is not None:
                known[node, number] = axes
        if len(results) < len(_autograd.output_types(node)):
            read = {edge for edges in path.nodes.values() for edge in edges}
            check_results(step_at(node, edges, inputs.dtype), len(results), read, path.end)
    return known.get(path.end)


def _passed_on(shared: Sequence[int], node: Node, inputs: list[Axes | None]) -> Axes | None:
    """Return the axes of what a row-wise kind makes, None where its rule is to tell."""
    if shared:  # a product of two matrices, of which the first one stands before the other
        axes = inputs[shared[0] - 1]
        if axes is None or inputs.count(None) < len(inputs) - 1:
            return None
        if axes[-1]:
            batch_axes.free(axes, [-1])
        return axes  # whose last one is as free
    if len(inputs) == 1:
        return inputs[0]
    given = [axes for axes in inputs if axes is not None]
    if not given:
        return None
    ndim = len(_autograd.output_types(node)[0].shape)
    return batch_axes.merged([batch_axes.aligned(axes, ndim) for axes in given])


def _results(
    node: Node,
    edges: _autograd.Successors,
    given: Sequence[Known | None],
    masks: Masks,
) -> Sequence[Axes | None]:
    """Return the axes of each result of a node, or raise `Unsupported`."""
    name = _autograd.node_name(node).removesuffix("_copy")
    look, rule = LOOKS.get(name), RULES.get(name)
    if look is not None and (found := look(node, given, masks)):
        return found
    made = _autograd.output_types(node)[0]
    if rule is None or not (made.dtype.is_floating_point or made.dtype.is_complex):
        raise Unsupported("its kind has no rule")
    step = step_at(node, edges, torch.float32)
    empty = [each and _without_coefficients(each) for each in given]
    with torch.no_grad(), _autograd.without_tangents():
        series = results_of(rule, step, empty)
    return [None if each is None else each.axes for each in series]


def _without_coefficients(known: Known) -> Series:
    """Return a series of this tensor without any coefficient, ``[0, 1, ..., 1]``."""
    node, number = known.edge
    made = _autograd.output_types(node)[number]
    dtype = wider(made.dtype, torch.float32)
    empty = torch.empty((0, *[1] * len(known.shape)), dtype=dtype, device=made.device)
    return Series(algebra=powers(1), indices=(), source=empty, shape=known.shape, axes=known.axes)
