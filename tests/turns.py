"""The nodes at which numbers become NaN or infinite."""

from leafgrad import GraphTrace
from leafgrad.types import TracedNode


def value_turns(trace: GraphTrace) -> list[TracedNode]:
    """Return the nodes at which values become NaN or infinite, in forward order."""
    turns = [node for node in trace.nodes if node.value_turns]
    return sorted(turns, key=lambda node: -1 if node.created is None else node.created)


def gradient_turns(trace: GraphTrace) -> list[TracedNode]:
    """Return the nodes at which gradients become NaN or infinite, in backward order."""
    turns = [node for node in trace.nodes if node.gradient_turns]
    return sorted(turns, key=lambda node: node.visited or 0)
