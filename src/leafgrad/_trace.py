"""A traced graph as values: nodes, edges and saved tensors that keep nothing alive."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch

from leafgrad._render import _graph_data, _graph_networkx, _graph_text, _page, _svg

Shape = tuple[int | str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedEdge:
    """One input of a node's operation, and the node that the input's gradient goes on to.

    Attributes:
        source: The index of the node that the edge leads from.
        target: The index of the node that it leads to; None where the input needed no gradient.
        input_nr: Which input of the target it arrives at, as in ``next_functions``: which output
            of the target's operation the tensor was.
        output_nr: Which output of the source it leaves from: which input of the source's
            operation the tensor was.
    """

    source: int
    target: int | None
    input_nr: int
    output_nr: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedTensor:
    """One tensor that a node keeps for backward, as far as it can be read without side effects.

    Only what is ``"live"`` shows a tensor; otherwise the facts about it are None.

    Attributes:
        node: The index of the node that keeps it.
        name: What the node calls it: ``"self"``, ``"result"``, ``"saved_tensors[0]"`` of a custom
            function, ``"ctx.mask"`` for a tensor that one keeps as an attribute of its ``ctx``.
        state: ``"live"``; ``"freed"``, as by a backward; ``"packed"`` by a hook of
            `torch.autograd.graph.saved_tensors_hooks`; ``"recompute"`` where
            `torch.utils.checkpoint` kept a stand-in.
        shape: The sizes, with words where a size is no number.
        dtype: The data type.
        nbytes: The bytes of the storage that is kept alive, the whole of it even where the tensor
            is a view of a part; None where there is no single storage (sparse tensors).
        storage: A number that is equal for equal storages within one trace.
        is_parameter: Whether the storage is a parameter's.
        saved_version: The version at which it was saved; None where PyTorch does not tell.
        current_version: The version now.
    """

    node: int
    name: str
    state: Literal["live", "freed", "packed", "recompute"]
    shape: Shape | None = None
    dtype: torch.dtype | None = None
    nbytes: int | None = None
    storage: int | None = None
    is_parameter: bool | None = None
    saved_version: int | None = None
    current_version: int | None = None

    @property
    def is_modified(self) -> bool:
        """Whether it was written in place since it was saved, so that backward will complain."""
        return self.saved_version is not None and self.saved_version != self.current_version


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomFunction:
    """The `torch.autograd.Function` that made a node.

    Attributes:
        name: Its qualified name, module first.
        file: The file that its ``forward`` is written in, where there is one.
        line: The line at which its ``forward`` starts.
    """

    name: str
    file: str | None
    line: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedNode:
    """One node of a traced graph: the backward of one operation, or a leaf.

    Attributes:
        index: Its place in `GraphTrace.nodes`.
        name: Its name in PyTorch, such as ``"MulBackward0"``.
        shapes: The shapes of what its operation made, one an output; None for a strided nested
            tensor. An output that takes part in no gradient may show as ``()``.
        dtype: The data type of the first output.
        device: Where the first output is.
        edges: One `TracedEdge` for each tensor input of the operation, in order.
        saved: What it keeps for backward.
        tensor_names: The names given to its tensors.
        is_leaf: Whether it accumulates into a leaf tensor.
        retains_grad: Whether a tensor of it retains its gradient, as far as tensors were at hand:
            among the outputs, the named ones and the leaves; None where none was.
        custom_function: The `torch.autograd.Function` behind it, with its file and line, or None.
    """

    index: int
    name: str
    shapes: tuple[Shape | None, ...]
    dtype: torch.dtype
    device: torch.device
    edges: tuple[TracedEdge, ...]
    saved: tuple[SavedTensor, ...]
    tensor_names: tuple[str, ...]
    is_leaf: bool
    retains_grad: bool | None
    custom_function: CustomFunction | None

    @property
    def leaf_name(self) -> str | None:
        """The name of the leaf tensor that it accumulates into, if that has one."""
        return self.tensor_names[0] if self.is_leaf and self.tensor_names else None

    @property
    def is_freed(self) -> bool:
        """Whether a saved tensor is gone, so that a backward through this node would fail.

        PyTorch frees a custom function's node as a whole, even one that saved nothing.
        """
        return any(saved.state == "freed" for saved in self.saved)


@dataclass(frozen=True, kw_only=True, repr=False)
class GraphTrace:
    """The graph behind some outputs, as a value that keeps no tensor, node or graph alive.

    `trace_graph` makes it. It prints itself for a terminal and shows itself in a notebook.

    Attributes:
        nodes: Every node, each one before its successors; ``nodes[i].index == i``.
        roots: The nodes at which a backward from the outputs would start.
    """

    nodes: tuple[TracedNode, ...]
    roots: tuple[TracedNode, ...]

    @cached_property
    def edges(self) -> tuple[TracedEdge, ...]:
        """Every edge, node by node, also those that lead nowhere."""
        return tuple(edge for node in self.nodes for edge in node.edges)

    @cached_property
    def leaves(self) -> tuple[TracedNode, ...]:
        """The nodes that accumulate into a leaf tensor."""
        return tuple(node for node in self.nodes if node.is_leaf)

    @cached_property
    def sinks(self) -> tuple[TracedNode, ...]:
        """The nodes that no edge leads on from."""
        return tuple(node for node in self.nodes if all(e.target is None for e in node.edges))

    @cached_property
    def saved(self) -> tuple[SavedTensor, ...]:
        """Everything that is kept for backward, node by node."""
        return tuple(saved for node in self.nodes for saved in node.saved)

    @cached_property
    def depth(self) -> int:
        """The number of edges on the longest path from a root."""
        depths = [0] * len(self.nodes)
        for edge in self.edges:
            if edge.target is not None:
                depths[edge.target] = max(depths[edge.target], depths[edge.source] + 1)
        return max(depths)

    @cached_property
    def is_freed(self) -> bool:
        """Whether a saved tensor of any node is gone, so that a whole backward would fail."""
        return any(node.is_freed for node in self.nodes)

    def to_text(self) -> str:
        """Write the graph out for a terminal, which is what ``str()`` gives too.

        Returns:
            One line a node for a small graph; at most 40 lines, with a count of each kind of node
            instead, for a big one.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> x = torch.ones(3, requires_grad=True)
            >>> print(trace_graph(x * x, names={"x": x}).to_text())
            2 nodes, 2 edges, depth 1, all float32 on cpu, 2 tensors saved
            <BLANKLINE>
               node            tensor  output  leads to  saved
            0  MulBackward0            (3,)    1 x, 1 x  other (3,), self (3,)
            1  AccumulateGrad  x       (3,)
        """
        return _graph_text.text(self)

    def to_dict(self) -> dict[str, Any]:
        """Give everything as JSON types.

        Returns:
            ``nodes`` (each with its ``edges`` and ``saved``), ``roots``, ``leaves`` and ``sinks``
            by index, ``depth`` and ``is_freed``; data types and devices by their names.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> graph = trace_graph(torch.ones(3, requires_grad=True).exp()).to_dict()
            >>> graph["nodes"][0]["name"], graph["nodes"][0]["dtype"], graph["leaves"]
            ('ExpBackward0', 'float32', [1])
        """
        return _graph_data.as_dict(self)

    def to_json(self, *, indent: int | None = None) -> str:
        """Give what `to_dict` gives, as JSON text.

        Args:
            indent: How far to indent each level; None for a single line.

        Returns:
            The text.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> trace_graph(torch.ones(3, requires_grad=True).exp()).to_json()[:45]
            '{"nodes": [{"index": 0, "name": "ExpBackward0'
        """
        return _graph_data.as_json(self, indent=indent)

    def to_svg(self, *, fold: bool | None = None) -> str:
        """Draw the graph: the root at the top, arrows in the direction of the gradients.

        The picture follows the theme of the page that it stands in, and that of the reader where
        it stands alone. Its text can be selected and searched, and each box tells more about its
        node when it is pointed at.

        Args:
            fold: Whether a leaf is shown within the box of the node that leads to it, and of parts
                that are repeated, such as the blocks of a transformer, only one, with their
                number. None folds graphs of more than 40 nodes.

        Returns:
            An ``<svg>`` element, for a file of its own or for a page.

        Raises:
            ValueError: If there would be more than 3,000 boxes.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> x = torch.ones(3, requires_grad=True)
            >>> picture = trace_graph(x * x, names={"x": x}).to_svg()
            >>> picture[:4], "MulBackward0" in picture, "leaf (3,)" in picture
            ('<svg', True, True)
        """
        return _svg.svg(self, fold=fold)

    def to_html(self) -> str:
        """Write a page to move about in: zoom, search, follow the paths of a node, fold and unfold.

        Everything is in the one text, and the page asks no network. It works with mouse, keyboard
        and touch, in the light and in the dark; the page itself says which key does what.

        Returns:
            A whole HTML document. It starts as `to_svg` would draw the graph, and shows it folded
            only where it has more than 3,000 nodes.

        Raises:
            ValueError: If there would be more than 3,000 boxes even when it is folded.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> x = torch.ones(3, requires_grad=True)
            >>> trace_graph(x * x, names={"x": x}).to_html()[:15]
            '<!doctype html>'
        """
        return _page.page(self)

    def to_networkx(self) -> Any:
        """Give the graph to networkx.

        Returns:
            A ``networkx.MultiDiGraph`` (parallel edges are real: ``h * h`` has two). Nodes are the
            indices and carry what `to_dict` says of them; edges carry ``input_nr`` and
            ``output_nr``. Inputs that needed no gradient have no edge.

        Raises:
            ImportError: If networkx is not installed.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> graph = trace_graph(torch.ones(3, requires_grad=True).exp()).to_networkx()
            >>> graph.nodes[0]["name"], list(graph.edges())
            ('ExpBackward0', [(0, 1)])
        """
        return _graph_networkx.as_networkx(self)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<GraphTrace of {len(self.nodes)} nodes, {len(self.leaves)} of them leaves>"

    def _repr_html_(self) -> str:
        return _svg.html(self)
