"""The lines of text inside the boxes of a picture."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from leafgrad import _autograd
from leafgrad._display.units import count, first_few, shape_text, size, torch_name
from leafgrad._graph.gradient_norms import norm_of
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._graph.nodes import (
    SavedState,
    SavedTensor,
    Shape,
    TracedNode,
    element_count,
    gradient_text,
    value_text,
)
from leafgrad._graph.summary import worst_of
from leafgrad._messages import message
from leafgrad._picture.box import Box, FoldedLeaf
from leafgrad._picture.picture_style import Direction

MOST_NAMES = 2
MOST_SHAPES = 2
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
Style = Literal["name", "tensor", "fact", "alarm", "leaf", "frozen", "value", "grad"]


class Line(NamedTuple):
    """One line of text in a box.

    Attributes:
        text: The text.
        style: What the line shows, which decides its colour and shape.
    """

    text: str
    style: Style = "fact"


def lines(box: Box, *, made: str, direction: Direction) -> Iterator[Line]:
    """Yield the lines of text of a box: name, output (`made`), saved tensors and leaves."""
    node = box.node
    times = f" ×{box.copies}" if box.copies > 1 else ""
    if box.input is not None:
        yield Line(text=f"{box.input.name}{times}", style="name")
        yield Line(text=message("box.input-of", shape=made), style="tensor")
        return
    if box.name is not None:
        yield from _lines_of_module(box, times, made=made, direction=direction)
        return
    if node.is_leaf:
        yield Line(text=f"{node.leaf_name or message('box.leaf')}{times}", style="name")
        shape = message("box.leaf-of", shape=made) if node.leaf_name else made
        yield Line(text=shape, style="tensor")
    else:
        operation = f"{order_sign(node)}{operation_name(node, direction)}"
        yield Line(text=f"{operation}{times}", style="name")
        if named := " ".join(filter(None, (", ".join(node.tensor_names), made))):
            yield Line(text=named, style="tensor")
        if node.retains_grad:
            yield Line(text=message("box.retains"))
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
    """Return the name that a box shows for an operation.

    In a backward picture it is the node, such as `MulBackward0`; in a forward picture the function,
    such as `mul`.
    """
    if direction == "backward":
        return node.name
    if node.custom_function is not None:
        return node.custom_function.name.rpartition(".")[2]
    return _autograd.operator_name(node.name) or node.name


def number_lines(node: TracedNode) -> Iterator[Line]:
    """Yield a line for the value of a node and one for its gradient, if the trace has them."""
    if (made := value_text(node)) is not None:
        yield Line(text=message("box.value", value=made), style="value")
    if (arrived := gradient_text(node)) is not None:
        yield Line(text=message("box.grad", gradient=arrived), style="grad")


def turn_lines(node: TracedNode) -> Iterator[Line]:
    """Yield a warning line if a value or a gradient first becomes NaN or infinite at a node."""
    if node.value_turns:
        yield Line(text=message("box.value-turns", kind=node.value_turn_kind), style="alarm")
    if node.gradient_turns:
        yield Line(text=message("box.grad-turns", kind=node.gradient_turn_kind), style="alarm")


def _lines_of_module(box: Box, times: str, *, made: str, direction: Direction) -> Iterator[Line]:
    """Yield the lines of text of a module: name, size, output, norms, leaves and warnings.

    `times` is the text for the number of copies, and `made` the text for the shapes of the outputs.
    """
    yield Line(text=f"{order_sign(box.node)}{box.title}{times}", style="name")
    if box.beyond is None:
        yield Line(text=_contents(box, direction))
    if made:
        yield Line(text=made, style="tensor")
    if box.beyond is not None:
        return
    if box.copies == 1 and (value := value_text(box.node)) is not None:
        yield Line(text=message("box.value", value=value), style="value")
    if norms := arriving_norms(box):
        yield Line(text=message("box.grad-norm", norm=_range(norms)), style="grad")
    yield from leaf_gradient_lines(box)
    yield from _alarms(box)
    yield from saved_lines(box.saved)
    leaves = {leaf.node.index: leaf for leaf in box.leaves}.values()
    has_modules = any(leaf.node.module is not None for leaf in leaves)
    given = [leaf for leaf in leaves if has_modules and leaf.name and leaf.node.module is None]
    yield from (Line(text=leaf_text(leaf), style="leaf") for leaf in given[:MOST_NAMES])
    if own := [leaf.node for leaf in leaves if leaf not in given[:MOST_NAMES]]:
        written = _sizes(own) if box.copies == 1 else message("box.each", contents=_sizes(own))
        yield Line(text=written, style="leaf")
    if box.module is not None and (frozen := box.module.frozen):
        numbers = count(box.module.frozen_numbers or frozen, "parameter")
        yield Line(text=message("box.frozen", parameters=numbers), style="frozen")


def _contents(box: Box, direction: Direction) -> str:
    """Return the operation of a module with a single node, else the number of its nodes."""
    if len(box.members) == 1:
        return operation_name(box.node, direction)
    written = count(len(box.members), "node")
    if box.module is None:
        written = message("box.module", nodes=written)
    return message("box.each", contents=written) if box.copies > 1 else written


def leaf_gradient_lines(box: Box) -> Iterator[Line]:
    """Yield a line with the gradient norm of all leaves of a module; of copies, the range."""
    each = ({leaf.alike[copy] for leaf in box.leaves} for copy in range(box.copies))
    norms = (norm_of([one for leaf in leaves for one in leaf.gradients]) for leaves in each)
    if known := [norm for norm in norms if norm is not None]:
        yield Line(text=message("box.leaf-norm", norm=_range(known)), style="grad")


def _alarms(box: Box) -> Iterator[Line]:
    """Yield a warning line for each kind of NaN or infinity inside a module."""
    leaves = [node for leaf in box.leaves for node in leaf.alike]
    inside = (*(node for nodes in box.alike for node in nodes), *leaves)
    yield from dict.fromkeys(line for node in inside for line in turn_lines(node))
    ends = (*(nodes[0] for nodes in box.alike), *leaves)
    kind = worst_of(gradient for node in ends for gradient in node.gradients)
    if kind is not None:
        yield Line(text=message("box.grad-is", kind=kind), style="alarm")


def arriving_norms(box: Box) -> list[float]:
    """Return the norms of the gradients at the outputs of a box, one for each copy that has one."""
    norms = (norm_of(nodes[0].gradients) for nodes in box.alike)
    return [norm for norm in norms if norm is not None]


def _range(norms: Sequence[float]) -> str:
    """Return the least and the greatest of some norms as text, such as "0.1 to 2"."""
    ends = dict.fromkeys(f"{norm:.3g}" for norm in (min(norms), max(norms)))
    return message("lists.to").join(ends)


def _sizes(leaves: Sequence[TracedNode]) -> str:
    """Return how many parameters some leaves have together.

    If a leaf belongs to no module or has no known size, return the number of leaves instead.
    """
    sizes = [element_count(leaf.shapes[0]) for leaf in leaves]
    if None in sizes or any(leaf.module is None for leaf in leaves):
        return count(len(leaves), "leaf")
    return count(sum(size or 0 for size in sizes), "parameter")


def order_sign(node: TracedNode) -> str:
    """Return "∂ " or "∂² " for a node that computes a derivative of that order, else ""."""
    if not node.derivative_order or node.derivative is None:
        return ""
    if node.derivative_order == 1:
        return "∂ "
    return f"∂{str(node.derivative_order).translate(SUPERSCRIPT)} "


def leaf_text(leaf: FoldedLeaf) -> str:
    """Return the name and shape of a leaf, and how often it is used if more than once."""
    written = f"{leaf.name or message('box.leaf')} {shapes(leaf.node.shapes)}"
    return message("box.used", leaf=written, count=leaf.uses) if leaf.uses > 1 else written


def output(box: Box, *, with_kind: bool) -> str:
    """Return the output shapes of a box as text, with data type and device if `with_kind`.

    A module with many different outputs, as in a graph of derivatives, shows no shape.
    """
    node, results = box.node, box.results
    made = "" if len({*results}) > MOST_SHAPES else shapes(results or node.shapes)
    if with_kind:
        return f"{made} {torch_name(node.dtype)} {node.device}".lstrip()
    is_usual = box.input is None or node.dtype.is_floating_point
    return made if is_usual else f"{made} {torch_name(node.dtype)}"


def shapes(made: Sequence[Shape | None]) -> str:
    """Return several shapes as text; equal shapes as a count, such as "3 × (2, 4)".

    `made` contains the shapes; None for one that is unknown.
    """
    if len(made) > 1 and len({*made}) == 1:
        return f"{len(made)} × {shape_text(made[0])}"
    return first_few([*map(shape_text, made)], MOST_SHAPES)


def saved_lines(slots: Sequence[SavedTensor]) -> Iterator[Line]:
    """Yield a line for the saved tensors in each state, such as freed, and for modified ones."""
    for state in get_args(SavedState):
        names = [slot.name for slot in slots if slot.state == state]
        if not names:
            continue
        listed = ", ".join(names) if len(names) <= MOST_NAMES else count(len(names), "tensor")
        line = f"{message(f'nodes.saved.{state}')} {listed}"
        if state == "live" and (nbytes := bytes_without_parameters(slots)):
            line += f" ({size(nbytes)})"
        yield Line(text=line, style="alarm" if state == "freed" else "fact")
    yield from _conflicts([saved for saved in slots if saved.is_modified])


def _conflicts(modified: list[SavedTensor]) -> Iterator[Line]:
    """Yield warning lines for saved tensors that were modified in place, with their versions."""
    if len(modified) > MOST_NAMES:
        line = message("box.modified", tensors=count(len(modified), "tensor"))
        yield Line(text=line, style="alarm")
        return
    for saved in modified:
        versions = {"saved": saved.saved_version, "now": saved.current_version}
        yield Line(text=message("box.versions", name=saved.name, **versions), style="alarm")
