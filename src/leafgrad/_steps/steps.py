"""A backward pass, step by step, as it was seen."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from leafgrad._display import notebook
from leafgrad._display.jsonable import json_types
from leafgrad._display.markup import visible
from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import TracedEdge, TracedNode, age_order
from leafgrad._steps import player, sentences
from leafgrad._steps.step import Kind, Step

MOST_NODES = 40


@dataclass(frozen=True, kw_only=True, repr=False)
class BackwardSteps:
    """A backward pass to walk through, as `GraphTrace.steps` gives it.

    A notebook shows the picture of the graph with buttons; ``str()`` gives the sentences.

    Attributes:
        trace: The graph.
        steps: What happened, in order.
    """

    trace: Graph
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "\n".join(
            f"{n:2}. {visible(step.sentence)}" for n, step in enumerate(self.steps, start=1)
        )

    def __repr__(self) -> str:
        return f"<BackwardSteps: {len(self.steps)} of them>"

    def _repr_html_(self) -> str:
        return player.fragment(self.trace, self.steps)

    def _repr_mimebundle_(self, **_: object) -> notebook.Bundle:
        return notebook.bundle_of(self, lambda: player.in_a_notebook(self.trace, self.steps))

    def show(self) -> None:
        """Show the steps: in the notebook that runs this, else as a page in a browser.

        The browser gets the page of `to_html`, in a new folder among the temporary files, where it
        stays.

        Raises:
            RuntimeError: If no browser can be started.
        """
        notebook.show(self, self.to_html)

    def to_html(self) -> str:
        """Write a page of its own to step through.

        Everything is in the one text, and the page asks no network. Buttons and arrow keys go from
        step to step, and a list has all of them in words, also on paper and without JavaScript.

        Returns:
            A whole HTML document.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> steps = trace_graph(x * x, names={"x": x}, values=True, gradients=True).steps()
            >>> steps.to_html()[:15]
            '<!doctype html>'
        """
        return player.page(self.trace, self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Return the steps as JSON types.

        Returns:
            ``steps``, each with the attributes of `Step`.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> steps = trace_graph(x.exp(), names={"x": x}, gradients=True).steps()
            >>> steps.to_dict()["steps"][0]["sentence"]
            'Backward starts at node 0 (ExpBackward0) with the gradient 1.'
        """
        return {"steps": json_types(self.steps)}


def steps_of(graph: Graph) -> BackwardSteps:
    """Return the steps of a graph with gradients, or raise where there is nothing to tell."""
    if not any(node.gradients for node in graph.nodes):
        raise ValueError(
            "steps need the gradients of a backward; trace with "
            "trace_graph(..., values=True, gradients=True)"
        )
    if len(graph.nodes) > MOST_NODES:
        raise ValueError(
            f"steps must be of at most {MOST_NODES} nodes, not {len(graph.nodes)}; trace a part "
            "of the graph, from a tensor nearer to the leaves, or see gradient_norms, which tells "
            "of all of it module by module"
        )
    return BackwardSteps(trace=graph, steps=(*_forward(graph), *_backward(graph)))


def _forward(graph: Graph) -> Iterator[Step]:
    """Yield the values: the leaves, then the operations in the order in which they ran."""
    for node in sorted(graph.nodes, key=age_order):
        if node.values:
            yield _step("value", node, sentences.value(node, graph))


def _backward(graph: Graph) -> Iterator[Step]:
    """Yield the gradients, in the order in which the engine took the nodes."""
    for root in graph.roots:
        yield _step("start", root, sentences.start(root, graph))
    taken = [(node.visited, node) for node in graph.nodes if node.visited is not None]
    last: dict[tuple[int | None, int], TracedEdge] = {}
    for _, node in sorted(taken, key=lambda pair: pair[0]):
        hooked = sentences.hooked(node, last.get((node.index, 0)))
        if node.is_leaf:
            yield _step("complete", node, sentences.complete(node, hooked))
        for edge in node.edges:
            if edge.target is not None:
                place = edge.target, edge.input_nr
                sentence = sentences.passed(edge, graph, hooked, is_first=place not in last)
                yield _step("pass", node, sentence, edge.output_nr)
                last |= {place: edge} if edge.gradient is not None else {}


def _step(kind: Kind, node: TracedNode, sentence: str, edge: int | None = None) -> Step:
    return Step(kind=kind, node=node.index, edge=edge, sentence=sentence)
