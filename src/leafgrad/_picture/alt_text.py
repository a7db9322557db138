"""What a picture says to those who do not see it, and to those who point at a part of it."""

from collections import Counter
from collections.abc import Iterator

from leafgrad._display.units import count, shape_text, size, torch_name
from leafgrad._graph.graph import Graph
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._graph.nodes import SavedTensor, TracedNode
from leafgrad._graph.saved_states import SAVED_STATES
from leafgrad._picture.box_text import leaf_text, numbers, output, turns
from leafgrad._picture.view import Part, Picture

MOST_SENTENCES = 40
MOST_LEAVES = 12


def title(graph: Graph) -> str:
    """Name a picture."""
    return f"Autograd graph of {count(len(graph.nodes), 'node')}"


def description(picture: Picture) -> str:
    """Tell a small picture in sentences, part by part, and of a large one where it starts."""
    parts = picture.parts
    if len(parts) > MOST_SENTENCES:
        starts = [_called(part) for part in parts if part.is_root]
        return f"Backward starts at {', '.join(starts)}. {len(parts)} boxes are drawn."
    return " ".join(_sentence(part, picture) for part in parts)


def _sentence(part: Part, picture: Picture) -> str:
    ends = [_called(picture.parts[place]) for place, _ in part.ways]
    ends += [f"the leaf {leaf.name or 'without a name'}" for leaf in part.leaves]
    ends += ["an input that needs no gradient" for edge in part.node.edges if edge.target is None]
    root = "The root " * part.is_root
    times = f", {part.copies} times," * (part.copies > 1)
    told = "".join(f", {line.text}" for line in numbers(part.node) if part.copies == 1)
    sentence = f"{root}{_called(part)}{times}{told} leads to {' and '.join(ends or ['nothing'])}."
    return sentence[0].upper() + sentence[1:]


def _called(part: Part) -> str:
    node = part.node
    if part.module is not None:
        return f"the module {part.module} of {count(len(part.pile), 'node')}"
    if node.is_leaf:
        return f"the leaf {node.leaf_name or f'at node {node.index}'}"
    return f"{node.name} at node {node.index}"


def details(part: Part) -> Iterator[str]:
    """Tell everything about a node, a line a fact."""
    node = part.node
    times = f", the first of {part.copies} alike" * (part.copies > 1)
    if part.module is not None:
        yield f"module {part.module}: {len(part.pile)} nodes{times}"
        yield from _kinds(part)
        return
    yield f"node {node.index}: {node.name}{times}"
    yield from (f"tensor {name}" for name in node.tensor_names)
    yield from [f"derivative of order {node.derivative_order}"] * bool(node.derivative_order)
    yield f"output {output(node, with_kind=True)}"
    yield from (line.text for line in (*numbers(node), *turns(node)))
    yield from ["retains its gradient"] * bool(node.retains_grad)
    yield from [f"module {node.module}"] * bool(node.module)
    yield from [f"line {node.source}"] * (node.source is not None)
    yield from _inputs(node)
    yield from map(_saved, node.saved)
    if node.custom_function is not None:
        made = node.custom_function
        yield f"custom function {made.name}, {made.file or 'no file'}:{made.line or '?'}"


def _kinds(part: Part) -> Iterator[str]:
    """Tell what a module is made of, and what it keeps."""
    yield f"output {output(part.node, with_kind=True)}"
    kinds = Counter(node.name for node in part.pile).most_common()
    yield from (f"{times} × {name}" for name, times in kinds)
    if part.saved:
        kept = size(bytes_without_parameters(part.saved))
        yield f"saves {count(len(part.saved), 'tensor')}, {kept} without parameters"
    yield from (f"leaf {leaf_text(leaf)}" for leaf in part.leaves[:MOST_LEAVES])
    left_out = len(part.leaves) - MOST_LEAVES
    yield from [f"and {left_out} more"] * (left_out > 0)


def _inputs(node: TracedNode) -> Iterator[str]:
    for edge in node.edges:
        if edge.target is None:
            yield f"input {edge.output_nr} needs no gradient"
        else:
            passed = f", passes on grad {edge.gradient}" * (edge.gradient is not None)
            yield f"input {edge.output_nr} is output {edge.input_nr} of node {edge.target}{passed}"


def _saved(saved: SavedTensor) -> str:
    if saved.state != "live":
        return f"{SAVED_STATES[saved.state].verb} {saved.name}"
    memory = "" if saved.nbytes is None else f", {size(saved.nbytes)}"
    versions = f", saved at version {saved.saved_version}, now {saved.current_version}"
    whose = ", of a parameter" * bool(saved.is_parameter)
    tensor = f"{shape_text(saved.shape)} {torch_name(saved.dtype)}{memory}{whose}"
    return f"saves {saved.name} {tensor}{versions * saved.is_modified}"
