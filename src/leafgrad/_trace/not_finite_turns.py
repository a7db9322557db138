"""Find the *turns* of a graph: the nodes where values or gradients stop being finite.

The two *kinds*, NaN and infinity, are kept apart, because a NaN may follow from an infinity. A node
counts only if its NaN or infinity reaches a root (values) or a sink (gradients). The infinities of
an attention mask do not: a softmax turns them into zeros.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from leafgrad._graph.nodes import TracedEdge, TracedNode
from leafgrad._graph.summary import NotFinite, TensorSummary

Nodes = Sequence[TracedNode]
Finiteness = int
"""A combination of the bits below; without any, all numbers are finite."""

# Plain integers, because an IntFlag is ten times slower.
FINITE, NAN, INFINITY, UNSEEN = 0, 1, 2, 4
BAD = NAN | INFINITY


# --- Values of the forward pass


def mark_value_turns(
    nodes: Nodes, roots: Iterable[int], recorded: Mapping[int, tuple[str, ...]]
) -> Iterator[TracedNode]:
    """Yield the nodes, marked where a NaN or infinity first appears and then reaches a root.

    A node is marked if its inputs do not explain its result: all of them are known to be finite, or
    infinite if the result is NaN. For a node in `recorded`, an input may be unknown. A recording
    saw all arguments of the call, so the unknown value was computed within the call.

    Args:
        nodes: The nodes with values.
        roots: The indices of the roots.
        recorded: The names of the non-finite inputs of recorded nodes, by index.
    """
    values = _ValueFlow(nodes)
    wanted = values.wanted(roots)
    for node in nodes:
        names = recorded.get(node.index)
        made = reduce(or_, [kinds or FINITE for kinds in values.results[node.index]], FINITE)
        kind = _new_kind(made, values.inputs[node.index], wanted[node.index])
        is_near = bool(values.inputs[node.index] & UNSEEN)
        if kind is None or (is_near and names is None):
            yield node
        else:
            yield replace(
                node,
                value_turns=True,
                value_turn_kind=kind,
                value_turn_given=names or (),
                value_turn_is_near=is_near,
            )


class _ValueFlow:
    """Which results and inputs of each node are NaN or infinite, as far as it can be inferred.

    `nodes` contains each node before its successors.
    """

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.results = [[_classify(value) for value in node.values] for node in nodes]
        self.moving = [only_moves(node.name) for node in nodes]
        self._infer_results()
        self._infer_inputs()
        self.inputs = [FINITE] * len(nodes)
        for node in reversed(nodes):
            for edge in node.edges:
                self.inputs[node.index] |= self._arriving(edge)

    def _infer_results(self) -> None:
        """Mark the unknown results of a node as finite if the node only moves finite numbers."""
        for node in reversed(self.nodes):
            if self.moving[node.index] and self._input_of(node) == FINITE:
                made = self.results[node.index]
                made[:] = [FINITE if finiteness is None else finiteness for finiteness in made]

    def _infer_inputs(self) -> None:
        """Infer the unknown inputs of nodes that only move numbers from their results.

        If the result of such a node contains NaN or infinity, so does its input.
        """
        for node in self.nodes:
            bad = [kinds for kinds in self.results[node.index] if kinds is not None and kinds & BAD]
            if self.moving[node.index] and bad and self._input_of(node) is None:
                edge = node.edges[0]
                self.results[edge.target or 0][edge.input_nr] = bad[0]

    def _input_of(self, node: TracedNode) -> Finiteness | None:
        """Return which kinds, NaN or infinity, a node's only input contains; None if unknown.

        Return `UNSEEN` if no edge leads to the input.
        """
        edge = node.edges[0]
        return UNSEEN if edge.target is None else self.results[edge.target][edge.input_nr]

    def _arriving(self, edge: TracedEdge) -> Finiteness:
        """Return the finiteness of the input that `edge` leads to.

        If it is unknown, combine the finiteness of the inputs that the value was computed from.
        """
        if edge.target is None:
            return FINITE
        finiteness = self.results[edge.target][edge.input_nr]
        if finiteness is not None:
            return finiteness
        unseen = FINITE if self.moving[edge.target] else UNSEEN
        return self.inputs[edge.target] | unseen

    def wanted(self, roots: Iterable[int]) -> list[Finiteness]:
        """Return, for each node, the kinds in its results that may make a root non-finite.

        The kinds are NaN and infinity.
        """
        wanted = defaultdict[tuple[int, int], Finiteness](lambda: FINITE)
        for root in roots:
            for output, finiteness in enumerate(self.results[root]):
                wanted[root, output] = BAD if finiteness is None else _causes(finiteness)
        of_nodes = [FINITE] * len(self.nodes)
        for node in self.nodes:
            made = enumerate(self.results[node.index])
            for output, finiteness in made:
                here = wanted[node.index, output]
                of_nodes[node.index] |= here if finiteness is None else _causes(finiteness & here)
            for edge in node.edges:
                if edge.target is not None:
                    wanted[edge.target, edge.input_nr] |= of_nodes[node.index]
        return of_nodes


# Operations that return numbers of their input unchanged.
_MOVING = re.compile(
    r"(T|Transpose|View|UnsafeView|ReshapeAlias|Permute|Expand|Unsqueeze|Squeeze|Alias|Slice|Select"
    r"|Split|SplitWithSizes|Unbind|Clone|Diagonal|Unfold|Repeat|AsStrided)Backward\d+"
)


def only_moves(kind: str) -> bool:
    """Return whether nodes named `kind` return some or all numbers of their input unchanged."""
    return _MOVING.fullmatch(kind) is not None


def _classify(value: TensorSummary | None) -> Finiteness | None:
    """Return which kinds, NaN or infinity, a tensor contains; None if it has no summary.

    `value` is the summary.
    """
    if value is None:
        return None
    if value.unread is not None:
        return UNSEEN
    nan = NAN if value.nans else FINITE
    return nan | INFINITY if value.infinities else nan


def _causes(finiteness: Finiteness) -> Finiteness:
    """Return the kinds in an input that may cause a result of the given kinds.

    NaN and infinity may both cause a NaN, but only an infinity causes an infinity.
    """
    return BAD if finiteness & (NAN | UNSEEN) else finiteness & INFINITY


def _new_kind(made: Finiteness, inputs: Finiteness, wanted: Finiteness) -> NotFinite | None:
    """Return the kind, NaN or infinity, in a node's results `made` that its inputs do not explain.

    Only kinds in `wanted` count, which reach a root or sink. A NaN counts before an infinity. If no
    NaN is wanted, a NaN among the inputs does not matter. Return None if the inputs explain all
    kinds.
    """
    if made & NAN & wanted and not inputs & NAN:
        return "NaN"
    return "infinity" if made & INFINITY & wanted and not inputs & wanted & BAD else None


# --- Gradients of the backward pass


def mark_gradient_turns(nodes: Nodes, roots: Collection[int]) -> Iterator[TracedNode]:
    """Yield the nodes, marked where a NaN or infinity first appears in gradients and reaches sinks.

    The node computes it, a hook returns it, or it is the sum of finite gradients.
    """
    arrived = [_classify_all(node.gradients) for node in nodes]
    ends = _reaching_sinks(nodes, arrived)
    sent = [FINITE] * len(nodes)
    for node in nodes:
        for edge in node.edges:
            if edge.target is not None:
                sent[edge.target] |= _classify_all([edge.gradient])
    for node in nodes:
        here = arrived[node.index]
        kind = _kind_come_up(_passed_on(node, ends), here)
        if kind is None and node.index not in roots:
            kind = _kind_come_up(here & ends[node.index], sent[node.index])
        yield replace(node, gradient_turns=True, gradient_turn_kind=kind) if kind else node


def _reaching_sinks(nodes: Nodes, arrived: Sequence[Finiteness]) -> list[Finiteness]:
    """Return, for each node, the arriving kinds that may make a sink non-finite.

    A sink is a node without an edge to another node. The kinds are NaN and infinity. `arrived`
    contains those in the gradients that arrive at each node.
    """
    ends = [FINITE] * len(nodes)
    for node in reversed(nodes):
        is_sink = all(edge.target is None for edge in node.edges)
        wanted = BAD if is_sink else _causes(_passed_on(node, ends))
        ends[node.index] = _causes(arrived[node.index] & (wanted | UNSEEN)) & wanted
    return ends


def _passed_on(node: TracedNode, ends: Sequence[Finiteness]) -> Finiteness:
    """Return the kinds, NaN or infinity, that a node passes on and that may reach a sink.

    `ends` contains, for each node, the arriving kinds that may make a sink non-finite.
    """
    passed = FINITE
    for edge in node.edges:
        if edge.target is not None:
            passed |= _classify_all([edge.gradient]) & (ends[edge.target] | UNSEEN)
    return passed


def _kind_come_up(made: Finiteness, inputs: Finiteness) -> NotFinite | None:
    """Return the kind in `made` that `inputs` do not explain; None if an input is unknown."""
    return None if inputs & UNSEEN else _new_kind(made, inputs, made & BAD)


def _classify_all(summaries: Iterable[TensorSummary | None]) -> Finiteness:
    """Return which kinds, NaN or infinity, several tensors contain together."""
    return reduce(or_, [_classify(summary) or FINITE for summary in summaries], FINITE)
