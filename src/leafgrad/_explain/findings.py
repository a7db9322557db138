"""Single findings of a preflight, as values."""

from dataclasses import dataclass

from leafgrad._graph.nodes import SavedTensor, TracedNode


@dataclass(frozen=True, kw_only=True, slots=True)
class InPlaceConflict:
    """A saved tensor that was written in place since it was saved.

    Attributes:
        node: The node that saved it; its ``source`` is the line that did, where that is known.
        saved: What it saved, with the versions then and now; its ``writes`` are what wrote since,
            where that was recorded.
        name: The name of a tensor that has this memory, where one was given.
        is_buffer: Whether that is a buffer of a module.
        is_used_since: Whether another node saved the same memory after the write, so that the
            outputs are made of results from before and from after it.
    """

    node: TracedNode
    saved: SavedTensor
    name: str | None = None
    is_buffer: bool = False
    is_used_since: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether backward fails for sure; a custom function may never look at what it saved."""
        return self.saved.is_modified and self.node.custom_function is None


@dataclass(frozen=True, kw_only=True, slots=True)
class OnceDifferentiable:
    """A node through which a gradient can be computed but not differentiated again.

    Attributes:
        node: The node.
        reason: Why.
    """

    node: TracedNode
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Miscounted:
    """A custom function whose backward returns too few gradients.

    Attributes:
        node: Its node.
        told: How many it returns for how many inputs, and where it is written.
    """

    node: TracedNode
    told: str


def place_of_node(node: TracedNode) -> str:
    """Return the name of a node, and the line that made it where that is known."""
    return node.name if node.source is None else f"{node.name} ({node.source})"
