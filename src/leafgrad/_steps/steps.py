"""The result of `GraphTrace.steps`: the steps of a forward and backward pass."""

from dataclasses import dataclass

from leafgrad._display import pages
from leafgrad._display.markup import visible
from leafgrad._graph.graph import Graph
from leafgrad._messages import message
from leafgrad._steps import by_node, player
from leafgrad._steps.step import Step

MOST_STEPS = 1000


@dataclass(frozen=True, kw_only=True, repr=False)
class BackwardSteps:
    """A forward and a backward pass, step by step. `GraphTrace.steps` returns it.

    A notebook shows the picture of the graph with buttons. ``str()`` returns the sentences.

    Attributes:
        trace: The graph.
        steps: The steps, in order.
    """

    trace: Graph
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        lines = (f"{n:2}. {step.sentence}" for n, step in enumerate(self.steps, start=1))
        return "\n".join(map(visible, lines))

    def __repr__(self) -> str:
        return f"<BackwardSteps: {len(self.steps)} of them>"

    def _repr_html_(self) -> str:
        return player.fragment(self.trace)

    def _repr_mimebundle_(self, **_: object) -> pages.Bundle:
        return pages.bundle_of(self, lambda: player.in_a_notebook(self.trace))

    def show(self) -> None:
        """Show the steps in the running notebook; outside a notebook, open a page in a browser.

        The browser opens the page of `to_html`, which is written to a new temporary folder and
        remains there.

        Raises:
            RuntimeError: If no browser can be started.
        """
        pages.show(self, self.to_html)

    def to_html(self) -> str:
        """Return an HTML page with buttons to go through the steps.

        The page is one file and makes no network requests. Buttons and arrow keys go from step to
        step. A list shows the sentences of all steps, even without JavaScript.

        Returns:
            A complete HTML document.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> steps = trace_graph(x * x, names={"x": x}, values=True, gradients=True).steps()
            >>> steps.to_html()[:15]
            '<!doctype html>'
        """
        return player.page(self.trace)


def steps_of(graph: Graph) -> BackwardSteps:
    """Return the forward and backward pass through a graph, step by step.

    Raises:
        ValueError: If the graph has no gradients, or there are more than 1,000 steps.
    """
    if not graph.has_gradients:
        raise ValueError(message("errors.graph.no-gradients", what="steps()"))
    steps = tuple(step for step, _ in by_node.steps(graph))
    if len(steps) > MOST_STEPS:
        raise ValueError(message("errors.steps.count", most=MOST_STEPS, count=len(steps)))
    return BackwardSteps(trace=graph, steps=steps)
