"""The text in the boxes of a picture."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from leafgrad import _autograd
from leafgrad._display.units import count, first_few, shape_text, size, torch_name
from leafgrad._graph.gradient_norms import norm_of
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._graph.nodes import SavedTensor, Shape, TracedNode, gradient_text, value_text
from leafgrad._graph.saved_states import SAVED_STATES
from leafgrad._graph.summary import worst_of
from leafgrad._picture.box import Box, FoldedLeaf
from leafgrad._picture.input_nodes import INPUT
from leafgrad._picture.look import Direction

MOST_NAMES = 2
MOST_SHAPES = 2
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
Style = Literal["name", "fact", "alarm", "leaf", "frozen", "value", "grad"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line of text.

    Attributes:
        text: The text.
        style: What it is: the node's name, a fact, something that keeps backward from working, a
            leaf that is shown within the node, parameters that are frozen, what its operation
            made, or the gradient there.
    """

    text: str
    style: Style = "fact"


def lines(box: Box, *, made: str, direction: Direction) -> Iterator[Line]:
    """Yield the lines of a box: its name, its result (`made`), saved tensors and leaves."""
    node = box.node
    times = f" ×{box.copies}" if box.copies > 1 else ""
    if box.input is not None:
        yield Line(text=f"{box.input.name or INPUT}{times}", style="name")
        is_named = box.input.name not in {None, INPUT}
        yield Line(text=f"{INPUT} {made}" if is_named else made)
        return
    if box.name is not None:
        yield from _lines_of_module(box, times, made=made, direction=direction)
        return
    if node.is_leaf:
        yield Line(text=f"{node.leaf_name or 'leaf'}{times}", style="name")
        yield Line(text=f"leaf {made}" if node.leaf_name else made)
    else:
        yield Line(text=f"{order_sign(node)}{operation_name(node, direction)}{times}", style="name")
        if named := " ".join(filter(None, (", ".join(node.tensor_names), made))):
            yield Line(text=named)
        if node.retains_grad:
            yield Line(text="retains grad")
    if box.beyond is not None:
        return
    if box.copies == 1:
        yield from number_lines(node)
    yield from turn_lines(node)
    yield from saved_lines(node.saved)
    for leaf in box.leaves:
        yield Line(text=leaf_text(leaf), style="leaf")
        if box.copies == 1:
            yield from number_lines(leaf.node)
        yield from turn_lines(leaf.node)


def operation_name(node: TracedNode, direction: Direction) -> str:
    """Return the name of a node, or the name of the function that was called in the forward."""
    if direction == "backward":
        return node.name
    if node.custom_function is not None:
        return node.custom_function.name.rpartition(".")[2]
    return _autograd.operator_name(node.name) or node.name


def number_lines(node: TracedNode) -> Iterator[Line]:
    """Yield the value and the gradient of a node, if requested."""
    if (made := value_text(node)) is not None:
        yield Line(text=f"value {made}", style="value")
    if (arrived := gradient_text(node)) is not None:
        yield Line(text=f"grad {arrived}", style="grad")


def turn_lines(node: TracedNode) -> Iterator[Line]:
    """Yield a line if values or gradients stop being finite at a node."""
    if node.value_turns:
        yield Line(text=f"value: {node.value_turn_kind} from here", style="alarm")
    if node.gradient_turns:
        yield Line(text=f"grad: {node.gradient_turn_kind} from here", style="alarm")


def _lines_of_module(box: Box, times: str, *, made: str, direction: Direction) -> Iterator[Line]:
    yield Line(text=f"{order_sign(box.node)}{box.title}{times}", style="name")
    if box.beyond is None:
        yield Line(text=_contents(box, direction))
    if made:
        yield Line(text=made)
    if box.beyond is not None:
        return
    if box.copies == 1 and (value := value_text(box.node)) is not None:
        yield Line(text=f"value {value}", style="value")
    yield from arriving_lines(box)
    yield from leaf_gradient_lines(box)
    yield from _alarms(box)
    yield from saved_lines(box.saved)
    if leaves := [*{leaf.node.index: leaf.node for leaf in box.leaves}.values()]:
        word = "leaf" if len(leaves) == 1 else "leaves"
        yield Line(text=f"{len(leaves)} {word}{_numbers_in(leaves)}", style="leaf")
    if box.module is not None and box.module.frozen:
        entries = _entries(box.module.frozen_numbers or 0)
        yield Line(text=f"{box.module.frozen} frozen, {entries}", style="frozen")


def _contents(box: Box, direction: Direction) -> str:
    """Return the name of a module's only node, or the number of its nodes."""
    if len(box.members) == 1:
        return operation_name(box.node, direction)
    written = count(len(box.members), "node")
    if box.module is None:
        written = f"module of {written}"
    elif len(box.inner) > 1 and len({*box.inner}) == 1:
        written = f"{len(box.inner)} × {box.inner[0]}, {written}"
    return f"{written} each" if box.copies > 1 else written


def arriving_lines(box: Box) -> Iterator[Line]:
    """Yield the norms of the gradients that arrive at the results of a module."""
    if norms := arriving_norms(box):
        yield Line(text=f"grad norm {_range(norms)}", style="grad")


def leaf_gradient_lines(box: Box) -> Iterator[Line]:
    """Yield the norms of the gradients of a module's leaves together."""
    each = ({leaf.alike[copy] for leaf in box.leaves} for copy in range(box.copies))
    norms = (norm_of([one for leaf in leaves for one in leaf.gradients]) for leaves in each)
    if known := [norm for norm in norms if norm is not None]:
        yield Line(text=f"of its leaves {_range(known)}", style="grad")


def _alarms(box: Box) -> Iterator[Line]:
    """Yield lines for numbers within a module that are not finite."""
    leaves = [node for leaf in box.leaves for node in leaf.alike]
    inside = (*(node for nodes in box.alike for node in nodes), *leaves)
    yield from dict.fromkeys(line for node in inside for line in turn_lines(node))
    ends = (*(nodes[0] for nodes in box.alike), *leaves)
    if (found := worst_of(one for node in ends for one in node.gradients)) is not None:
        yield Line(text=f"grad: {found}", style="alarm")


def arriving_norms(box: Box) -> list[float]:
    """Return the norms of the gradients that arrived at the copies of a box."""
    norms = (norm_of(nodes[0].gradients) for nodes in box.alike)
    return [norm for norm in norms if norm is not None]


def _range(norms: Sequence[float]) -> str:
    """Return the range of some numbers, or their common value."""
    return " to ".join(dict.fromkeys(f"{norm:.3g}" for norm in (min(norms), max(norms))))


def _numbers_in(leaves: Sequence[TracedNode]) -> str:
    """Return the number of elements of several leaves, if their sizes are known."""
    sizes = [size for leaf in leaves for size in leaf.shapes[0] or ("nested",)]
    if not all(isinstance(size, int) for size in sizes):
        return ""
    return f", {_entries(sum(prod(map(int, leaf.shapes[0] or ())) for leaf in leaves))}"


def _entries(number: int) -> str:
    """Return a number of elements, with separators."""
    return "1 number" if number == 1 else f"{number:,} numbers"


def order_sign(node: TracedNode) -> str:
    """Return the derivative order of a node, as in ∂²; nothing for order 0."""
    if not node.derivative_order:
        return ""
    if node.derivative_order == 1:
        return "∂ "
    return f"∂{str(node.derivative_order).translate(SUPERSCRIPT)} "


def leaf_text(leaf: FoldedLeaf) -> str:
    """Return the name and shape of a leaf, and the number of uses if there are several."""
    written = f"{leaf.name or 'leaf'} {shapes(leaf.node.shapes)}"
    return f"{written}, used {leaf.uses}×" if leaf.uses > 1 else written


def output(box: Box, *, with_kind: bool) -> str:
    """Return the shapes of a node's outputs, or of a module's outputs in use."""
    node, made = box.node, shapes(box.results or box.node.shapes)
    if with_kind:
        return f"{made} {torch_name(node.dtype)} {node.device}"
    is_usual = box.input is None or node.dtype.is_floating_point
    return made if is_usual else f"{made} {torch_name(node.dtype)}"


def shapes(made: Sequence[Shape | None]) -> str:
    """Return the shapes of several outputs as text."""
    if len(made) > 1 and len({*made}) == 1:
        return f"{len(made)} × {shape_text(made[0])}"
    return first_few([*map(shape_text, made)], MOST_SHAPES)


def saved_lines(slots: Sequence[SavedTensor]) -> Iterator[Line]:
    """Yield a line for the saved tensors in each state."""
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
    """Yield the saved and current version of tensors that were modified in place."""
    if len(modified) > MOST_NAMES:
        yield Line(text=f"modified: {count(len(modified), 'tensor')}", style="alarm")
        return
    for saved in modified:
        versions = f"saved at version {saved.saved_version}, now {saved.current_version}"
        yield Line(text=f"{saved.name} {versions}", style="alarm")
