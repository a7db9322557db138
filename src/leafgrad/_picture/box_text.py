"""What a picture writes into the box of a node."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from leafgrad._display.units import count, first_few, shape_text, size, torch_name
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._graph.nodes import SavedTensor, TracedNode, gradient_text, value_text
from leafgrad._graph.saved_states import SAVED_STATES
from leafgrad._picture.view import Box, FoldedLeaf

MOST_NAMES = 2
MOST_SHAPES = 2
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
Style = Literal["name", "fact", "alarm", "leaf", "value", "grad"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line of text.

    Attributes:
        text: The text.
        style: What it is: the node's name, a fact, something that keeps backward from working, a
            leaf that is shown within the node, what its operation made, or the gradient there.
    """

    text: str
    style: Style = "fact"


def lines(box: Box, *, with_kind: bool) -> Iterator[Line]:
    """Write what a box is, what it made, what it saved and which leaves it leads to."""
    node = box.node
    times = f" ×{box.copies}" if box.copies > 1 else ""
    if box.name is not None:
        yield from _lines_of_module(box, times, with_kind=with_kind)
        return
    made = output(node, with_kind=with_kind)
    if node.is_leaf:
        yield Line(text=f"{node.leaf_name or 'leaf'}{times}", style="name")
        yield Line(text=f"leaf {made}" if node.leaf_name else made)
    else:
        yield Line(text=f"{order_sign(node)}{node.name}{times}", style="name")
        yield Line(text=f"{', '.join(node.tensor_names)} {made}" if node.tensor_names else made)
        if node.retains_grad:
            yield Line(text="retains grad")
    if box.copies == 1:
        yield from numbers(node)
    yield from turns(node)
    yield from saved_lines(node.saved)
    for leaf in box.leaves:
        yield Line(text=leaf_text(leaf), style="leaf")
        if box.copies == 1:
            yield from numbers(leaf.node)
        yield from turns(leaf.node)


def numbers(node: TracedNode) -> Iterator[Line]:
    """Write the numbers that were asked for."""
    if (made := value_text(node)) is not None:
        yield Line(text=f"value {made}", style="value")
    if (arrived := gradient_text(node)) is not None:
        yield Line(text=f"grad {arrived}", style="grad")


def turns(node: TracedNode) -> Iterator[Line]:
    """Yield where numbers stop being finite, forward and backward."""
    if node.value_turns:
        yield Line(text=f"value: {node.value_turn_kind} from here", style="alarm")
    if node.gradient_turns:
        yield Line(text=f"grad: {node.gradient_turn_kind} from here", style="alarm")


def _lines_of_module(box: Box, times: str, *, with_kind: bool) -> Iterator[Line]:
    yield Line(text=f"{order_sign(box.node)}{box.name}{times}", style="name")
    each = " each" if box.copies > 1 else ""
    yield Line(text=f"module of {count(len(box.members), 'node')}{each}")
    yield Line(text=output(box.node, with_kind=with_kind))
    inside = (*box.members, *(leaf.node for leaf in box.leaves))
    yield from dict.fromkeys(line for node in inside for line in turns(node))
    yield from saved_lines(box.saved)
    leaves = {leaf.node.index: leaf.node for leaf in box.leaves}.values()
    if leaves:
        yield Line(text=_together([*leaves]), style="leaf")


def _together(leaves: Sequence[TracedNode]) -> str:
    """Write the number of several leaves, and that of what is in them if they are plain tensors."""
    word = "leaf" if len(leaves) == 1 else "leaves"
    sizes = [size for leaf in leaves for size in leaf.shapes[0] or ("nested",)]
    if not all(isinstance(size, int) for size in sizes):
        return f"{len(leaves)} {word}"
    entries = sum(prod(map(int, leaf.shapes[0] or ())) for leaf in leaves)
    return f"{len(leaves)} {word}, {count(entries, 'number')}"


def order_sign(node: TracedNode) -> str:
    """Write of which order of derivative a node is, as in ∂²; nothing for none."""
    if not node.derivative_order:
        return ""
    if node.derivative_order == 1:
        return "∂ "
    return f"∂{str(node.derivative_order).translate(SUPERSCRIPT)} "


def leaf_text(leaf: FoldedLeaf) -> str:
    """Write a leaf's name, shape and, where there are several, the number of its uses."""
    written = f"{leaf.name or 'leaf'} {shapes(leaf.node)}"
    return f"{written}, used {leaf.uses}×" if leaf.uses > 1 else written


def output(node: TracedNode, *, with_kind: bool) -> str:
    """Write what a node's operation made."""
    return f"{shapes(node)} {torch_name(node.dtype)} {node.device}" if with_kind else shapes(node)


def shapes(node: TracedNode) -> str:
    """Write the shapes of a node's outputs."""
    if len(node.shapes) > 1 and len({*node.shapes}) == 1:
        return f"{len(node.shapes)} × {shape_text(node.shapes[0])}"
    return first_few([*map(shape_text, node.shapes)], MOST_SHAPES)


def saved_lines(slots: Sequence[SavedTensor]) -> Iterator[Line]:
    """Write what is saved, a line for each state that it is in."""
    for state, words in SAVED_STATES.items():
        names = [slot.name for slot in slots if slot.state == state]
        if not names:
            continue
        listed = ", ".join(names) if len(names) <= MOST_NAMES else count(len(names), "tensor")
        line = f"{words.verb} {listed}"
        if state == "live" and (nbytes := bytes_without_parameters(slots)):
            line += f" ({size(nbytes)})"
        yield Line(text=line, style="alarm" if state == "freed" else "fact")
    yield from _conflicts([saved for saved in slots if saved.is_modified])


def _conflicts(modified: list[SavedTensor]) -> Iterator[Line]:
    """Write at which version what was modified in place was saved, and at which it is."""
    if len(modified) > MOST_NAMES:
        yield Line(text=f"modified: {count(len(modified), 'tensor')}", style="alarm")
        return
    for saved in modified:
        versions = f"saved at version {saved.saved_version}, now {saved.current_version}"
        yield Line(text=f"{saved.name} {versions}", style="alarm")
