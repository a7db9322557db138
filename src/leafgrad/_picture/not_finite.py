"""Where numbers stop being finite, in a sentence or two at the head of a text."""

import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from leafgrad._display.table import WIDTH
from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedNode
from leafgrad._graph.summary import NotFinite, TensorSummary

ADVICE = "some values not finite; record(values=True) around the forward tells from where"
Kinds = Mapping[int, NotFinite | None]
Ways = Mapping[int, Sequence[int]]


def not_finite(graph: Graph) -> Iterator[str]:
    """Tell at which node numbers stop being finite, forward and backward."""
    for sentence in (*_values(graph), *_gradients(graph)):
        yield from textwrap.wrap(sentence, WIDTH, break_long_words=False, break_on_hyphens=False)


def _values(graph: Graph) -> Iterator[str]:
    bad = [node for node in graph.nodes if _kind(node.values)]
    kinds = {node.index: node.value_turn_kind for node in graph.values_turn}
    for node, kind in _story(graph.values_turn, kinds, _made_of(graph)):
        near = ", or right before it" * node.value_turn_is_near
        given = " and ".join(node.value_turn_given)
        came = f"; it came in with {given}" * bool(given)
        yield f"values not finite ({kind}) from {_named(node)}{near}{_place(node)}{came}"
    if kinds or not bad:
        return
    if not all(value and value.is_finite for root in graph.roots for value in root.values):
        yield ADVICE
    elif nans := [node for node in bad if _kind(node.values) == "NaN"]:
        first = min(nans, key=lambda node: -1 if node.created is None else node.created)
        yield f"values not finite (NaN) at {_named(first)}{_place(first)}, but finite at the root"


def _gradients(graph: Graph) -> Iterator[str]:
    kinds = {node.index: node.gradient_turn_kind for node in graph.gradients_turn}
    for node, kind in _story(graph.gradients_turn, kinds, _passed_by(graph)):
        yield f"gradients not finite ({kind}) from {_named(node)}{_place(node)}"
    starts = [found for root in graph.roots if (found := _kind(root.gradients))]
    ends = [found for sink in graph.sinks if (found := _kind(sink.gradients))]
    if ends and not kinds:
        yield f"gradients not finite ({(starts or ends)[0]}){' from the start' * bool(starts)}"


def _story(
    turns: Sequence[TracedNode], kinds: Kinds, before: Ways
) -> Iterator[tuple[TracedNode, str]]:
    """Choose the NaN that was made of finite numbers; else tell what came first, and what of it."""
    infinities = [node for node in turns if kinds[node.index] == "infinity"]
    made_of: dict[int, list[TracedNode]] = {}
    for node in turns:
        if kinds[node.index] == "NaN":
            reached = _reached(node.index, before)
            made_of[node.index] = [one for one in infinities if one.index in reached]
            if not made_of[node.index]:
                yield node, "NaN"
                return
    if infinities:
        first = next(iter(made_of.values()), infinities)[0]
        yield first, "infinity"
    for node in turns:
        if node.index in made_of:
            yield node, "NaN, of infinities"
            return


def _reached(start: int, ways: Ways) -> set[int]:
    reached, ahead = {start}, [start]
    while ahead:
        fresh = [place for place in ways[ahead.pop()] if place not in reached]
        reached.update(fresh)
        ahead += fresh
    return reached


def _made_of(graph: Graph) -> Ways:
    """Lead from each node to those whose values, not known to be finite, it was made of."""
    ways = defaultdict[int, list[int]](list)
    for edge in graph.edges:
        if edge.target is not None:
            values = graph.nodes[edge.target].values
            made = values[edge.input_nr] if edge.input_nr < len(values) else None
            if made is None or not made.is_finite:
                ways[edge.source].append(edge.target)
    return ways


def _passed_by(graph: Graph) -> Ways:
    """Lead from each node to those that passed on to it what is not finite."""
    ways = defaultdict[int, list[int]](list)
    for edge in graph.edges:
        if edge.target is not None and _kind((edge.gradient,)):
            ways[edge.target].append(edge.source)
    return ways


def _kind(summaries: Sequence[TensorSummary | None]) -> NotFinite | None:
    kinds = {summary.not_finite for summary in summaries if summary is not None}
    return "NaN" if "NaN" in kinds else "infinity" if "infinity" in kinds else None


def _named(node: TracedNode) -> str:
    """Call a node by its number, by which ``.nodes`` has it, and by its name."""
    leaf = f"the leaf {node.leaf_name}" if node.leaf_name else "a leaf"
    return f"node {node.index}, {leaf if node.is_leaf else node.name}"


def _place(node: TracedNode) -> str:
    line = f", at {node.source}" * (node.source is not None)
    return f"{line}{f', module {node.module}' * bool(node.module and not node.is_leaf)}"
