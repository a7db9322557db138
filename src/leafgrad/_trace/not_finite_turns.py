"""Where numbers stop being finite: forward on the way to the roots, backward on that to the sinks.

NaN and infinity are told apart, as a NaN may be made of infinities. What is gone before the end is
no turn: a mask of infinities, say, that a softmax makes zeros of.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from leafgrad._graph.nodes import TracedEdge, TracedNode
from leafgrad._graph.summary import NotFinite, TensorSummary

Nodes = Sequence[TracedNode]
Summaries = Iterable[TensorSummary | None]


Finiteness = int
"""What is known of some numbers: these bits, of which none stands for all finite."""

# An IntFlag would say the same, in ten times the time.
FINITE, NAN, INFINITY, UNSEEN = 0, 1, 2, 4
BAD = NAN | INFINITY


class Turn(NamedTuple):
    """What came up at a node.

    Attributes:
        kind: Which kind of number.
        given: What its operation was given that was not finite and that no edge leads to.
        is_near: Whether it may be a node right before it, whose value is not known.
    """

    kind: NotFinite
    given: tuple[str, ...]
    is_near: bool


Recorded = Mapping[int, tuple[str, ...]]


# --- Forward


def mark_value_turns(
    nodes: Nodes, roots: Iterable[int], recorded: Recorded
) -> Iterator[TracedNode]:
    """Yield the nodes, marked where values came up that are not finite at a root either.

    Of nodes that are `recorded`, all that their operations were given was seen, so that what is not
    known lies within one call; it says what was given in vain. Of others nothing is claimed unless
    all that they were given is known.
    """
    values = _ValueFlow(nodes)
    wanted = values.wanted(roots)
    for node in nodes:
        turn = values.turn(node.index, wanted[node.index], recorded.get(node.index))
        if turn is None:
            yield node
        else:
            yield replace(
                node,
                value_turns=True,
                value_turn_kind=turn.kind,
                value_turn_given=turn.given,
                value_turn_is_near=turn.is_near,
            )


class _ValueFlow:
    """What is known of the values of nodes, of which each comes before its successors."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.known = [[_classify(value) for value in node.values] for node in nodes]
        self.moving = [*map(only_moves, nodes)]
        self._infer_results()
        self._infer_inputs()
        self.given = [FINITE] * len(nodes)
        for node in reversed(nodes):
            for edge in node.edges:
                self.given[node.index] |= self._arriving(edge)

    def _infer_results(self) -> None:
        """Infer that what only moves finite numbers makes finite ones."""
        for node in reversed(self.nodes):
            if self.moving[node.index] and self._input_of(node) == FINITE:
                made = self.known[node.index]
                made[:] = [FINITE if found is None else found for found in made]

    def _infer_inputs(self) -> None:
        """Infer that what only moves numbers was given those of its results that are not finite."""
        for node in self.nodes:
            bad = [found for found in self.known[node.index] if found is not None and found & BAD]
            if self.moving[node.index] and bad and self._input_of(node) is None:
                edge = node.edges[0]
                self.known[edge.target or 0][edge.input_nr] = bad[0]

    def _input_of(self, node: TracedNode) -> Finiteness | None:
        """Return what a node that moves numbers was given; what is in no graph is not seen."""
        edge = node.edges[0]
        return UNSEEN if edge.target is None else self.known[edge.target][edge.input_nr]

    def _arriving(self, edge: TracedEdge) -> Finiteness:
        """Return what came along an edge or, where that is not known, from beyond its target."""
        if edge.target is None:
            return FINITE
        found = self.known[edge.target][edge.input_nr]
        if found is not None:
            return found
        unseen = FINITE if self.moving[edge.target] else UNSEEN
        return self.given[edge.target] | unseen

    def wanted(self, roots: Iterable[int]) -> list[Finiteness]:
        """Return for each node what of its results may be why a root is not finite."""
        wanted = defaultdict[tuple[int, int], Finiteness](lambda: FINITE)
        for root in roots:
            for output, found in enumerate(self.known[root]):
                wanted[root, output] = BAD if found is None else _causes(found)
        of_nodes = [FINITE] * len(self.nodes)
        for node in self.nodes:
            made = enumerate(self.known[node.index])
            for output, found in made:
                here = wanted[node.index, output]
                of_nodes[node.index] |= here if found is None else _causes(found & here)
            for edge in node.edges:
                if edge.target is not None:
                    wanted[edge.target, edge.input_nr] |= of_nodes[node.index]
        return of_nodes

    def turn(self, index: int, wanted: Finiteness, recorded: tuple[str, ...] | None) -> Turn | None:
        """Return what came up at a node, None where it was given no better than it made."""
        made, given = FINITE, self.given[index]
        for found in self.known[index]:
            made |= FINITE if found is None else found
        kind = _new_kind(made, given, wanted)
        is_near = bool(given & UNSEEN)
        if kind is None or (is_near and recorded is None):
            return None
        return Turn(kind, recorded or (), is_near)


# What hands numbers on as they are, all of them or some.
_MOVING = re.compile(
    r"(T|Transpose|View|UnsafeView|ReshapeAlias|Permute|Expand|Unsqueeze|Squeeze|Alias|Slice|Select"
    r"|Split|SplitWithSizes|Unbind|Clone|Diagonal|Unfold|Repeat|AsStrided)Backward\d+"
)


def only_moves(node: TracedNode) -> bool:
    """Return whether a node hands on the numbers of its one input, all of them or some."""
    return _MOVING.fullmatch(node.name) is not None


def _classify(value: TensorSummary | None) -> Finiteness | None:
    if value is None:
        return None
    if value.unread is not None:
        return UNSEEN
    nan = NAN if value.nans else FINITE
    return nan | INFINITY if value.infinities else nan


def _causes(found: Finiteness) -> Finiteness:
    """Return what may have caused some numbers: a NaN both kinds, an infinity another one."""
    return BAD if found & (NAN | UNSEEN) else found & INFINITY


def _new_kind(made: Finiteness, given: Finiteness, wanted: Finiteness) -> NotFinite | None:
    """Return the kind that was made, is wanted and was not given; a NaN hides infinities.

    Where no NaN is wanted, none that was given matters.
    """
    if made & NAN & wanted and not given & NAN:
        return "NaN"
    return "infinity" if made & INFINITY & wanted and not given & wanted & BAD else None


# --- Backward


def mark_gradient_turns(nodes: Nodes, roots: Collection[int]) -> Iterator[TracedNode]:
    """Yield the nodes, marked where gradients came up that are not finite at a sink either.

    That is where one is passed on, or where it arrives, of a sum or from a hook.
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
    """Return for each node what arrives there that may be why what a sink gets is not finite."""
    ends = [FINITE] * len(nodes)
    for node in reversed(nodes):
        is_sink = all(edge.target is None for edge in node.edges)
        wanted = BAD if is_sink else _causes(_passed_on(node, ends))
        ends[node.index] = _causes(arrived[node.index] & (wanted | UNSEEN)) & wanted
    return ends


def _passed_on(node: TracedNode, ends: Sequence[Finiteness]) -> Finiteness:
    """Return what a node passes on that may be why what a sink gets is not finite."""
    passed = FINITE
    for edge in node.edges:
        if edge.target is not None:
            passed |= _classify_all([edge.gradient]) & (ends[edge.target] | UNSEEN)
    return passed


def _kind_come_up(made: Finiteness, given: Finiteness) -> NotFinite | None:
    """Return the kind that was made of better numbers, if all of these are known."""
    return None if given & UNSEEN else _new_kind(made, given, made & BAD)


def _classify_all(found: Summaries) -> Finiteness:
    together = FINITE
    for summary in found:
        together |= _classify(summary) or FINITE
    return together
