"""The data behind a picture: its boxes, which the drawing code and the stepper read."""

from dataclasses import dataclass

from leafgrad._graph.modules import TracedModule
from leafgrad._graph.nodes import SavedTensor, Shape, TracedInput, TracedNode
from leafgrad._picture.input_nodes import InputNode
from leafgrad._picture.module_boxes import Beyond


@dataclass(frozen=True, kw_only=True, slots=True)
class FoldedLeaf:
    """A leaf tensor shown as a pill inside the box of the node that uses it.

    Attributes:
        name: Its name, with a star for each number that differs between copies of the box.
        uses: The number of edges of the graph that lead to it.
        alike: The leaves that it stands for, one for each copy of the box.
    """

    name: str | None
    uses: int
    alike: tuple[TracedNode, ...]

    @property
    def node(self) -> TracedNode:
        """The first leaf that it stands for."""
        return self.alike[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """A box of a picture: one node or one module, or several equal copies drawn once.

    Attributes:
        alike: For each copy, its nodes.
        edges: The indices of the boxes that its arrows lead to.
        name: The path of its module, with a star for each number that differs between the copies.
            None for a node.
        path: The path of its module in the first copy.
        module: The module itself, if the trace knows it.
        leaves: The leaves that are drawn as pills inside the box.
        results: For a module, the shapes of its outputs that other boxes use.
        is_root: Whether a backward pass starts there.
        beyond: For a box outside the module that the picture shows, whether it uses or feeds that
            module; None for all other boxes.
        block: A number that the boxes of one repeated part share; None outside such parts.
    """

    alike: tuple[tuple[TracedNode, ...], ...]
    edges: tuple[int, ...]
    name: str | None = None
    path: str | None = None
    module: TracedModule | None = None
    leaves: tuple[FoldedLeaf, ...] = ()
    results: tuple[Shape | None, ...] = ()
    is_root: bool = False
    beyond: Beyond | None = None
    block: int | None = None

    @property
    def copies(self) -> int:
        """The number of equal copies that the box stands for."""
        return len(self.alike)

    @property
    def members(self) -> tuple[TracedNode, ...]:
        """The nodes of the first copy."""
        return self.alike[0]

    @property
    def node(self) -> TracedNode:
        """The first node of the first copy."""
        return self.alike[0][0]

    @property
    def input(self) -> TracedInput | None:
        """The input of the graph that the box stands for; None for a node or a module."""
        return self.node.input if isinstance(self.node, InputNode) else None

    @property
    def title(self) -> str | None:
        """The name of the module, with its class if known; None for a node."""
        return self.name if self.name is None else title_with_class(self.name, self.module)

    @property
    def saved(self) -> list[SavedTensor]:
        """The tensors that the nodes of the first copy saved for backward."""
        return [saved for node in self.members for saved in node.saved]


View = tuple[Box, ...]
"""The boxes of a picture, each before the boxes that it leads to."""


def title_with_class(path: str, module: TracedModule | None) -> str:
    """Return a module path with its class, as in "head: Linear".

    Without a `module`, the class is unknown and is left out.
    """
    if module is None or path.partition("-")[0] == module.class_name:
        return path
    return f"{path}: {module.class_name}"
