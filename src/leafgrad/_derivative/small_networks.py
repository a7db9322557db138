"""Nested reverse passes through networks so small that Taylor mode takes longer.

A Taylor walk has a fixed cost for each node, which few points do not pay back. So nested passes
differentiate them, if every node on the path is of a kind whose formula is right at any order,
records itself, and keeps the digits that Taylor mode keeps. Rows are proven either way.

What is found out about a graph is kept for the next one of the same shape. A `Plan` is known by all
that the proof and the choice depend on: the shapes and types of the tensors, the kinds of all nodes
and how they are connected, and the axes that they saved.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.arguments import MultiIndex
from leafgrad._derivative.joined_inputs import JoinedInputs
from leafgrad._derivative.reverse import plan, successor
from leafgrad._derivative.row_independence import Known, RowProof, RowsArgument, labels_are_in_place
from leafgrad._derivative.row_spans import label_batch

# The formulas of these kinds compute with these kinds only, so that they are right at all orders.
_EXACT = _autograd.types_of_nodes(
    *"Add Addmm Bmm Cat Cos Div Linear Mm Mul Neg Select Sigmoid Silu Sin Slice Sub T Tanh".split(),
    "Unsqueeze",
)
_EXACT_TOO = _autograd.types_of_nodes(  # labels do not pass through them
    *"Exp Expand MeanBackward1 NativeLayerNorm Permute Pow ReshapeAlias Softmax Split".split(),
    *"Squeeze SumBackward1 Transpose UnsafeView View".split(),
)
_SILU = _autograd.types_of_nodes("Silu")
_SATURATED = 4.0  # From there on, the formula of `silu` loses digits that Taylor mode keeps.

# How many elements a tensor in the middle of the path may have, by order and number of passes:
# beyond, Taylor mode is faster (see `benchmarks/worth_it.py`).
_MOST_ELEMENTS = {(2, 2): 10_000, (2, 3): 3_000, (3, 3): 500}
_LARGEST = 2.0**30  # Numbers below are surely in range on the way.
_PRECISE = {torch.float32, torch.float64}
_KINDS = {torch.Tensor, torch.nn.Parameter}
_MOST_NODES, _MOST_PLANS = 200, 256
_DIM_READERS = {
    kind: _autograd.reader_of_kept("dim") for kind in _EXACT if _autograd.kind_keeps(kind, "dim")
}


class Pass(NamedTuple):
    """A reverse pass from one derivative.

    Attributes:
        start: The derivative that it starts from.
        parts: The numbers of the inputs whose gradients it gives.
        found: What these hold: a derivative, which of the gradients it is in, and the column there.
        is_last: Whether what it gives is not differentiated again.
    """

    start: MultiIndex
    parts: tuple[int, ...]
    found: tuple[tuple[MultiIndex, int, int], ...]
    is_last: bool


class Plan(NamedTuple):
    """How to compute the derivatives of graphs of one shape.

    Attributes:
        orders: The derivatives to return.
        passes: What computes them.
        batch: The number of axes that count rows.
        most: The largest number of elements in the middle of the path, None for any.
        middle: The number of the node there.
        silus: The numbers of the nodes whose argument must not saturate.
    """

    orders: tuple[MultiIndex, ...]
    passes: tuple[Pass, ...]
    batch: int
    most: int | None
    middle: int
    silus: tuple[int, ...]


def may_be_nested(outputs: Tensor, parts: Sequence[Tensor], rows: int) -> bool:
    """Return whether nothing but time and digits decides between nested passes and Taylor mode."""
    dtype = outputs.dtype
    if dtype not in _PRECISE or outputs.numel() != rows or _autograd.is_observed(outputs):
        return False
    for tensor in (outputs, *parts):
        if type(tensor) not in _KINDS or tensor.retains_grad:
            return False
        if tensor.dtype != dtype or not tensor.is_cpu or tensor.layout is not torch.strided:
            return False
    return True


def make_plan(
    proof: RowProof, joined: JoinedInputs | None, orders: Sequence[MultiIndex]
) -> tuple[Plan, list[Node]] | None:
    """Return how nested passes compute these derivatives, and the nodes that the plan numbers.

    None where Taylor mode is better, or rows are not proven to be independent.
    """
    outputs, axes, path = proof.outputs, proof.axes, proof.path
    highest, batch = max(map(sum, orders)), len(axes.batch)
    most = _MOST_ELEMENTS.get((highest, len(plan(orders)))) if highest > 1 else None
    if highest == 2 and len(orders) >= 2 * len(plan(orders)):  # noqa: PLR2004 - a Hessian of four columns
        most = sys.maxsize
    if highest > 1 and most is None:
        return None
    widths: tuple[int, ...] = (axes.columns,)
    seeds: Known = {path.start: label_batch(proof.inputs.shape, batch)}
    nodes = [*path.nodes]
    if joined is not None:  # The first node cuts it into its parts, which have labels of their own.
        has_columns = joined.pieces[0].dim() == joined.whole.dim()
        widths = tuple(piece.shape[-1] if has_columns else 1 for piece in joined.pieces)
        cut, *nodes = nodes
        seeds = {(cut, n): label_batch(p.shape, batch) for n, p in enumerate(joined.pieces)}
        path = path._replace(nodes={node: path.nodes[node] for node in nodes})
    if not nodes or not (_EXACT | _EXACT_TOO).issuperset(map(type, nodes)):
        return None
    if not labels_are_in_place(path, seeds, outputs, batch) and not proof.holds:
        return None
    silus = tuple(number for number, node in enumerate(nodes) if type(node) in _SILU)
    passes = _make_passes((*orders,), widths)
    return Plan((*orders,), passes, batch, most, len(nodes) // 2, silus), nodes


@lru_cache(maxsize=256)
def _make_passes(orders: tuple[MultiIndex, ...], widths: tuple[int, ...]) -> tuple[Pass, ...]:
    """Return the passes to these orders through inputs that have so many columns each."""
    places = [(part, place) for part, width in enumerate(widths) for place in range(width)]
    steps, passes = plan(orders), []
    known = {(0,) * len(places)}
    for index in steps:
        new = {successor(index, column): place for column, place in enumerate(places)}
        new = {order: new[order] for order in new if order in {*steps, *orders} - known}
        known.update(new)
        parts = tuple(sorted({part for part, _ in new.values()}))
        found = tuple((order, parts.index(part), place) for order, (part, place) in new.items())
        passes.append(Pass(index, parts, found, new.keys().isdisjoint(steps)))
    return tuple(passes)


def follow_plan(
    one: Plan,
    outputs: Tensor,
    parts: Sequence[Tensor],
    nodes: Sequence[Node],
    *,
    create_graph: bool,
    gradient: Tensor | None = None,
) -> tuple[dict[MultiIndex, Tensor], Tensor | None] | None:
    """Return derivatives shaped as outputs, and the gradient in the inputs of the first pass.

    None where Taylor mode is faster or more exact. The `gradient` may be known already.
    """
    if one.most is not None:
        size = math.prod(_autograd.output_types(nodes[one.middle])[0].shape)
        if size > one.most or not all(_keeps_digits(nodes[number]) for number in one.silus):
            return None
    if _autograd.is_memory_missing(nodes):  # PyTorch would read it and crash
        return None
    known, first = {one.passes[0].start: outputs}, gradient
    for start, used, found, is_last in one.passes:
        channel = known[start]
        gradients: Sequence[Tensor | None] = (None,) * len(used)
        if gradient is not None:
            gradients, gradient = (gradient,), None
        elif channel.requires_grad:
            given = [parts[number] for number in used]
            is_recorded = create_graph or not is_last
            gradients = _autograd.gradients_of_all(channel, given, create_graph=is_recorded)
        if first is None:
            first = gradients[0]
        for order, part, place in found:
            known[order] = _column(gradients[part], channel, place, one.batch)
    if one.most is not None and not _are_in_range(outputs, *[known[order] for order in one.orders]):
        return None
    return known, first


def _column(gradient: Tensor | None, channel: Tensor, place: int, batch: int) -> Tensor:
    """Return a column of a gradient, shaped as the channel; zeros where none arrives."""
    if gradient is None:
        return torch.zeros_like(channel)
    if gradient.numel() != channel.numel():
        gradient = gradient.flatten(batch).select(-1, place)
    return gradient if gradient.shape == channel.shape else gradient.reshape(channel.shape)


def _keeps_digits(silu: Node) -> bool:
    argument: Tensor = _autograd.kept(silu, "self")
    return argument.detach().max().item() < _SATURATED


def _are_in_range(*tensors: Tensor) -> bool:
    for tensor in tensors:
        lowest, highest = tensor.detach().aminmax()
        if not (lowest.item() > -_LARGEST and highest.item() < _LARGEST):
            return False
    return True


# --- Plans that are kept


_plans: dict[Hashable, dict[Hashable, Plan]] = {}


def may_be_kept(method: object, rows: object, *flags: object) -> bool:
    """Return whether these options are valid, and a plan does not depend on them."""
    return (
        method == "auto" and rows in _ROWS and all(flag is True or flag is False for flag in flags)
    )


_ROWS = get_args(RowsArgument)


def keep_plan(
    request: Hashable, one: Plan, outputs: Tensor, parts: Sequence[Tensor], nodes: Sequence[Node]
) -> None:
    """Keep a plan that numbers these nodes, for graphs of the same shape."""
    read = _read_graph(outputs, parts)
    if read is None or not _EXACT.issuperset(map(type, nodes)):
        return
    key, seen = read
    number = {node: place for place, node in enumerate(seen)}
    moved = one._replace(
        middle=number[nodes[one.middle]], silus=tuple(number[nodes[silu]] for silu in one.silus)
    )
    if len(_plans) >= _MOST_PLANS:
        _plans.clear()
    _plans.setdefault(_request_key(request, outputs, parts), {})[key] = moved


def by_kept_plan(
    request: Hashable, outputs: Any, inputs: Any, *, create_graph: bool
) -> list[Tensor] | None:
    """Return what a plan for a graph of this shape gives, None where there is none.

    Nothing is raised: what fails here is computed again, and fails with an error that explains it.
    """
    parts = inputs if isinstance(inputs, tuple | list) else (inputs,)
    if not _KINDS.issuperset(map(type, (outputs, *parts))):
        return None
    plans = _plans.get(_request_key(request, outputs, parts))
    if plans is None or not may_be_nested(outputs, parts, outputs.numel()):
        return None
    read = _read_graph(outputs, parts)
    one = plans.get(read[0]) if read else None
    if read is None or one is None or any(map(_autograd.lacking_memory, (outputs, *parts))):
        return None
    made = None
    with suppress(RuntimeError):
        made = follow_plan(one, outputs, parts, read[1], create_graph=create_graph)
    found = [made[0][order] for order in one.orders] if made else []
    if not create_graph:
        found = [derivative.detach() for derivative in found]
    elif not all(derivative.requires_grad for derivative in found):
        return None
    return [d if _autograd.base(d) is None else d.clone() for d in found] or None


def _request_key(request: Hashable, outputs: Tensor, parts: Sequence[Tensor]) -> Hashable:
    base = _autograd.base(outputs)
    is_part = base is not None and base.numel() != outputs.numel()
    shapes = tuple([part.shape for part in parts])
    return request, is_part, outputs.shape, outputs.dtype, shapes


def _read_graph(
    outputs: Tensor, parts: Sequence[Tensor]
) -> tuple[tuple[Any, ...], list[Node]] | None:
    """Return all that labels read of the graph of outputs, and its nodes; None for a large one.

    Each node is entered once, and its number is written where it is met again, so that no two
    different graphs have the same key.
    """
    root: Any = outputs.grad_fn
    if root is None or any(part.grad_fn is not None for part in parts):
        return None
    numbers: dict[Any, int] = {}
    key: list[Any] = [outputs.output_nr]
    ahead = [root]
    while ahead:
        node = ahead.pop()
        number = numbers.get(node)
        if number is not None:
            key.append(number)
            continue
        numbers[node] = len(numbers)
        kind = node.__class__
        key.append(kind)
        if kind in _DIM_READERS:
            key += _DIM_READERS[kind](node), len(_autograd.output_types(node)[0].shape)
        for behind, number in _autograd.next_functions(node):
            if behind is None:
                key.append(None)
            elif behind.__class__ is _autograd.ACCUMULATE_GRAD:
                leaf = _autograd.leaf_variable(behind)
                key.append(next((~n for n, part in enumerate(parts) if part is leaf), "other"))
            else:
                ahead.append(behind)
                key.append((number,))
    return None if len(numbers) > _MOST_NODES else (tuple(key), [*numbers])
