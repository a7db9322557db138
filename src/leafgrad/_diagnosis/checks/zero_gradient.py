"""Gradients that are zero in all entries: the operation that makes them zero, and why."""

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isclose, prod
from typing import NamedTuple

import torch

from leafgrad import _autograd
from leafgrad._diagnosis.diagnosis import Diagnosis, Edit, Severity, as_code, diagnosis
from leafgrad._diagnosis.edits import line_text, parse
from leafgrad._diagnosis.edits import replace as replace_code
from leafgrad._diagnosis.situation import Situation, check
from leafgrad._graph.gradient_norms import norm_of
from leafgrad._graph.nodes import Shape, Source, TracedEdge, TracedNode, place_text
from leafgrad._graph.summary import TensorSummary

Nodes = Sequence[TracedNode]

NORMALISING = frozenset(
    "nativelayernorm nativebatchnorm nativegroupnorm cudnnbatchnorm fusedrmsnorm".split()
)
VARIANTS = {
    "dead": "relu",
    "bounded": "threshold clamp clampmin clampmax hardtanh hardsigmoid hardswish",
    "saturated": "sigmoid tanh erf logsigmoid silu gelu elu softplus",
    "one-entry": "softmax logsoftmax safesoftmax",
    "one-number": " ".join(NORMALISING),
    "factor": "mul div nativedropout",
    "matrix": "mm addmm bmm baddbmm mv addmv dot addr linear convolution",
    "equal": "mseloss l1loss smoothl1loss huberloss binarycrossentropywithlogits",
    "at-zero": "pow abs linalgvectornorm norm std var",
    "branch": "where maskedfill maximum minimum max min",
    "drawn": "bernoulli cauchy exponential geometric lognormal normal poisson random uniform",
    "rounded": "ceil floor round sign sgn trunc",
    "compared": "eq ge gt le lt ne",
    "overwritten": "copy fill zero",
    "straight": "thresholdbackward leakyrelubackward hardtanhbackward hardshrinkbackward "
    "softshrinkbackward rreluwithnoisebackward",
    "embedding": "embedding",
    "nllloss": "nllloss",
    "gridsampler2d": "gridsampler2d",
}
"""Operations that can pass on zeros only, by the variant of the messages that explains it."""

VARIANT_OF = {name: variant for variant, names in VARIANTS.items() for name in names.split()}

REDUNDANT = {"cancel", "constant", "normalised"}
"""Variants with which a zero gradient of a bias is normal, such as before a normalisation."""

SMALL = 1e-3
"""A gradient below this may underflow in float16 when it is multiplied by a small factor."""
MAX_NODES = 50
SINGLE = 4
NOISE = 50.0
"""A sum of gradients below this many rounding errors of its largest term counts as zero."""


class Origin(NamedTuple):
    """The node at which a gradient became zero, and what made it zero.

    Attributes:
        maker: The node that received a gradient and passed on zeros. None if the backward pass
            started with zeros.
        by: What made the zeros: ``"node"``, or ``"hook"``, ``"cancel"`` or ``"constant"`` if the
            node itself did not.
        is_noise: Whether the gradients are zero only up to rounding errors.
    """

    maker: TracedNode | None
    by: str = "node"
    is_noise: bool = False


@check("zero-gradient", "starts-at-zero", runs_backward=True)
def find_zero_gradients(situation: Situation) -> Iterator[Diagnosis]:
    """Find parameters whose gradient is zero, and the operation that made it zero."""
    trace = situation.backward_trace
    if trace is None:
        return
    found = [
        (origin.maker, _finding(origin, leaves, trace.nodes, situation))
        for origin, leaves in _zero_leaves(trace.nodes)
        if not _are_explained(leaves, situation)
        if not situation.named or any(leaf.leaf_name for leaf in leaves)
    ]
    makers = {maker.index for maker, _ in found if maker is not None}
    for maker, one in found:
        if maker is None or makers.isdisjoint(edge.target for edge in maker.edges):
            after = [
                other
                for behind, other in found
                if maker and behind and maker.index in {edge.target for edge in behind.edges}
            ]
            yield replace(one, consequences=(*after,))


def _are_explained(leaves: Sequence[TracedNode], situation: Situation) -> bool:
    """Return whether an earlier finding explains the zero gradients of all these leaves."""
    with _autograd.unobserved():
        tensors = [_autograd.leaf_variable(situation.node(leaf)) for leaf in leaves]
    return situation.explained.issuperset(map(id, tensors))


def _finding(
    origin: Origin, leaves: Sequence[TracedNode], nodes: Nodes, situation: Situation
) -> Diagnosis:
    """Return the finding about leaves whose gradients became zero at the same node.

    `origin` describes this node.
    """
    names = [leaf.leaf_name for leaf in leaves if leaf.leaf_name]
    names = names or [f"node {leaf.index}" for leaf in leaves]
    factor = None if origin.maker is None else _zero_leaf_beside(origin.maker, nodes)
    at = None if origin.maker is None else origin.maker.source
    if factor is not None and origin.by == "node":
        name = f"`{as_code(factor.leaf_name)}`" if factor.leaf_name else "a factor"
        return diagnosis("starts-at-zero", Severity.NOTE, subject=names, at=at, factor=name)
    variant, place = _variant(origin, nodes)
    if variant == "cancel" and at is not None and "log_prob(" in line_text(at.file, at.line):
        variant = "log-prob"
    if variant in {"dead", "bounded"} and _is_margin(origin.maker, nodes, situation):
        variant = "margin"
    is_redundant = variant in REDUNDANT and all(name.endswith("bias") for name in names)
    severity = Severity.NOTE if variant == "margin" or is_redundant else Severity.WARNING
    edits = _without_dead_units(at) if variant == "dead" else ()
    return diagnosis(
        "zero-gradient",
        severity,
        subject=names,
        at=at,
        variant=variant,
        edits=edits,
        place=place,
    )


def _without_dead_units(at: Source | None) -> tuple[Edit, ...]:
    """Return the edit that replaces the only ``nn.ReLU()`` of a file by ``nn.LeakyReLU()``.

    `at` is a line of the file. There is no edit if the file has none or several.
    """
    nodes = () if at is None else ast.walk(parse(at.file))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    found = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] == "ReLU"]
    if at is None or len(found) != 1:
        return ()
    module = ast.unparse(found[0].func).removesuffix("ReLU")
    return replace_code(at, found[0], f"{module}LeakyReLU()")


def _variant(origin: Origin, nodes: Nodes) -> tuple[str, str]:
    """Return the variant of the messages that explains the zeros, and a place as text.

    A variant is a cause of the finding that has its own message texts. `origin` is the node at
    which the gradient became zero. The place is that of the node whose result of zeros caused this;
    it is empty if there is no such node.
    """
    node = origin.maker
    if node is None or origin.by != "node":
        return "start" if node is None else origin.by, ""
    if any(one is not None and 0 in (one.shape or ()) for one in node.gradients):
        return "empty", ""
    variant = VARIANT_OF.get(own_operation(node), "")
    if variant in {"at-zero", "equal", "matrix"}:
        source = _source_of_zeros(node, nodes)
        kind = "" if source is None else own_operation(source)
        if source is not None and (kind == "embedding") is (variant == "matrix"):
            return "padding" if variant == "matrix" else "behind", place_text(source)
    if _underflows(node):
        variant = "underflow"
    elif variant == "one-number" and _keeps_fewer_numbers(node):
        variant = "normalised"
    return variant, ""


def own_operation(node: TracedNode) -> str:
    """Return the operation of a node in lower case, such as ``"addmm"``."""
    return _autograd.own_stem(node.name).lower()


def _is_margin(node: TracedNode | None, nodes: Nodes, situation: Situation) -> bool:
    """Return whether a gradient is zero because a loss with a margin, such as a hinge, is zero.

    Return False for an activation inside the model.
    """
    if node is None or not all(map(_is_known_zero, node.values)):
        return False
    inner = {path for root in situation.modules.values() for path, _ in root.named_modules()}
    is_in_model = bool(node.module) and node.module in inner
    return not is_in_model and not _feeds_parameters(node, nodes)


def _feeds_parameters(node: TracedNode, nodes: Nodes) -> bool:
    """Return whether a leaf enters the computation between a node and the loss."""
    reaching = {node.index}
    for one in reversed(nodes[: node.index]):
        targets = {edge.target for edge in one.edges}
        if not targets.isdisjoint(reaching):
            reaching.add(one.index)
            if any(target is not None and nodes[target].is_leaf for target in targets):
                return True
    return False


def _zero_leaf_beside(node: TracedNode, nodes: Nodes) -> TracedNode | None:
    """Return a leaf of zeros that was multiplied with the tensor whose gradient is zero."""
    edges = node.edges[slice(*FACTORS.get(own_operation(node), (None,)))]
    ahead = [edge.target for edge in edges if edge.gradient is not None and edge.gradient.norm]
    seen = set[int]()
    while ahead and len(seen) < MAX_NODES:
        place = ahead.pop()
        if place is None or place in seen:
            continue
        seen.add(place)
        one = nodes[place]
        if any(value is not None and value.norm != 0.0 for value in one.values):
            continue
        gradients = [found.norm for found in one.gradients if found is not None]
        if one.is_leaf and any(gradients) and all(map(_is_known_zero, one.values)):
            return one
        ahead += [edge.target for edge in one.edges]
    return None


FACTORS = {
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), (1, None)),
    **dict.fromkeys(("linear", "convolution"), (0, 2)),
    **dict.fromkeys(NORMALISING, (1, 2)),
}
"""The slice of an operation's inputs that are multiplied, if not all inputs are."""


def _source_of_zeros(node: TracedNode, nodes: Nodes) -> TracedNode | None:
    """Return the product or embedding whose zeros reached a node.

    Between the two are only operations that keep zeros, such as sums and views.
    """
    ahead = [edge.target for edge in node.edges]
    for place in ahead:  # the loop extends the list
        one = None if place is None else nodes[place]
        if one is None or one.is_leaf or not all(map(_is_known_zero, one.values)):
            continue
        if own_operation(one) in {"mul", "nativedropout", "embedding"}:
            return one
        if own_operation(one) in {"sum", "mean", "view", "squeeze", "pow", "abs"}:
            ahead += [edge.target for edge in one.edges]
    return None


def _is_known_zero(value: TensorSummary | None) -> bool:
    """Return whether a value is known to be zero in all entries.

    `value` is None if the value is unknown.
    """
    return value is not None and value.norm == 0.0


def _keeps_fewer_numbers(node: TracedNode) -> bool:
    """Return whether a normalisation averages over more than one element."""
    statistics = {"result1", "save_mean", "mean"}
    kept = [saved.shape for saved in node.saved if saved.name in statistics]
    made, *averages = [_count(shape) for shape in (node.shapes[0], *kept)]
    return any(0 < one < made for one in averages[:1])


def _count(shape: Shape | None) -> int:
    """Return the number of elements of a shape; 0 if the shape is unknown."""
    return prod(size for size in ((0,) if shape is None else shape) if isinstance(size, int))


def _underflows(node: TracedNode) -> bool:
    """Return whether a product with a small gradient may have underflowed in float16."""
    arrived = [one.norm for one in node.gradients if one is not None and one.norm is not None]
    made = [one for one in node.values if one is not None]
    is_product = VARIANT_OF.get(own_operation(node)) in {"factor", "matrix"}
    is_small = bool(arrived) and max(arrived) < SMALL
    is_zero = all(one.norm == 0.0 for one in made)
    return node.dtype is torch.float16 and is_product and is_small and not is_zero


# --- Searching the gradients of a backward pass for zeros


def _zero_leaves(nodes: Nodes) -> Iterator[tuple[Origin, list[TracedNode]]]:
    """Yield each origin of zero gradients, with the leaves that receive those zeros.

    An origin is the node at which a gradient became zero. Each node precedes its successors, so one
    pass over the nodes carries the origins to the leaves.
    """
    visited_nodes = [node for node in nodes if node.visited is not None]
    reached = {node.index for node in visited_nodes if any(node.gradients)}
    arriving = _edges_into(nodes, reached)
    origins: dict[int, Origin] = {}
    leaves = defaultdict[Origin, list[TracedNode]](list)
    for node in nodes:
        if node.index not in reached:
            continue
        edges = arriving[node.index]
        is_noise = _is_noise(node, edges, nodes, origins)
        arrived = [one for one in node.gradients if one is not None]
        is_zero = bool(arrived) and all(one.is_finite and one.norm == 0.0 for one in arrived)
        if not (is_noise or is_zero):
            continue
        found = [
            origins.get(edge.source) or _origin(nodes[edge.source], edges, is_noise=is_noise)
            for edge in edges
        ]
        made = [one for one in found if one.maker is not None]
        origins[node.index] = min(made, key=_time_of_visit, default=Origin(None))
        if node.is_leaf:
            leaves[origins[node.index]].append(node)
    yield from sorted(leaves.items(), key=lambda item: _time_of_visit(item[0]))


def _time_of_visit(origin: Origin) -> int:
    """Return the position, in the backward pass, of the node that passed on zeros.

    It is the position of `origin.maker`. It is -1 if there is no such node, because the pass
    started with zeros.
    """
    return -1 if origin.maker is None else origin.maker.visited or 0


def _is_noise(
    node: TracedNode,
    edges: Sequence[TracedEdge],
    nodes: Nodes,
    origins: Mapping[int, Origin],
) -> bool:
    """Return whether the gradient that arrived at a node is only a rounding error of zero.

    Such an error arises if gradients cancel, or if a normalisation or softmax receives the same
    gradient for all entries. A gradient is also one if it was computed only from zeros and such
    errors, at least one of them an error.

    Args:
        node: The node.
        edges: The edges along which the gradient arrived.
        nodes: All nodes.
        origins: Where the gradients of earlier nodes became zero, by the index of the node.
    """
    norm = norm_of(node.gradients)
    sent = [edge.gradient.norm or 0.0 for edge in edges if edge.gradient is not None]
    if not norm or not sent or node.dtype.itemsize < SINGLE:
        return False
    if all(edge.source in origins for edge in edges):
        return any(origins[edge.source].is_noise for edge in edges)
    noise = NOISE * torch.finfo(node.dtype).eps
    if len(sent) > 1:
        return norm < noise * max(sent)
    maker = nodes[edges[0].source]
    arrived = norm_of(maker.gradients) or 0.0
    is_input = edges[0] is maker.edges[0]
    is_normalising = is_input and own_operation(maker) in {*NORMALISING, "softmax"}
    return is_normalising and norm < noise * arrived and _is_constant(maker.gradients[0])


def _is_constant(gradient: TensorSummary | None) -> bool:
    """Return whether all entries of a gradient are equal, judged by its mean and norm."""
    if gradient is None or gradient.norm is None or not isinstance(gradient.mean, float):
        return False
    size = _count(gradient.shape)
    return isclose(gradient.norm, abs(gradient.mean) * size**0.5, rel_tol=1e-5)


def _edges_into(nodes: Nodes, targets: Collection[int]) -> dict[int, list[TracedEdge]]:
    """Return the edges along which gradients arrived at the nodes `targets`, by node index."""
    arriving = defaultdict[int, list[TracedEdge]](list)
    for node in nodes:
        for edge in node.edges:
            if edge.target is not None and edge.target in targets and edge.gradient is not None:
                arriving[edge.target].append(edge)
    return arriving


def _origin(maker: TracedNode, edges: Sequence[TracedEdge], *, is_noise: bool) -> Origin:
    """Return what made the zeros that the node `maker` passed on along the edges."""
    if is_noise:
        return Origin(maker, "cancel" if len(edges) > 1 else "constant", is_noise)
    if not any(edge.gradient is not None and edge.gradient.norm for edge in edges):
        return Origin(maker)
    sums = [edge.gradient_so_far for edge in edges if edge.gradient_so_far is not None]
    return Origin(maker, "cancel" if any(one.norm == 0.0 for one in sums) else "hook")
