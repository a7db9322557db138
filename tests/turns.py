"""Nodes at which numbers turn nonfinite."""

from leafgrad import GraphTrace
from leafgrad.types import TracedNode


def value_turns(trace: GraphTrace) -> list[TracedNode]:
    """Return nodes at which values turn nonfinite, in forward order."""
    turns = [node for node in trace.nodes if node.value_turns]
    return sorted(turns, key=lambda node: -1 if node.created is None else node.created)


def gradient_turns(trace: GraphTrace) -> list[TracedNode]:
    """Return nodes at which gradients turn nonfinite, in backward order."""
    turns = [node for node in trace.nodes if node.gradient_turns]
    return sorted(turns, key=lambda node: node.visited or 0)
