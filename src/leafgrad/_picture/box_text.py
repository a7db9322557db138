"""What a picture writes into the box of a node."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from leafgrad._display.units import count, shape_text, size, torch_name
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._graph.nodes import SavedTensor, TracedNode, gradient_text, value_text
from leafgrad._graph.saved_states import SAVED_STATES
from leafgrad._picture.view import FoldedLeaf, Part

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


def lines(part: Part, *, with_kind: bool) -> Iterator[Line]:
    """Write what a part is, what it made, what it saved and which leaves it leads to."""
    node = part.node
    times = f" ×{part.copies}" * (part.copies > 1)
    if part.module is not None:
        yield from _lines_of_module(part, times, with_kind=with_kind)
        return
    if node.is_leaf:
        yield Line(text=f"{node.leaf_name or 'leaf'}{times}", style="name")
        yield Line(text=f"{'leaf ' * bool(node.leaf_name)}{output(node, with_kind=with_kind)}")
    else:
        yield Line(text=f"{order_sign(node)}{node.name}{times}", style="name")
        named = f"{', '.join(node.tensor_names)} " * bool(node.tensor_names)
        yield Line(text=f"{named}{output(node, with_kind=with_kind)}")
        yield from [Line(text="retains grad")] * bool(node.retains_grad)
    if part.copies == 1:
        yield from numbers(node)
    yield from turns(node)
    yield from saved_lines(node.saved)
    for leaf in part.leaves:
        yield Line(text=leaf_text(leaf), style="leaf")
        yield from numbers(leaf.node) if part.copies == 1 else ()
        yield from turns(leaf.node)


def numbers(node: TracedNode) -> Iterator[Line]:
    """Write the numbers that were asked for."""
    if (made := value_text(node)) is not None:
        yield Line(text=f"value {made}", style="value")
    if (arrived := gradient_text(node)) is not None:
        yield Line(text=f"grad {arrived}", style="grad")


def turns(node: TracedNode) -> Iterator[Line]:
    """Say where numbers stop being finite, forward and backward."""
    if node.value_turns:
        yield Line(text=f"value: {node.value_turn_kind} from here", style="alarm")
    if node.gradient_turns:
        yield Line(text=f"grad: {node.gradient_turn_kind} from here", style="alarm")


def _lines_of_module(part: Part, times: str, *, with_kind: bool) -> Iterator[Line]:
    yield Line(text=f"{order_sign(part.node)}{part.module}{times}", style="name")
    each = " each" if part.copies > 1 else ""
    yield Line(text=f"module of {count(len(part.pile), 'node')}{each}")
    yield Line(text=output(part.node, with_kind=with_kind))
    inside = (*part.pile, *(leaf.node for leaf in part.leaves))
    yield from dict.fromkeys(line for node in inside for line in turns(node))
    yield from saved_lines(part.saved)
    leaves = {leaf.node.index: leaf.node for leaf in part.leaves}.values()
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
    order = node.derivative_order or 0
    power = str(order).translate(SUPERSCRIPT) * (order > 1)
    return f"∂{power} " * (order > 0)


def leaf_text(leaf: FoldedLeaf) -> str:
    """Write a leaf's name, shape and, where there are several, the number of its uses."""
    uses = f", used {leaf.uses}×" * (leaf.uses > 1)
    return f"{leaf.name or 'leaf'} {shapes(leaf.node)}{uses}"


def output(node: TracedNode, *, with_kind: bool) -> str:
    """Write what a node's operation made."""
    kind = f" {torch_name(node.dtype)} {node.device}"
    return f"{shapes(node)}{kind * with_kind}"


def shapes(node: TracedNode) -> str:
    """Write the shapes of a node's outputs."""
    if len(node.shapes) > 1 and len({*node.shapes}) == 1:
        return f"{len(node.shapes)} × {shape_text(node.shapes[0])}"
    left_out = len(node.shapes) - MOST_SHAPES
    more = [f"and {left_out} more"] * (left_out > 0)
    return ", ".join([*map(shape_text, node.shapes[:MOST_SHAPES]), *more])


def saved_lines(slots: Sequence[SavedTensor]) -> Iterator[Line]:
    """Write what is saved, a line for each state that it is in."""
    states = {state: [s.name for s in slots if s.state == state] for state in SAVED_STATES}
    for state, names in states.items():
        if names:
            memory = (
                f" ({size(nbytes)})"
                if state == "live" and (nbytes := bytes_without_parameters(slots))
                else ""
            )
            style: Style = "alarm" if state == "freed" else "fact"
            yield Line(text=f"{SAVED_STATES[state].verb} {_listed(names)}{memory}", style=style)
    yield from _conflicts([saved for saved in slots if saved.is_modified])


def _conflicts(modified: list[SavedTensor]) -> Iterator[Line]:
    """Write at which version what was modified in place was saved, and at which it is."""
    if len(modified) > MOST_NAMES:
        yield Line(text=f"modified: {count(len(modified), 'tensor')}", style="alarm")
        return
    for saved in modified:
        versions = f"saved at version {saved.saved_version}, now {saved.current_version}"
        yield Line(text=f"{saved.name} {versions}", style="alarm")


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= MOST_NAMES else count(len(names), "tensor")
