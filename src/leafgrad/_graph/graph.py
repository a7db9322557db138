"""The value of a traced graph: its nodes, and properties computed from them."""

from dataclasses import dataclass
from functools import cached_property

from leafgrad._graph.gradient_norms import GradientNorms, gradient_norms_of
from leafgrad._graph.memory import GraphMemory, memory_of
from leafgrad._graph.modules import TracedModule
from leafgrad._graph.nodes import (
    SavedTensor,
    TracedEdge,
    TracedInput,
    TracedNode,
    age_order,
)
from leafgrad._messages import message


@dataclass(frozen=True, kw_only=True, repr=False)
class Graph:
    """The nodes of a graph and properties computed from them; the drawing code takes this class.

    Attributes:
        nodes: All nodes, each one before its successors; ``nodes[i].index == i``.
        roots: The nodes where a backward pass from the outputs starts.
        modules: The modules that nodes belong to, and the modules that contain these, if known.
        inputs: The named tensors that need no gradient and that nodes saved, such as data.
    """

    nodes: tuple[TracedNode, ...]
    roots: tuple[TracedNode, ...]
    modules: tuple[TracedModule, ...] = ()
    inputs: tuple[TracedInput, ...] = ()

    @cached_property
    def edges(self) -> tuple[TracedEdge, ...]:
        """All edges, node by node, including edges that lead to no node."""
        return tuple(edge for node in self.nodes for edge in node.edges)

    @cached_property
    def leaves(self) -> tuple[TracedNode, ...]:
        """The nodes that accumulate gradients into a leaf tensor."""
        return tuple(node for node in self.nodes if node.is_leaf)

    @cached_property
    def saved(self) -> tuple[SavedTensor, ...]:
        """All tensors saved for backward, node by node."""
        return tuple(saved for node in self.nodes for saved in node.saved)

    @cached_property
    def memory(self) -> GraphMemory:
        """The memory that the graph keeps alive for the backward pass, by kind, module and line."""
        return memory_of(self.nodes)

    @cached_property
    def depth(self) -> int:
        """The number of edges on the longest path from a root."""
        depths = [0] * len(self.nodes)
        for node in self.nodes:
            below = depths[node.index] + 1
            for edge in node.edges:
                if edge.target is not None and depths[edge.target] < below:
                    depths[edge.target] = below
        return max(depths)

    @cached_property
    def gradient_norms(self) -> GradientNorms:
        """The sizes of the gradients in each module, and where they vanish or explode.

        Raises:
            ValueError: If `trace_graph` ran without ``gradients=True``.
        """
        if not self.has_gradients:
            raise ValueError(message("errors.graph.no-gradients", what="gradient_norms"))
        return gradient_norms_of(self.nodes)

    @property
    def has_gradients(self) -> bool:
        """Whether `trace_graph` ran with ``gradients=True``."""
        return any(node.gradients for node in self.nodes)

    @cached_property
    def is_freed(self) -> bool:
        """Whether any saved tensor was freed, so that a backward pass would fail."""
        return any(saved.state == "freed" for saved in self.saved)


def sinks_of(graph: Graph) -> list[TracedNode]:
    """Return the nodes without an edge to another node."""
    return [node for node in graph.nodes if all(edge.target is None for edge in node.edges)]


def value_turns_of(graph: Graph) -> list[TracedNode]:
    """Return the nodes where values stop being finite, in the order of the forward pass.

    At each node, a NaN or infinity appeared, or entered through an input without a gradient, and
    reached a root. Infinities of an attention mask do not count: softmax turns them into zeros.
    """
    return sorted((node for node in graph.nodes if node.value_turns), key=age_order)


def gradient_turns_of(graph: Graph) -> list[TracedNode]:
    """Return the nodes where gradients stop being finite, in the order of the backward pass."""
    turns = (node for node in graph.nodes if node.gradient_turns)
    return sorted(turns, key=lambda node: node.visited or 0)
