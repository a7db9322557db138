"""How large the gradients of a backward are, module by module, and where they get lost."""

import textwrap
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, isclose, prod
from typing import Any, NamedTuple

import torch

from leafgrad._display.jsonable import fields_as_json
from leafgrad._display.markup import preformatted, visible
from leafgrad._display.table import table
from leafgrad._display.text_width import WIDTH
from leafgrad._display.units import count, first_few
from leafgrad._graph.nodes import TracedEdge, TracedNode, place_text
from leafgrad._graph.summary import NotFinite, TensorSummary, worst_of
from leafgrad._graph.zero_words import (
    CANCELLED,
    CONSTANT,
    FROM_THE_START,
    HOOKED,
    NORMALISING,
    Words,
    own_operation,
    words_of_zeros,
)

MOST_MODULES = 24
MOST_LEAVES = 4
MOST_SENTENCES = 3
OUTSIDE = "outside"
VANISHED = 1e-3
EXPLODED = 1e3

Nodes = Sequence[TracedNode]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleGradient:
    """How large the gradients of one module are.

    Attributes:
        module: The path of the module, ``"outside"`` for operations in none; the name of the
            tensor for a leaf in none.
        arriving: The 2-norm of the gradient that arrives at its result, the last one if it was
            called several times; None where none was seen.
        ratio: That norm, divided by the one at the first module; None outside of all modules.
        parameters: The 2-norm of the gradients of all its leaves together; None where it has none
            that got a gradient.
        not_finite: ``"NaN"`` or ``"infinity"`` if one of these gradients holds any, which norms
            leave out; else None.
    """

    module: str
    arriving: float | None
    ratio: float | None
    parameters: float | None
    not_finite: NotFinite | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ZeroGradients:
    """Leaves whose gradients are all zeros, and the operation that made them so.

    Attributes:
        node: The node that a gradient arrived at and that passed on nothing but zeros to them; None
            where zeros came from the start.
        leaves: The names of the leaves, of those without one their numbers as nodes.
        because: One sentence that says how that comes about.
        cure: One sentence that says what to do.
        is_noise: Whether they are zero but for rounding errors.
    """

    node: TracedNode | None
    leaves: tuple[str, ...]
    because: str
    cure: str
    is_noise: bool = False


@dataclass(frozen=True, kw_only=True, repr=False)
class GradientNorms:
    """The gradients of a backward by module, in the order in which it came to them.

    `GraphTrace.gradient_norms` makes it, and ``str()`` prints it as a table.

    Attributes:
        modules: The modules, from the outputs to the inputs.
        zeros: The leaves that nothing but zeros came to, in the order of the backward.
        cure_of_vanishing: What to do where gradients vanish: what the graph does not have yet.
    """

    modules: tuple[ModuleGradient, ...]
    zeros: tuple[ZeroGradients, ...]
    cure_of_vanishing: str

    @property
    def vanishing(self) -> tuple[ModuleGradient, ...]:
        """The modules from which on to the inputs less than 0.001 of the first norm arrives."""
        return self._ending(lambda ratio: ratio < VANISHED)

    @property
    def exploding(self) -> tuple[ModuleGradient, ...]:
        """The modules from which on to the inputs more than 1,000 times the first norm arrives."""
        return self._ending(lambda ratio: ratio > EXPLODED)

    def _ending(self, is_so: Callable[[float], bool]) -> tuple[ModuleGradient, ...]:
        """Return those at the end of the modules with a ratio of which all are so."""
        known = [(one.ratio, one) for one in self.modules if one.ratio is not None]
        start = len(known)
        while start and is_so(known[start - 1][0]):
            start -= 1
        return tuple(one for _, one in known[start:])

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is wrong with the sizes, a sentence each; empty where nothing is."""
        return tuple(sentence for sentence, _ in self._told())

    @property
    def cures(self) -> tuple[str, ...]:
        """How that comes about and what to do, once each, in the order of the sentences."""
        return tuple(dict.fromkeys(cure for _, cure in self._told()))

    def _told(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong, and what to do."""
        head = next((one.module for one in self.modules if one.ratio is not None), "")
        is_noise = any(zeros.is_noise for zeros in self.zeros)
        vanishing = () if is_noise else self.vanishing
        cures = {"vanish": self.cure_of_vanishing, "explode": CURE_OF_EXPLODING}
        for word, found in {"vanish": vanishing, "explode": self.exploding}.items():
            if found and found[-1].ratio:
                told = (
                    f"gradients {word} from {found[0].module} on: at {found[-1].module} arrives "
                    f"{found[-1].ratio:.1e} of the norm at {head}"
                )
                yield told, cures[word]
        for zeros in self.zeros[:MOST_SENTENCES]:
            where = "the start" if zeros.node is None else place_text(zeros.node)
            leaves = first_few(zeros.leaves, MOST_LEAVES)
            what = "zero up to rounding" if zeros.is_noise else "all zeros"
            yield f"gradients {what} for {leaves}, from {where}", f"{zeros.because}. {zeros.cure}."

    def _not_finite(self) -> Iterator[str]:
        bad = next((one for one in self.modules if one.not_finite), None)
        if bad is not None:
            yield (
                f"{bad.not_finite} in the gradients, first at {bad.module or 'the outermost'}: "
                "find_nan() tells where it comes up, and what to do."
            )

    def __str__(self) -> str:
        rows = [("module", "arriving", "of the first", "parameters", "")]
        rows += [
            (
                one.module or "the outermost",
                _number(one.arriving),
                _number(one.ratio),
                _number(one.parameters),
                one.not_finite or "",
            )
            for one in self.modules
        ]
        told = [*map(". ".join, self._told()), *self._not_finite()]
        sentences = [line for one in told for line in textwrap.wrap(one, WIDTH)]
        lines = table(rows, right=(1, 2, 3), width=WIDTH)
        if sentences:
            sentences.append("")
        return "\n".join(map(visible, [*sentences, *lines]))

    def __repr__(self) -> str:
        return f"<GradientNorms of {count(len(self.modules), 'module')}>"

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    def to_dict(self) -> dict[str, Any]:
        """Return every field under its name, as JSON types only.

        Returns:
            The fields.
        """
        return fields_as_json(self)


CURE_OF_EXPLODING = (
    "Clip them by torch.nn.utils.clip_grad_norm_(), begin with smaller weights, or put a "
    "normalisation between the layers."
)
_AGAINST_VANISHING = {
    "ReLU or another activation that is not flat": {"relu", "gelu", "silu", "leakyrelu", "elu"},
    "residual connections": {"add"},
    "a normalisation between the layers": NORMALISING,
}


def _cure_of_vanishing(nodes: Nodes) -> str:
    """Return what helps against small gradients and is not in the graph."""
    dropping = next((node for node in nodes if _drops_in_normalising(node)), None)
    if dropping is not None:
        return (
            f"They drop at {place_text(dropping)}: if its results are only summed up or averaged, "
            "change the objective, as the sum or mean of normalised numbers cannot change."
        )
    operations = {own_operation(node.name) for node in nodes}
    missing = [what for what, names in _AGAINST_VANISHING.items() if names.isdisjoint(operations)]
    if not missing:
        return (
            "The layers have what usually helps (activations that are not flat, residual "
            "connections, a normalisation): look again after some steps of training, and at the "
            "scale of the first weights."
        )
    return f"Use {' or '.join(missing)}, or begin with larger weights."


def _drops_in_normalising(node: TracedNode) -> bool:
    """Return whether a normalisation passed on next to nothing of the gradient that arrived.

    What it passes on for a constant objective is the rounding error divided by the spread of its
    input, so that no multiple of the precision bounds it.
    """
    if own_operation(node.name) not in NORMALISING:
        return False
    passed, arrived = norm_of([node.edges[0].gradient]), norm_of(node.gradients)
    return bool(passed and arrived) and (passed or 0.0) < _NEXT_TO_NOTHING * (arrived or 0.0)


_NEXT_TO_NOTHING = 1e-3


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}"


# --- From a graph


def gradient_norms_of(nodes: Nodes) -> GradientNorms:
    """Sum up by module what a backward passed on, with as many levels as fit on a screen."""
    visited = [(node.visited, node) for node in nodes if node.visited is not None]
    in_order = [node for _, node in sorted(visited, key=lambda pair: pair[0])]
    paths = {node.index: _path(node) for node in in_order}
    depth = _fitting_depth([*paths.values()])
    members = defaultdict[str, list[TracedNode]](list)
    for node in in_order:
        members[".".join(paths[node.index].split(".")[:depth])].append(node)
    return GradientNorms(
        modules=tuple(_modules(members)),
        zeros=tuple(_zero_gradients(nodes, in_order)),
        cure_of_vanishing=_cure_of_vanishing(nodes),
    )


def _path(node: TracedNode) -> str:
    """Return the module of a node; of a leaf, the module that its name says it is in."""
    if not node.is_leaf:
        return OUTSIDE if node.module is None else node.module
    name = _name(node)
    return name.rpartition(".")[0] or name


def _name(leaf: TracedNode) -> str:
    return leaf.leaf_name or f"node {leaf.index}"


def _fitting_depth(paths: Sequence[str]) -> int:
    """Return how many levels of paths there are at most without too many modules, at least one."""
    levels = [path.split(".") for path in set(paths)]
    deepest = max(map(len, levels), default=1)
    for depth in range(deepest, 1, -1):
        if len({tuple(one[:depth]) for one in levels}) <= MOST_MODULES:
            return depth
    return 1


def _modules(members: Mapping[str, Nodes]) -> Iterator[ModuleGradient]:
    """Yield the modules; the ratios refer to the first at which a norm is known and not zero."""
    first: float | None = None
    for module, nodes in members.items():
        results = [node for node in nodes if not node.is_leaf]
        arriving = norm_of(results[0].gradients) if results else None
        is_inside = bool(results) and bool(results[0].module)
        first = first or (arriving if is_inside else None)
        leaves = [norm_of(node.gradients) for node in nodes if node.is_leaf]
        known = [norm for norm in leaves if norm is not None]
        yield ModuleGradient(
            module=module,
            arriving=arriving,
            ratio=arriving / first if arriving is not None and is_inside and first else None,
            parameters=hypot(*known) if known else None,
            not_finite=worst_of(one for node in nodes for one in node.gradients),
        )


def norm_of(gradients: Sequence[TensorSummary | None]) -> float | None:
    """Return the 2-norm of all that arrived at a node, None where nothing could be read."""
    norms = [one.norm for one in gradients if one is not None and one.norm is not None]
    return hypot(*norms) if norms else None


def _is_all_zero(node: TracedNode) -> bool:
    """Return whether something arrived at a node, and nothing but zeros."""
    arrived = [one for one in node.gradients if one is not None]
    return bool(arrived) and all(one.is_finite and one.norm == 0.0 for one in arrived)


class _Origin(NamedTuple):
    """Where zeros come from.

    Attributes:
        maker: The node that a gradient arrived at and that passed on zeros; None where zeros came
            from the start.
        is_passed_on: Whether it did not pass on zeros itself, but what arrived after it was zero.
        is_sum: Whether that was a sum of several gradients.
        is_noise: Whether it is zero but for rounding errors.
    """

    maker: TracedNode | None
    is_passed_on: bool = False
    is_sum: bool = False
    is_noise: bool = False

    def words(self, nodes: Nodes) -> Words:
        """Return why, and what to do."""
        if self.is_passed_on:
            return CANCELLED if self.is_sum else HOOKED
        if self.maker is None:
            return FROM_THE_START
        return CONSTANT if self.is_noise else words_of_zeros(self.maker, nodes)


def _zero_gradients(nodes: Nodes, in_order: Nodes) -> Iterator[ZeroGradients]:
    """Yield the leaves that only zeros came to, by the first node on the way that made them so.

    Each node stands before those that it leads to, so one pass carries that node on to the leaves.
    """

    def visited(origin: _Origin) -> int:
        return -1 if origin.maker is None else origin.maker.visited or 0

    reached = {node.index for node in in_order if any(node.gradients)}
    arriving = _arriving(nodes, reached)
    origins: dict[int, _Origin] = {}
    leaves = defaultdict[_Origin, list[str]](list)
    for node in nodes:
        if node.index not in reached:
            continue
        edges = arriving[node.index]
        is_noise = _is_noise(node, edges, nodes, origins)
        if not (is_noise or _is_all_zero(node)):
            continue
        found = [
            origins.get(edge.source) or _origin(nodes[edge.source], edges, is_noise=is_noise)
            for edge in edges
        ]
        made = [one for one in found if one.maker is not None]
        origins[node.index] = min(made, key=visited, default=_Origin(None))
        if node.is_leaf:
            leaves[origins[node.index]].append(_name(node))
    for origin in sorted(leaves, key=visited):
        because, cure = origin.words(nodes)
        names = tuple(leaves[origin])
        yield ZeroGradients(
            node=origin.maker, leaves=names, because=because, cure=cure, is_noise=origin.is_noise
        )


def _is_noise(
    node: TracedNode,
    edges: Sequence[TracedEdge],
    nodes: Nodes,
    origins: Mapping[int, _Origin],
) -> bool:
    """Return whether what arrived at a node is the rounding error of zero.

    That is of gradients that cancel, or of the same gradient for all entries, which a
    normalisation or a softmax makes nothing of; and all that comes of it alone.
    """
    norm = norm_of(node.gradients)
    sent = [edge.gradient.norm or 0.0 for edge in edges if edge.gradient is not None]
    if not norm or not sent or node.dtype.itemsize < _SINGLE:
        return False
    if all(edge.source in origins for edge in edges):
        return any(origins[edge.source].is_noise for edge in edges)
    noise = _NOISE * torch.finfo(node.dtype).eps
    if len(sent) > 1:
        return norm < noise * max(sent)
    maker = nodes[edges[0].source]
    arrived = norm_of(maker.gradients) or 0.0
    is_input = edges[0] is maker.edges[0]
    is_normalising = is_input and own_operation(maker.name) in {*NORMALISING, "softmax"}
    return is_normalising and norm < noise * arrived and _is_constant(maker.gradients[0])


_SINGLE = 4
_NOISE = 50.0


def _is_constant(gradient: TensorSummary | None) -> bool:
    """Return whether all entries are the same, by their mean and norm."""
    if gradient is None or gradient.norm is None or not isinstance(gradient.mean, float):
        return False
    count_of = prod(size for size in gradient.shape or () if isinstance(size, int))
    return isclose(gradient.norm, abs(gradient.mean) * count_of**0.5, rel_tol=1e-5)


def _arriving(nodes: Nodes, targets: Collection[int]) -> dict[int, list[TracedEdge]]:
    """Return the edges along which something came to some nodes."""
    arriving = defaultdict[int, list[TracedEdge]](list)
    for node in nodes:
        for edge in node.edges:
            if edge.target is not None and edge.target in targets and edge.gradient is not None:
                arriving[edge.target].append(edge)
    return arriving


def _origin(maker: TracedNode, edges: Sequence[TracedEdge], *, is_noise: bool) -> _Origin:
    """Return where the zeros come from that arrived along some edges, one from `maker`."""
    is_passed_on = any(edge.gradient is not None and edge.gradient.norm for edge in edges)
    if is_noise:
        is_sum = len(edges) > 1
        return _Origin(maker, is_sum, is_sum, is_noise)
    sums = [edge.gradient_so_far for edge in edges if edge.gradient_so_far is not None]
    return _Origin(maker, is_passed_on, is_passed_on and any(one.norm == 0.0 for one in sums))
