"""The description of a picture for screen readers, and the tooltips of its boxes."""

from collections import Counter
from collections.abc import Iterator

from leafgrad._display.units import count, shape_text, size, torch_name
from leafgrad._graph.graph import Graph
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._graph.nodes import SavedTensor, TracedInput, TracedNode
from leafgrad._graph.saved_states import SAVED_STATES
from leafgrad._picture.box import Box, View
from leafgrad._picture.box_text import leaf_text, number_lines, operation_name, output, turn_lines
from leafgrad._picture.input_nodes import InputEdge
from leafgrad._picture.look import Direction

BEYOND = {
    "user": "outside of this module, made of what it gives",
    "input": "outside of this module, which is given this",
}
MOST_SENTENCES = 40
MOST_LEAVES = 12


def title(graph: Graph) -> str:
    """Return the title of a picture."""
    return f"Autograd graph of {count(len(graph.nodes), 'node')}"


def description(view: View, direction: Direction) -> str:
    """Return a sentence for each box of a small picture; for a large one, its roots."""
    if len(view.boxes) > MOST_SENTENCES:
        starts = [_box_in_words(box, direction) for box in view.boxes if box.is_root]
        return f"Backward starts at {', '.join(starts)}. {len(view.boxes)} boxes are drawn."
    return " ".join(_sentence(box, view, direction) for box in view.boxes)


def _sentence(box: Box, view: View, direction: Direction) -> str:
    """Return a sentence with the boxes that a box leads to, or is made from."""
    name = _box_in_words(box, direction)
    if box.input is not None:
        return f"{name[0].upper()}{name[1:]} needs no gradient."
    ends = [_box_in_words(view.boxes[place], direction) for place, _ in box.edges]
    ends += [f"the leaf {leaf.name or 'without a name'}" for leaf in box.leaves]
    ends += ["an input that needs no gradient" for edge in box.node.edges if edge.target is None]
    if box.is_root:
        name = f"the root {name}"
    if box.copies > 1:
        name += f", {box.copies} times,"
    else:
        name += "".join(f", {line.text}" for line in number_lines(box.node))
    leads = "leads to" if direction == "backward" else "is made from"
    return f"{name[0].upper()}{name[1:]} {leads} {' and '.join(ends or ['nothing'])}."


def _box_in_words(box: Box, direction: Direction) -> str:
    node = box.node
    if box.name is not None:
        return f"the module {box.title} of {count(len(box.members), 'node')}"
    if box.input is not None:
        return input_title(box.input)
    if node.is_leaf:
        return f"the leaf {node.leaf_name or f'at node {node.index}'}"
    return f"{operation_name(node, direction)} at node {node.index}"


def input_title(given: TracedInput) -> str:
    """Return the name of an input of the graph, or its shape."""
    return f"the input {given.name or shape_text(given.shape)}"


def details(box: Box) -> Iterator[str]:
    """Yield all facts about a box, one per line."""
    node = box.node
    times = f", the first of {box.copies} alike" if box.copies > 1 else ""
    if box.beyond is not None:
        yield BEYOND[box.beyond]
    if box.input is not None:
        yield f"{input_title(box.input)}{times}, which needs no gradient"
        yield output(box, with_kind=True)
        yield from (f"given to node {use.node} as {use.argument}" for use in box.input.uses)
        return
    if box.name is not None:
        yield f"module {box.title}, {count(len(box.members), 'node')}{times}"
        yield from _kinds(box)
        return
    yield f"node {node.index}: {node.name}{times}"
    yield from (f"tensor {name}" for name in node.tensor_names)
    if node.derivative_order:
        yield f"derivative of order {node.derivative_order}"
    yield f"output {output(box, with_kind=True)}"
    yield from (line.text for line in (*number_lines(node), *turn_lines(node)))
    if node.retains_grad:
        yield "retains its gradient"
    if node.module:
        yield f"module {node.module}"
    if node.source is not None:
        yield f"line {node.source}"
    yield from _inputs(node)
    yield from map(_saved, node.saved)
    if node.custom_function is not None:
        yield f"custom function {node.custom_function}"


def _kinds(box: Box) -> Iterator[str]:
    """Yield the kinds of node in a module, its saved tensors and its leaves."""
    yield f"output {output(box, with_kind=True)}"
    if box.beyond is not None:
        return
    if box.module is not None and box.module.frozen:
        yield f"{count(box.module.parameters or 0, 'parameter')}, {box.module.frozen} frozen"
    kinds = Counter(node.name for node in box.members).most_common()
    yield from (f"{times} × {name}" for name, times in kinds)
    if box.saved:
        kept = size(bytes_without_parameters(box.saved))
        yield f"saves {count(len(box.saved), 'tensor')}, {kept} without parameters"
    yield from (f"leaf {leaf_text(leaf)}" for leaf in box.leaves[:MOST_LEAVES])
    if len(box.leaves) > MOST_LEAVES:
        yield f"and {len(box.leaves) - MOST_LEAVES} more"


def _inputs(node: TracedNode) -> Iterator[str]:
    for edge in node.edges:
        if isinstance(edge, InputEdge):
            yield f"{edge.argument} is {input_title(edge.input)}, which needs no gradient"
            continue
        if edge.target is None:
            yield f"input {edge.output_nr} needs no gradient"
            continue
        line = f"input {edge.output_nr} is output {edge.input_nr} of node {edge.target}"
        yield line if edge.gradient is None else f"{line}, passes on grad {edge.gradient}"


def _saved(saved: SavedTensor) -> str:
    if saved.state != "live":
        return f"{SAVED_STATES[saved.state].verb} {saved.name}"
    line = f"saves {saved.name} {shape_text(saved.shape)} {torch_name(saved.dtype)}"
    if saved.nbytes is not None:
        line += f", {size(saved.nbytes)}"
    if saved.is_parameter:
        line += ", of a parameter"
    if saved.is_modified:
        line += f", saved at version {saved.saved_version}, now {saved.current_version}"
    return line
