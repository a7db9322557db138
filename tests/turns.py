"""The nodes of a trace at which numbers stop being finite."""

from leafgrad import GraphTrace
from leafgrad.types import TracedNode


def value_turns(trace: GraphTrace) -> list[TracedNode]:
    """Return those of the values, in the order of the forward pass."""
    turns = [node for node in trace.nodes if node.value_turns]
    return sorted(turns, key=lambda node: -1 if node.created is None else node.created)


def gradient_turns(trace: GraphTrace) -> list[TracedNode]:
    """Return those of the gradients, in the order of the backward pass."""
    turns = [node for node in trace.nodes if node.gradient_turns]
    return sorted(turns, key=lambda node: node.visited or 0)
