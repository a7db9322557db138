"""The steps that the player shows: one for each value, and one for each gradient on an edge."""

from collections.abc import Iterator

from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedEdge, TracedNode, age_order
from leafgrad._messages import message
from leafgrad._picture.box_text import number_lines
from leafgrad._picture.input_nodes import InputEdge, with_inputs
from leafgrad._steps import sentences
from leafgrad._steps.step import Kind, Sign, Step, Writing


def steps(graph: Graph) -> Iterator[tuple[Step, Sign]]:
    """Yield the steps of the forward and the backward pass, each with its change in the picture.

    Values come first, in the order in which the operations ran, then the gradients.
    """
    for node in sorted(graph.nodes, key=age_order):
        if node.values:
            step = _step("value", node, sentences.describe_value(node, graph))
            yield step, Sign(box=node.index, writes=tuple(_numbers(node, "value")))
    yield from _backward(graph)


def _backward(graph: Graph) -> Iterator[tuple[Step, Sign]]:
    """Yield the steps of the backward pass, in the order in which autograd visited the nodes."""
    arrows = _arrows(graph)
    for root in graph.roots:
        yield _step("start", root, sentences.describe_start(root, graph)), _at(root)
    visited = [(node.visited, node) for node in graph.nodes if node.visited is not None]
    reached: set[tuple[int, int]] = set()
    for _, node in sorted(visited, key=lambda pair: pair[0]):
        if node.is_leaf:
            yield _step("complete", node, sentences.describe_complete(node)), _at(node)
        for edge in node.edges:
            if edge.target is not None:
                output = edge.target, edge.input_nr
                is_first = output not in reached
                sentence = sentences.describe_pass(edge, graph, is_first=is_first)
                sign = _along(edge, graph, arrows[node.index, edge.output_nr])
                yield _step("pass", node, sentence, edge.output_nr), sign
                reached |= {output} if edge.gradient is not None else set()


def _step(kind: Kind, node: TracedNode, sentence: str, edge: int | None = None) -> Step:
    """Return a step of the player: what happens at a node.

    `kind` is what the step does. `edge` is the number of the edge that it uses; None if it uses
    none.
    """
    return Step(kind=kind, node=node.index, edge=edge, sentence=sentence)


def _at(node: TracedNode) -> Sign:
    """Return the change in the picture for a step at a node: its gradient appears."""
    return Sign(box=node.index, writes=tuple(_numbers(node, "grad")))


def _along(edge: TracedEdge, graph: Graph, arrow: int) -> Sign:
    """Return the change in the picture for a gradient that flows along an edge."""
    node, target = graph.nodes[edge.source], graph.nodes[edge.target or 0]
    writes = [*_numbers(node, "grad")]
    if edge.gradient_so_far is not None and len(target.shapes) == 1:
        so_far = message("box.grad", gradient=edge.gradient_so_far)
        writes += [(box, line, so_far) for box, line, _ in _numbers(target, "grad")]
    return Sign(box=node.index, arrows=(arrow,), writes=tuple(writes))


def _numbers(node: TracedNode, style: str) -> Iterator[Writing]:
    """Yield the lines of numbers that the player writes into a node's box in the picture.

    The style ``"value"`` selects the node's value, ``"grad"`` its gradient.
    """
    for number, line in enumerate(number_lines(node)):
        if line.style == style:
            yield node.index, number, line.text


def _arrows(graph: Graph) -> dict[tuple[int, int], int]:
    """Return the number of each edge's arrow in the picture, which also has arrows to inputs.

    The keys are the index of the node and the position of the edge among its edges.
    """
    drawn = (edge for node in with_inputs(graph).nodes for edge in node.edges)
    arrows = enumerate(edge for edge in drawn if edge.target is not None)
    return {
        (edge.source, edge.output_nr): number
        for number, edge in arrows
        if not isinstance(edge, InputEdge)
    }
