"""The title of a picture of a graph, and the tooltip of each box."""

from collections import Counter
from collections.abc import Iterator

from leafgrad._display.units import count, shape_text, size, torch_name
from leafgrad._graph.graph import Graph
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._graph.nodes import SavedTensor, TracedNode
from leafgrad._messages import message
from leafgrad._picture.box import Box
from leafgrad._picture.box_text import leaf_text, number_lines, output, turn_lines
from leafgrad._picture.input_nodes import InputEdge

MOST_LEAVES = 12


def title(graph: Graph) -> str:
    """Return the title of a picture, such as "Autograd graph of 12 nodes"."""
    return message("alt.title", nodes=count(len(graph.nodes), "node"))


def details(box: Box) -> Iterator[str]:
    """Yield the lines of the tooltip of a box: everything known about its node, module or input."""
    times = message("tip.times", count=box.copies) if box.copies > 1 else ""
    if box.beyond is not None:
        yield message("tip.user" if box.beyond == "user" else "tip.beyond-input")
    if box.input is not None:
        yield message("tip.input", input=message("alt.input", name=box.input.name), times=times)
        yield output(box, with_kind=True)
        for use in box.input.uses:
            yield message("tip.use", index=use.node, argument=use.argument)
        return
    if box.name is not None:
        nodes = count(len(box.members), "node")
        yield message("tip.module", title=box.title, nodes=nodes, times=times)
        if box.module is not None and box.module.settings:
            yield f"{box.module.class_name}({box.module.settings})"
        yield from _module_in_words(box)
        return
    yield from _node_in_words(box, times)


def _node_in_words(box: Box, times: str) -> Iterator[str]:
    """Yield the tooltip lines of a node; of several equal nodes, for the first one."""
    node = box.node
    yield message("tip.node", index=node.index, name=node.name, times=times)
    yield from (message("tip.tensor", name=name) for name in node.tensor_names)
    if node.derivative_order:
        yield message("tip.order", order=node.derivative_order)
    yield message("tip.output", output=output(box, with_kind=True))
    yield from (line.text for line in (*number_lines(node), *turn_lines(node)))
    if node.settings:
        yield ", ".join(f"{name}={value}" for name, value in node.settings)
    if node.retains_grad:
        yield message("tip.retains")
    if node.derivative or node.module:
        key = "derivative" if node.derivative else "in-module"
        yield message(f"tip.{key}", module=node.module)
    if node.source is not None:
        yield message("tip.line", source=node.source)
    yield from _inputs_in_words(node)
    yield from map(_saved_in_words, node.saved)
    if node.custom_function is not None:
        yield message("tip.function", name=node.custom_function)


def _module_in_words(box: Box) -> Iterator[str]:
    """Yield the tooltip lines of a module: its operations, its saved tensors and its leaves."""
    yield message("tip.output", output=output(box, with_kind=True))
    if box.beyond is not None:
        return
    if box.module is not None and box.module.frozen:
        parameters = count(box.module.parameters or 0, "parameter")
        yield message("tip.frozen", parameters=parameters, count=box.module.frozen)
    kinds = Counter(node.name for node in box.members).most_common()
    yield from (f"{times} × {name}" for name, times in kinds)
    if box.saved:
        kept = size(bytes_without_parameters(box.saved))
        yield message("tip.saves-all", tensors=count(len(box.saved), "tensor"), bytes=kept)
    yield from (message("tip.leaf", leaf=leaf_text(leaf)) for leaf in box.leaves[:MOST_LEAVES])
    if len(box.leaves) > MOST_LEAVES:
        yield message("lists.more", count=len(box.leaves) - MOST_LEAVES)


def _inputs_in_words(node: TracedNode) -> Iterator[str]:
    """Yield a tooltip line for each input of an operation: its source node or "constant"."""
    for edge in node.edges:
        if isinstance(edge, InputEdge):
            source = message("alt.input", name=edge.input.name)
            yield message("tip.argument", argument=edge.argument, input=source)
        elif edge.target is None:
            yield message("tip.constant", number=edge.output_nr)
        else:
            place = {"output": edge.input_nr, "index": edge.target}
            line = message("tip.edge", number=edge.output_nr, **place)
            is_bare = edge.gradient is None
            yield line if is_bare else message("tip.edge-grad", edge=line, gradient=edge.gradient)


def _saved_in_words(saved: SavedTensor) -> str:
    """Return the tooltip line of a saved tensor: name, shape, data type, bytes and versions."""
    if saved.state != "live":
        return f"{message(f'nodes.saved.{saved.state}')} {saved.name}"
    shape, dtype = shape_text(saved.shape), torch_name(saved.dtype)
    line = message("tip.saves", name=saved.name, shape=shape, dtype=dtype)
    if saved.nbytes is not None:
        line += f", {size(saved.nbytes)}"
    if saved.is_parameter:
        line += message("tip.of-parameter")
    if saved.is_modified:
        versions = {"saved": saved.saved_version, "now": saved.current_version}
        line += message("tip.versions", **versions)
    return line
