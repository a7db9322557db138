"""Where numbers stop being finite, in a sentence or two at the head of a text."""

import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedNode, age_order, place_text
from leafgrad._graph.summary import NotFinite, worst_of

ADVICE = "some values not finite; record(values=True) around the forward tells from where"
Kinds = Mapping[int, NotFinite | None]
Edges = Mapping[int, Sequence[int]]


def not_finite(graph: Graph, width: int) -> Iterator[str]:
    """Yield the sentences on where numbers stop being finite, forward and backward."""
    if not any(node.values or node.gradients for node in graph.nodes):
        return
    for sentence in (*_values(graph), *_gradients(graph)):
        yield from textwrap.wrap(sentence, width, break_long_words=False, break_on_hyphens=False)


def _values(graph: Graph) -> Iterator[str]:
    bad = [node for node in graph.nodes if worst_of(node.values)]
    kinds = {node.index: node.value_turn_kind for node in graph.values_turn}
    for node, kind in _story(graph, graph.values_turn, kinds, _made_of):
        near = ", or right before it" if node.value_turn_is_near else ""
        sentence = f"values not finite ({kind}) from {place_text(node)}{near}"
        if node.value_turn_given:
            sentence += f"; it came in with {' and '.join(node.value_turn_given)}"
        yield sentence
    if kinds or not bad:
        return
    if not all(value and value.is_finite for root in graph.roots for value in root.values):
        yield ADVICE
    elif nans := [node for node in bad if worst_of(node.values) == "NaN"]:
        first = min(nans, key=age_order)
        yield f"values not finite (NaN) at {place_text(first)}, but finite at the root"


def _gradients(graph: Graph) -> Iterator[str]:
    kinds = {node.index: node.gradient_turn_kind for node in graph.gradients_turn}
    for node, kind in _story(graph, graph.gradients_turn, kinds, _passed_by):
        yield f"gradients not finite ({kind}) from {place_text(node)}"
    starts = [found for root in graph.roots if (found := worst_of(root.gradients))]
    ends = [found for sink in graph.sinks if (found := worst_of(sink.gradients))]
    if ends and not kinds:
        yield (
            f"gradients not finite ({starts[0]}) from the start"
            if starts
            else f"gradients not finite ({ends[0]})"
        )


def _story(
    graph: Graph, turns: Sequence[TracedNode], kinds: Kinds, before: Callable[[Graph], Edges]
) -> Iterator[tuple[TracedNode, str]]:
    """Yield the NaN that was made of finite numbers; else tell what came first, and what of it."""
    edges = before(graph) if turns else {}
    infinities = [node for node in turns if kinds[node.index] == "infinity"]
    made_of: dict[int, list[TracedNode]] = {}
    for node in turns:
        if kinds[node.index] == "NaN":
            reached = _reached(node.index, edges)
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


def _reached(start: int, edges: Edges) -> set[int]:
    reached, ahead = {start}, [start]
    while ahead:
        fresh = [place for place in edges[ahead.pop()] if place not in reached]
        reached.update(fresh)
        ahead += fresh
    return reached


def _made_of(graph: Graph) -> Edges:
    """Lead from each node to those whose values, not known to be finite, it was made of."""
    edges = defaultdict[int, list[int]](list)
    for edge in graph.edges:
        if edge.target is not None:
            values = graph.nodes[edge.target].values
            made = values[edge.input_nr] if edge.input_nr < len(values) else None
            if made is None or not made.is_finite:
                edges[edge.source].append(edge.target)
    return edges


def _passed_by(graph: Graph) -> Edges:
    """Lead from each node to those that passed on to it what is not finite."""
    edges = defaultdict[int, list[int]](list)
    for edge in graph.edges:
        if edge.target is not None and worst_of((edge.gradient,)):
            edges[edge.target].append(edge.source)
    return edges
