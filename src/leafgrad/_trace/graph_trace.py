"""The result of `trace_graph`: the value of a graph, which keeps no tensor alive."""

from collections.abc import Collection
from dataclasses import dataclass

from leafgrad._display import pages
from leafgrad._graph.graph import Graph
from leafgrad._picture import text
from leafgrad._picture.html import page
from leafgrad._picture.picture_style import Color, Direction, PictureStyle
from leafgrad._picture.svg import svg
from leafgrad._steps.steps import BackwardSteps, steps_of


@dataclass(frozen=True, kw_only=True, repr=False)
class GraphTrace(Graph):
    """The autograd graph behind some outputs. `trace_graph` returns it.

    A notebook shows the trace as a picture, and ``print()`` shows it as text of at most 40 lines of
    80 columns, or a few more if values or gradients stop being finite. In the text of a small
    graph, each node has a line with the indices of the nodes that its edges lead to. A large graph
    is folded, by module if modules are known, else by kind of node. The trace keeps no tensor, node
    or graph alive.

    Attributes:
        nodes: All nodes, each one before its successors, so that ``nodes[i].index == i``.
        roots: The nodes where a backward pass from the outputs starts.
        modules: The modules that nodes belong to, and the modules that contain these. They come
            from ``names=model`` or from a recording.
        inputs: The named tensors that do not require grad and that nodes saved, such as data.
    """

    def to_svg(
        self,
        *,
        fold: bool | str | Collection[str] | None = None,
        direction: Direction = "backward",
        color: Color | None = None,
        legend: bool = True,
    ) -> str:
        """Return a picture of the graph as SVG, with the root at the top.

        The arrows point along the gradients. The picture follows the light or dark theme of its
        page, or of the reader's system. Its text can be selected and searched, and pointing at a
        box shows more about its node.

        Args:
            fold: Whether to draw each leaf inside the box of its node, and repeated parts, such as
                the blocks of a transformer, only once with their number. None folds graphs of more
                than 40 nodes. You can also pass one or more paths of modules, to draw each of these
                modules as one box. A ``"*"`` matches any single part of a path, as in
                ``"layers.*"``.
            direction: ``"backward"`` draws arrows from the root to the leaves, along the gradients,
                with PyTorch's names of the nodes. ``"forward"`` draws them from the leaves to the
                root, along the values, with the names of the called functions; the root is then at
                the bottom.
            color: The meaning of a box's colour. ``"class"`` shows the class of the module,
                ``"bytes"`` the memory that the node saved, and ``"gradient"`` the norm of the
                gradient that arrived, which requires ``gradients=True`` in `trace_graph`. None
                leaves boxes without colour.
            legend: Whether to add the facts of the graph and the meaning of the signs below the
                picture. If a page has several pictures, one with a legend is enough.

        Returns:
            An ``<svg>`` element, for a file or a page.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> x = torch.ones(3, requires_grad=True)
            >>> picture = trace_graph(x * x, names={"x": x}).to_svg()
            >>> picture[:4], "MulBackward0" in picture, "leaf (3,)" in picture
            ('<svg', True, True)
            >>> "root: the backward pass starts here" in picture
            True
            >>> "root: the backward pass starts here" in trace_graph(x * x).to_svg(legend=False)
            False

        Raises:
            TypeError: If `fold` has the wrong type.
            ValueError: If there would be more than 3,000 boxes, if no module has a path in `fold`,
                if `direction` or `color` is unknown, or if there are no gradients to show.
        """
        style = PictureStyle(direction=direction, color=color, legend=legend)
        return svg.svg(self, fold=fold, style=style)

    def to_html(self, *, direction: Direction = "forward", color: Color | None = "class") -> str:
        """Return a page to explore the graph: zoom, search, follow paths and look into modules.

        The page is one file that makes no network request. It works with mouse, keyboard and touch,
        in light and dark mode, and lists its keys at the bottom. A graph of more than 40 nodes
        opens folded into modules, and a button switches to all nodes. Each module has a view of its
        own.

        Args:
            direction: The initial direction of the arrows, as in `to_svg`. A button changes it.
            color: The initial meaning of the colours, as in `to_svg`. A list changes it.

        Returns:
            A complete HTML document.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> x = torch.ones(3, requires_grad=True)
            >>> trace_graph(x * x, names={"x": x}).to_html()[:15]
            '<!doctype html>'

        Raises:
            ValueError: If there would be more than 3,000 boxes even when folded, or if `direction`
                or `color` is unknown.
        """
        return page.page(self, PictureStyle(direction=direction, color=color))

    def show(self) -> None:
        """Show the page of `to_html` in the running notebook or in a browser.

        For a browser, the page is written to a new temporary folder and remains there. A notebook
        also shows this page if a trace is the result of a cell. If the notebook is not trusted, it
        shows only the picture.

        Raises:
            ValueError: If there would be more than 3,000 boxes even when folded.
            RuntimeError: If no browser can be started.
        """
        pages.show(self, self.to_html)

    def steps(self) -> BackwardSteps:
        """Return the backward pass that `trace_graph` ran, step by step, in the engine's order.

        The first steps compute the values, in the order of the operations. Then gradients flow from
        the root, and gradients that arrive at the same place add up. A notebook shows the picture
        of the graph with buttons, and `BackwardSteps.to_html` returns a page.

        Returns:
            The steps, each with a sentence.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> y = x * 2
            >>> names = {"x": x, "y": y}
            >>> print(trace_graph(y, names=names, values=True, gradients=True).steps())
             1. Forward: x (a leaf) is 3.
             2. Forward: y (MulBackward0) is 6, computed from x and a constant.
             3. Backward starts at y (MulBackward0) with the gradient 1.
             4. Backward: y (MulBackward0) multiplies 1 by its local derivative 2 and passes 2 to x.
             5. The gradient of x is complete: 2. backward() adds it to x.grad.

        Raises:
            ValueError: If `trace_graph` ran without ``gradients=True``, or if there are more than
                1,000 steps.
        """
        return steps_of(self)

    def __str__(self) -> str:
        return text.text(self)

    def __repr__(self) -> str:
        return f"<GraphTrace of {len(self.nodes)} nodes, {len(self.leaves)} of them leaves>"

    def _repr_html_(self) -> str:
        return svg.html(self)

    def _repr_mimebundle_(self, **_: object) -> pages.Bundle:
        return pages.bundle_of(self, lambda: page.embedded_page(self))
