"""The contents of a picture as values, which every writer of pictures and steps reads."""

from dataclasses import dataclass

from leafgrad._graph.modules import TracedModule
from leafgrad._graph.nodes import SavedTensor, Shape, TracedInput, TracedNode
from leafgrad._picture.input_nodes import InputNode
from leafgrad._picture.module_boxes import Beyond


@dataclass(frozen=True, kw_only=True, slots=True)
class FoldedLeaf:
    """A leaf that is shown within the box of a node that leads to it.

    Attributes:
        name: Its name, with a star for each number that differs between the leaves it stands for.
        uses: The number of edges that lead to it.
        alike: The leaves that it stands for, one for each copy of the box.
    """

    name: str | None
    uses: int
    alike: tuple[TracedNode, ...]

    @property
    def node(self) -> TracedNode:
        """The first of the leaves."""
        return self.alike[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """A box that stands for a node or the nodes of a module, and for copies of these.

    Attributes:
        alike: The nodes of each copy.
        edges: The indices of the boxes that it leads to.
        name: None for a node. For a module its path, with a star for each number that differs
            between the copies.
        path: The path of the module; of several copies, of the first.
        module: The facts about that module, if known.
        leaves: The leaves that are shown within it.
        results: For a module, the shapes of its outputs that other boxes use.
        is_root: Whether a backward pass starts there.
        beyond: Its side, if it lies outside the module that the picture shows.
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
        """The number of copies that it stands for."""
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
        """The input of the graph that the box stands for, if it stands for one."""
        return self.node.input if isinstance(self.node, InputNode) else None

    @property
    def title(self) -> str | None:
        """The name, with the class of the module if known; None for a node."""
        return self.name if self.name is None else title_with_class(self.name, self.module)

    @property
    def saved(self) -> list[SavedTensor]:
        """The saved tensors of the first copy."""
        return [saved for node in self.members for saved in node.saved]


View = tuple[Box, ...]
"""The boxes of a picture, each before the boxes that it leads to."""


def title_with_class(path: str, module: TracedModule | None) -> str:
    """Return a path with the class of its module, unless the path begins with the class."""
    if module is None or path.partition("-")[0] == module.class_name:
        return path
    return f"{path}: {module.class_name}"
