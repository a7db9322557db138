"""Loss terms that train nothing, or that train the wrong parameters."""

import ast
from collections.abc import Iterator

from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._arguments.outputs import gradient_edges
from leafgrad._diagnosis.checks.gradient.cause import Cause, cause_of_cut, edits_for
from leafgrad._diagnosis.diagnosis import Diagnosis, Edit, Severity, diagnosis, is_in, spans
from leafgrad._diagnosis.edits import MODULES, append, call_at, marked, node_at, replace, text_of
from leafgrad._diagnosis.paths import Paths
from leafgrad._diagnosis.situation import Situation, check
from leafgrad._display.units import shape_text
from leafgrad._graph.nodes import Source
from leafgrad._messages import message


@check("not-scalar")
def find_outputs_of_several_numbers(situation: Situation) -> Iterator[Diagnosis]:
    """Find a loss or term that is not one real number, so that `backward()` refuses it."""
    if len(situation.outputs) > 1 and not situation.terms:
        return
    for node, sizes in situation.non_scalar_outputs.items():
        at, is_complex = situation.source_of(node), all(size == 1 for size in sizes or (0,))
        yield diagnosis(
            "not-scalar",
            Severity.WARNING if situation.terms else Severity.ERROR,
            at=at,
            variant="complex" if is_complex else "",
            edits=append(at, ".abs()" if is_complex else ".mean()"),
            shape=shape_text(sizes),
        )


@check("dead-term")
def find_dead_terms(situation: Situation) -> Iterator[Diagnosis]:
    """Find terms of the loss that depend on no parameter, if other terms do."""
    trained = {id(one) for one in situation.parameters.values()}
    living = {name: _reaches(term, trained) for name, term in situation.terms.items()}
    dead = [name for name, is_living in living.items() if not is_living]
    for name in dead if any(living.values()) else ():
        term = situation.terms[name]
        if _autograd.plain(term, "dtype").is_floating_point:
            cuts = map(cause_of_cut, Paths([term], situation.log).cuts_before(term))
            cause = next(cuts, Cause("dead-term"))
            yield diagnosis(
                "dead-term",
                Severity.WARNING,
                subject=[name],
                at=cause.at,
                variant="" if cause.at else "constant",
                edits=edits_for(cause, name),
            )


def _reaches(term: Tensor, trained: set[int]) -> bool:
    """Return whether a loss term depends on a trained tensor; on any leaf if none is named."""
    nodes = _autograd.walk([node for node, _ in gradient_edges([term])])
    leaves = {id(leaf) for leaf in map(_autograd.leaf_variable, nodes) if leaf is not None}
    return bool(leaves & trained if trained else leaves)


@check("unexpected-gradient")
def find_unexpected_gradients(situation: Situation) -> Iterator[Diagnosis]:
    """Find parameters that get a gradient although `expect` does not list them."""
    if situation.expected is None:
        return
    for one in situation.expected:
        if not any(is_in(name, one) for name in situation.parameters):
            raise ValueError(message("errors.expect", name=one))
    names = {id(one): name for name, one in situation.parameters.items()}
    leaves = {node: names.get(id(_autograd.leaf_variable(node))) for node in situation.live}
    unexpected = [name for name in leaves.values() if name and not situation.expects(name)]
    if unexpected:
        lines = [*_lines_to_detach(situation, leaves)]
        yield diagnosis(
            "unexpected-gradient",
            Severity.ERROR,
            subject=unexpected,
            at=lines[0] if lines else None,
            variant="" if lines else "parameters",
            secondary=spans("unexpected-gradient.label", *lines[1:]),
            edits=[edit for line in lines for edit in append(line, ".detach()")],
        )


def _lines_to_detach(situation: Situation, leaves: dict[Node, str | None]) -> Iterator[Source]:
    """Yield the expressions closest to the loss that depend on unexpected parameters only.

    A `detach()` at each of them stops all unexpected gradients.
    """
    graph = {node: _autograd.next_functions(node) for node in situation.live}
    kinds: dict[Node, set[bool]] = {}
    for node in reversed([*graph]):  # Successors come first.
        name = leaves[node]
        found = set[bool]() if name is None else {situation.expects(name)}
        kinds[node] = found.union(*(kinds[after] for after, _ in graph[node] if after is not None))
    seen = set[object]()
    for node, successors in graph.items():
        own = situation.source_of(node)
        for after, _ in successors if True in kinds[node] else ():
            at = None if after is None else situation.source_of(after)
            is_last = after is not None and kinds[after] == {False}
            if is_last and at is not None and _columns(at) not in {*seen, _columns(own)}:
                seen.add(_columns(at))
                yield at


def _columns(at: Source | None) -> object:
    """Return a key for the expression `at` that differs from others even on the same line."""
    return at and (at, at.column, at.end_column)


@check("broadcast-loss")
def find_broadcast_losses(situation: Situation) -> Iterator[Diagnosis]:
    """Find losses that compare each prediction with each target: shapes (N, 1) and (N,)."""
    ahead = [(node, True) for node, _ in gradient_edges(situation.outputs)]
    seen = {node for node, _ in ahead}
    while ahead:
        node, is_linear = ahead.pop()
        is_linear &= _autograd.node_name(node) in _LINEAR
        place = _broadcast_operand(node, is_summed=is_linear)
        if place is not None:
            at, size = situation.source_of(node), (_shape_of(node) or (0,))[0]
            yield diagnosis(
                "broadcast-loss",
                Severity.WARNING,
                at=at,
                variant="product" if _autograd.node_name(node) == "MulBackward0" else "",
                edits=_without_last_axis(at, place),
                size=size,
            )
        elif _autograd.node_name(node) in _ELEMENTWISE:
            after = [one for one, _ in _autograd.next_functions(node) if one is not None]
            ahead += [(one, is_linear) for one in after if one not in seen]
            seen.update(after)


_LINEAR = {
    *("AddBackward0", "DivBackward0", "MeanBackward0", "MulBackward0", "NegBackward0"),
    "SumBackward0",
}
_ELEMENTWISE = {
    *("MseLossBackward0", "HuberLossBackward0", "SmoothL1LossBackward0", "L1LossBackward0"),
    *("AbsBackward0", "PowBackward0", "SqrtBackward0", *_LINEAR),
}


def _shape_of(node: Node | None) -> tuple[int | str, ...] | None:
    """Return the shape of the first result of a node's operation; None without a node."""
    outputs = () if node is None else _autograd.forward_outputs(node)
    return outputs[0].shape if outputs else None


def _broadcast_operand(node: Node, *, is_summed: bool) -> int | None:
    """Return the number of the operand of shape (N, 1) that is broadcast with one of shape (N,).

    None if there is no such operand. A product counts only if the loss sums all its entries
    (`is_summed`). That sum equals a product of two sums, so nobody computes it this way on purpose.
    """
    sizes, name = _shape_of(node), _autograd.node_name(node)
    if name == "MulBackward0":
        saved = [
            slot.tensor.shape for slot in _autograd.saved_slots(node) if slot.tensor is not None
        ]
        if not is_summed or sizes is None or sizes[:1] not in saved:
            return None
    elif name not in {"SubBackward0", "ExpandBackward0"}:
        return None
    if sizes is None or len(sizes) != _SQUARE or sizes[0] != sizes[1] or sizes[0] == 1:
        return None
    inputs = [after for after, _ in _autograd.next_functions(node)]
    columns = [place for place, one in enumerate(inputs) if _shape_of(one) == (sizes[0], 1)]
    others = [_shape_of(one) for one in inputs if one is not None]
    is_row = all(shape in {(sizes[0], 1), (sizes[0],)} for shape in others)
    if len(columns) != 1 or not is_row:
        return None
    name = _autograd.node_name(inputs[columns[0]] or node)
    return None if name.startswith(_RESHAPING) else columns[0]


_SQUARE = 2
_RESHAPING = ("Unsqueeze", "View", "Slice", "Reshape", "UnsafeView")


def _without_last_axis(at: Source | None, place: int) -> tuple[Edit, ...]:
    """Return the edit that appends ``.squeeze(-1)`` to the prediction in a loss.

    `at` is the expression of the loss. If it is a difference, `place` is 0 if the prediction is its
    left side and 1 if it is the right one.
    """
    match node_at(at, ast.expr):
        case ast.BinOp(left=left, right=right) if at:
            return append(marked(at, right if place else left), ".squeeze(-1)")
        case ast.Call(args=[prediction, *_]) if at:
            return append(marked(at, prediction), ".squeeze(-1)")
    return ()


@check("softmax-twice")
def find_probabilities_as_logits(situation: Situation) -> Iterator[Diagnosis]:
    """Find losses that expect logits but get the result of a softmax or sigmoid."""
    for node in situation.live:
        activation = _ACTIVATIONS.get(_autograd.node_name(node))
        source = _source_of_numbers(node) if activation else None
        if source is not None and _autograd.node_name(source) == activation:
            at = situation.source_of(source)
            yield diagnosis(
                "softmax-twice",
                Severity.WARNING,
                at=at,
                variant="sigmoid" if activation == "SigmoidBackward0" else "",
                secondary=spans("softmax-twice.loss", situation.source_of(node), but=at),
                edits=_without_activation(at),
            )


def _without_activation(at: Source | None) -> tuple[Edit, ...]:
    """Return the edit that replaces ``x.softmax(1)`` or ``torch.softmax(x, 1)`` by ``x``.

    `at` is the call.
    """
    match call_at(at):
        case ast.Call(func=ast.Attribute(attr="softmax" | "sigmoid") as function) as call if at:
            is_library = ast.unparse(function.value).rpartition(".")[2] in MODULES
            inner = call.args[0] if is_library and call.args else function.value
            return replace(at, call, text_of(at, inner))
    return ()


_ACTIVATIONS = {
    "LogSoftmaxBackward0": "SoftmaxBackward0",
    "BinaryCrossEntropyWithLogitsBackward0": "SigmoidBackward0",
}
_SAME_NUMBERS = (*_RESHAPING, "Permute", "Squeeze", "Transpose", "ToCopy")


def _source_of_numbers(node: Node) -> Node | None:
    """Return the node that computed the input of a node, before any change of shape.

    Return None if the input has no node.
    """
    before = _autograd.next_functions(node)[0][0]
    while before is not None and _autograd.node_name(before).startswith(_SAME_NUMBERS):
        before = _autograd.next_functions(before)[0][0]
    return before
