"""A traced graph as a value that keeps nothing alive."""

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
    """The graph behind some outputs, as a value that keeps no tensor, node or graph alive.

    `trace_graph` makes it, and a notebook shows it as a picture. ``print()`` shows at most 40 lines
    of 80 columns, and a few more where numbers stop being finite. Each node of a small graph has a
    line, with the indices of the nodes that its edges lead to. A large graph is folded by module
    where modules are known, else by kind of node, and says so.

    Attributes:
        nodes: Every node, each one before its successors; ``nodes[i].index == i``.
        roots: The nodes at which a backward from the outputs would start.
        modules: The modules that nodes belong to and those around them, where they are known: from
            ``names=model``, or because a recording saw them run.
        inputs: The named tensors that need no gradient and that nodes keep, such as data.
    """

    def to_svg(
        self,
        *,
        fold: bool | str | Collection[str] | None = None,
        direction: Direction = "backward",
        color: Color | None = None,
        legend: bool = True,
    ) -> str:
        """Draw the graph: the root at the top, arrows in the direction of the gradients.

        The picture follows the theme of the page that it stands in, and that of the reader where
        it stands alone. Its text can be selected and searched, and each box tells more about its
        node when it is pointed at.

        Args:
            fold: Whether a leaf is shown within the box of the node that leads to it, and of parts
                that are repeated, such as the blocks of a transformer, only one, with their
                number. The path of a module, or several, also shows each of these in one box, where
                modules are known; ``"*"`` stands for any one part of a path, as in ``"layers.*"``.
                None folds graphs of more than 40 nodes, by the outer modules where modules are
                known.
            direction: ``"backward"`` leads arrows from the root down to the leaves, as the
                gradients go, and calls nodes as PyTorch does. ``"forward"`` leads them from the
                leaves down to the root, as the values go, with the names of the functions that
                were called.
            color: What the colour of a box tells: ``"bytes"`` how much is saved there for backward,
                ``"gradient"`` how large the gradient is that arrived, where `trace_graph` was asked
                for gradients. None leaves boxes plain.
            legend: Whether the facts of the graph and the meaning of the signs stand under it. Of
                several pictures on one page, one can tell it for all.

        Returns:
            An ``<svg>`` element, for a file of its own or for a page.

        Raises:
            TypeError: If `fold` is none of these.
            ValueError: If there would be more than 3,000 boxes, or no module has such a path, or
                `direction` or `color` is none of these, or there are no gradients to colour by.

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
        """
        style = PictureStyle(direction=direction, color=color, legend=legend)
        return svg.svg(self, fold=fold, style=style)

    def to_html(self, *, direction: Direction = "forward", color: Color | None = "class") -> str:
        """Return a page to explore the graph: zoom, search, follow paths, look into modules.

        The page is one file that makes no network request. It works with mouse, keyboard and
        touch, in light and dark mode, and lists its keys at the bottom. A graph of more than 40
        nodes opens folded into modules; a button switches to all nodes. Modules have views of
        their own.

        Args:
            direction: The direction of the arrows at first, as in `to_svg`; a button changes it.
            color: The meaning of the colours at first, as in `to_svg`; a list changes it.

        Returns:
            A complete HTML document.

        Raises:
            ValueError: If there would be more than 3,000 boxes even when it is folded, or
                `direction` or `color` is not what `to_svg` takes.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> x = torch.ones(3, requires_grad=True)
            >>> trace_graph(x * x, names={"x": x}).to_html()[:15]
            '<!doctype html>'
        """
        return page.page(self, PictureStyle(direction=direction, color=color))

    def show(self) -> None:
        """Show the graph to move about in: in the notebook that runs this, else in a browser.

        The browser gets the page of `to_html`, in a new folder among the temporary files, where it
        stays. A notebook shows it by itself, too, where the graph is the result of a cell: the page
        in a frame, and where the notebook is not trusted, as one that came from somebody else, the
        picture alone.

        Raises:
            ValueError: If there would be more than 3,000 boxes even when it is folded.
            RuntimeError: If no browser can be started.
        """
        pages.show(self, self.to_html)

    def steps(self) -> BackwardSteps:
        """Return the backward that `trace_graph` ran, step by step, in the engine's order.

        Values come up in the order of the operations, then gradients flow from the root, and what
        several nodes pass on to one place adds up as it arrives. A notebook shows the picture of
        the graph with buttons; `BackwardSteps.to_html` writes a page.

        Returns:
            The steps, each with a sentence.

        Raises:
            ValueError: If `trace_graph` was not asked for gradients, or there are more than 1,000
                steps.

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
