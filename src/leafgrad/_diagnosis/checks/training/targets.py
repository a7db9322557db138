"""Loss terms that train nothing, or train what they should not."""

import ast
from collections.abc import Iterator

from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._arguments.outputs import gradient_edges
from leafgrad._diagnosis.build import diagnosis
from leafgrad._diagnosis.checks.backward.nodes import source_of, spans
from leafgrad._diagnosis.diagnosis import Diagnosis, Edit, Severity
from leafgrad._diagnosis.edits import append, marked, node_at
from leafgrad._diagnosis.registry import check
from leafgrad._diagnosis.situation import Situation
from leafgrad._display.units import shape_text
from leafgrad._graph.nodes import Source, TracedNode
from leafgrad._messages import message
from leafgrad._trace.graph_trace import GraphTrace


@check("dead-term")
def find_dead_terms(situation: Situation) -> Iterator[Diagnosis]:
    """Find terms of the loss that reach no parameter, beside others that do."""
    with _autograd.unobserved():
        trained = {id(one) for one in situation.parameters.values()}
        living = {name: _reaches(term, trained) for name, term in situation.terms.items()}
        dead = [name for name, is_living in living.items() if not is_living]
        for name in dead if any(living.values()) else ():
            term = situation.terms[name]
            if _autograd.plain(term, "dtype").is_floating_point:
                yield diagnosis("dead-term", Severity.WARNING, subject=[name])


def _reaches(term: Tensor, trained: set[int]) -> bool:
    """Return whether a term depends on what is trained: on any leaf if nothing is named."""
    nodes = _autograd.walk([node for node, _ in gradient_edges([term])])
    leaves = {id(leaf) for leaf in map(_autograd.leaf_variable, nodes) if leaf is not None}
    return bool(leaves & trained if trained else leaves)


@check("unexpected-gradient")
def find_unexpected_gradients(situation: Situation) -> Iterator[Diagnosis]:
    """Find parameters that get a gradient although `expect` leaves them out."""
    if situation.expected is None:
        return
    for one in situation.expected:
        if not any(_is_part(name, one) for name in situation.parameters):
            raise ValueError(message("errors.expect", name=one))
    with _autograd.unobserved():
        names = {id(one): name for name, one in situation.parameters.items()}
        leaves = {node: names.get(id(_autograd.leaf_variable(node))) for node in situation.live}
        unexpected = [name for name in leaves.values() if name and not _is_in(name, situation)]
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


def _is_part(name: str, path: str) -> bool:
    return name == path or name.startswith(f"{path}.")


def _is_in(name: str, situation: Situation) -> bool:
    return any(_is_part(name, path) for path in situation.expected or ())


def _lines_to_detach(situation: Situation, leaves: dict[Node, str | None]) -> Iterator[Source]:
    """Yield the last lines behind which everything that is trained is unexpected."""
    graph = {node: _autograd.next_functions(node) for node in situation.live}
    kinds: dict[Node, set[bool]] = {}
    for node in reversed([*graph]):  # each after its successors
        name, found = leaves[node], set[bool]()
        found = set() if name is None else {_is_in(name, situation)}
        kinds[node] = found.union(*(kinds[after] for after, _ in graph[node] if after is not None))
    seen: set[Source] = set()
    for node, successors in graph.items():
        for after, _ in successors if True in kinds[node] else ():
            at = None if after is None else source_of(situation, after)
            is_last = after is not None and kinds[after] == {False}
            if is_last and at is not None and at not in seen and at != source_of(situation, node):
                seen.add(at)
                yield at


@check("broadcast-loss")
def find_broadcast_losses(situation: Situation) -> Iterator[Diagnosis]:
    """Find losses that compare each prediction with each target, by shapes (N, 1) and (N,)."""
    trace = situation.trace
    if trace is None:
        return
    ahead = [*dict.fromkeys(trace.roots)]
    seen = {node.index for node in ahead}
    while ahead:
        node = ahead.pop()
        place = _broadcast_operand(trace, node)
        if place is not None:
            yield diagnosis(
                "broadcast-loss",
                Severity.WARNING,
                at=node.source,
                edits=_without_last_axis(node.source, place),
                shape=shape_text(node.shapes[0]),
                size=node.shapes[0][0] if node.shapes[0] else 0,
            )
        elif node.name in _ELEMENTWISE or node in trace.roots:
            targets = [edge.target for edge in node.edges if edge.target is not None]
            ahead += [trace.nodes[one] for one in targets if one not in seen]
            seen.update(targets)


_ELEMENTWISE = {
    *("AbsBackward0", "AddBackward0", "DivBackward0", "ExpandBackward0", "MeanBackward0"),
    *("MseLossBackward0", "HuberLossBackward0", "SmoothL1LossBackward0", "L1LossBackward0"),
    *("MulBackward0", "PowBackward0", "SqrtBackward0", "SumBackward0"),
}


def _broadcast_operand(trace: GraphTrace, node: TracedNode) -> int | None:
    """Return which operand of shape (N, 1) a node broadcasts to (N, N) with one of shape (N,)."""
    sizes = node.shapes[0] if node.shapes else None
    if sizes is None or len(sizes) != _SQUARE or sizes[0] != sizes[1] or sizes[0] == 1:
        return None
    if node.name not in {"SubBackward0", "ExpandBackward0"}:
        return None
    inputs = [None if e.target is None else trace.nodes[e.target] for e in node.edges]
    for place, one in enumerate(inputs):
        others = [other for at, other in enumerate(inputs) if at != place and other is not None]
        is_column = one is not None and one.shapes[0] == (sizes[0], 1)
        is_made_so = one is not None and one.name.startswith(_RESHAPING)
        is_row = all(other.shapes[0] == (sizes[0],) for other in others)
        if is_column and is_row and not is_made_so:
            return place
    return None


_SQUARE = 2
_RESHAPING = ("Unsqueeze", "View", "Slice", "Reshape", "UnsafeView")


def _without_last_axis(at: Source | None, place: int) -> tuple[Edit, ...]:
    """Append ``.squeeze(-1)`` to the prediction in ``prediction - target`` or ``loss(...)``."""
    found = node_at(at, ast.expr)
    operand: ast.expr | None = None
    if isinstance(found, ast.BinOp):
        operand = (found.left, found.right)[min(place, 1)]
    elif isinstance(found, ast.Call) and found.args:
        operand = found.args[0]
    if at is None or operand is None:
        return ()
    return append(marked(at, operand), ".squeeze(-1)")
