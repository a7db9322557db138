"""Nested reverse passes for small networks, for which Taylor mode is slower.

Taylor mode has a fixed cost per node, which does not pay off for few points. Nested passes replace
it if every node on the path is of a kind whose backward formula is correct at any order, can be
differentiated again, and is as precise as Taylor mode. Rows must be proven independent in both
cases.

A `Plan` is cached and used again for the next graph with the same structure. The cache key contains
everything that the proof and the choice depend on: the shapes and types of the tensors, the kinds
of all nodes, their connections, and the axes that they saved.
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

# The backward formulas of these kinds use only operations of these kinds, so they are correct at
# all orders.
_EXACT = _autograd.types_of_nodes(
    *"Add Addmm Bmm Cat Cos Div Linear Mm Mul Neg Select Sigmoid Silu Sin Slice Sub T Tanh".split(),
    "Unsqueeze",
)
_EXACT_TOO = _autograd.types_of_nodes(  # The proof for these kinds needs more than labels.
    *"Exp Expand MeanBackward1 Permute Pow ReshapeAlias Softmax Split Squeeze".split(),
    *"SumBackward1 Transpose UnsafeView View".split(),
)
_SILU = _autograd.types_of_nodes("Silu")
_SATURATED = 4.0  # For larger arguments, PyTorch's `silu` formula is less precise than Taylor mode.

# The maximum number of elements of a tensor in the middle of the path, by order and number of
# passes. For larger tensors, Taylor mode is faster (see `benchmarks/worth_it.py`).
_MOST_ELEMENTS = {(2, 2): 10_000, (2, 3): 3_000, (3, 3): 500}
_LARGEST = 2.0**30  # If results are below this, intermediate values did not overflow.
_PRECISE = {torch.float32, torch.float64}
_KINDS = {torch.Tensor, torch.nn.Parameter}
_MOST_NODES, _MOST_PLANS = 200, 256
_DIM_READERS = {
    kind: _autograd.reader_of_kept("dim") for kind in _EXACT if _autograd.kind_keeps(kind, "dim")
}


class Pass(NamedTuple):
    """A reverse pass that differentiates one derivative.

    Attributes:
        start: The multi-index of the derivative that the pass differentiates.
        parts: The numbers of the inputs whose gradients the pass computes.
        found: The new derivatives. Each entry has the multi-index, the number of the gradient in
            `parts` and the column of this gradient.
        is_last: Whether no later pass differentiates the results of this one.
    """

    start: MultiIndex
    parts: tuple[int, ...]
    found: tuple[tuple[MultiIndex, int, int], ...]
    is_last: bool


class Plan(NamedTuple):
    """The passes that compute the derivatives of all graphs with the same structure.

    Attributes:
        orders: The multi-indices of the derivatives to return.
        passes: The reverse passes, in order.
        batch: The number of axes that count rows.
        most: The maximum number of elements of the middle node's result, None for no limit.
        middle: The number of the node in the middle of the path.
        silus: The numbers of the SiLU nodes, whose arguments must be below `_SATURATED`.
    """

    orders: tuple[MultiIndex, ...]
    passes: tuple[Pass, ...]
    batch: int
    most: int | None
    middle: int
    silus: tuple[int, ...]


def may_be_nested(outputs: Tensor, parts: Sequence[Tensor], rows: int) -> bool:
    """Check whether nested passes support the types, dtypes and shapes of these tensors.

    If so, only speed and precision decide between nested passes and Taylor mode. There must be a
    single channel, so `outputs` must have as many elements as there are `rows`. `parts` are the
    inputs as the caller passed them.
    """
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
    """Return a plan for the derivatives `orders`, and the list of nodes that its numbers refer to.

    Return None if Taylor mode is better, or if rows are not proven to be independent.
    """
    outputs, axes, path = proof.outputs, proof.axes, proof.path
    highest, batch = max(map(sum, orders)), len(axes.batch)
    most = _MOST_ELEMENTS.get((highest, len(plan(orders)))) if highest > 1 else None
    if highest == 2 and len(orders) >= 2 * len(plan(orders)):  # noqa: PLR2004 - at least a Hessian in four columns
        most = sys.maxsize
    if highest > 1 and most is None:
        return None
    widths: tuple[int, ...] = (axes.columns,)
    seeds: Known = {path.start: label_batch(proof.inputs.shape, batch)}
    nodes = [*path.nodes]
    if joined is not None:  # The first node splits the joined inputs into parts, so skip it.
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
    """Return the passes that compute `orders`. `widths` is the number of columns of each input."""
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
    """Run the passes of a plan. Return all derivatives by multi-index, and the first gradient.

    Return None if Taylor mode is faster or more precise. The derivatives have the shape of
    `outputs`.

    Args:
        one: The plan.
        outputs: The result that is differentiated.
        parts: The inputs as the caller passed them.
        nodes: The nodes that the numbers in the plan refer to.
        create_graph: Whether the derivatives get a graph.
        gradient: The result of the first pass, if it is known.
    """
    if one.most is not None:
        size = math.prod(_autograd.output_types(nodes[one.middle])[0].shape)
        if size > one.most or not all(_keeps_digits(nodes[number]) for number in one.silus):
            return None
    if _autograd.is_memory_missing(nodes):  # PyTorch would crash when it reads this memory.
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
    """Return a column of `gradient` in the shape of `channel`, or zeros if `gradient` is None.

    `place` is the number of the column; the first `batch` axes count rows.
    """
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


# --- The cache of plans


_plans: dict[Hashable, dict[Hashable, Plan]] = {}


def may_be_kept(method: object, rows: object, *flags: object) -> bool:
    """Check whether these options are valid and allow the use of cached plans.

    They are the `method`, the promise about `rows`, and flags such as `create_graph`.
    """
    return (
        method == "auto" and rows in _ROWS and all(flag is True or flag is False for flag in flags)
    )


_ROWS = get_args(RowsArgument)


def keep_plan(
    request: Hashable, one: Plan, outputs: Tensor, parts: Sequence[Tensor], nodes: Sequence[Node]
) -> None:
    """Cache the plan `one` for all graphs with the same structure as that of `outputs`.

    Nothing is cached if the kinds of `nodes` do not allow it. The numbers in the plan refer to
    `nodes`. `parts` are the inputs as the caller passed them. `request` is the key for the orders.
    """
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
    """Return derivatives computed with a plan that is cached for this graph, or None.

    None means that there is no such plan or that it failed. Errors are suppressed: the caller then
    computes the derivatives without a plan, which raises an error with an explanation.
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
    """Return a key of the graph of `outputs`, and the list of its nodes.

    Return None if the graph is too large, if `outputs` has no graph, or if a part is not a leaf.
    The key contains everything that a proof by labels (see `row_spans`) reads. Each node is visited
    once. If the walk meets a node again, its number is added to the key, so different graphs have
    different keys.
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
