"""A traced graph as text: a line for each node, or folded where there are many."""

import textwrap
from collections.abc import Iterator
from operator import attrgetter

from leafgrad._display.markup import preformatted, visible
from leafgrad._display.table import WIDTH, clipped, table
from leafgrad._display.units import count, first_few, shape_text, torch_name
from leafgrad._graph.graph import Graph
from leafgrad._graph.nodes import SavedTensor, TracedEdge, TracedNode, gradient_text, value_text
from leafgrad._graph.saved_states import SAVED_STATES
from leafgrad._picture.folded_text import folded
from leafgrad._picture.not_finite_sentences import not_finite

MOST_NODES = 35
MOST_IN_A_CELL = 4
GAP = "..."


def text(graph: Graph) -> str:
    """Write every node on a line of its own where that fits, else sum them up."""
    body = _listing(graph) if len(graph.nodes) <= MOST_NODES else _summary(graph)
    return "\n".join(map(visible, [*header(graph), "", *body]))


def html(graph: Graph) -> str:
    """Show the text in a notebook, in the colours of what is around it."""
    return preformatted(text(graph))


def header(graph: Graph) -> Iterator[str]:
    """Yield what is true of the whole graph, and what would keep a backward from working."""
    facts = [
        count(len(graph.nodes), "node"),
        count(sum(edge.target is not None for edge in graph.edges), "edge"),
        f"depth {graph.depth}",
    ]
    if _is_uniform(graph):
        facts.append(f"all {_kind(graph.nodes[0])}")
    facts.append(f"{count(len(graph.saved), 'tensor')} saved")
    yield from textwrap.wrap(", ".join(facts), WIDTH)
    if graph.is_freed:
        yield "freed: what some nodes saved is gone, so another backward through them fails"
    if any(saved.is_modified for saved in graph.saved):
        yield "modified: a saved tensor was written in place, so a backward that needs it fails"
    yield from not_finite(graph)
    for sentence in graph.gradient_norms.sentences:
        yield from textwrap.wrap(sentence, WIDTH)


def _listing(graph: Graph) -> list[str]:
    """List the nodes, with as much of each in its cells as there is room for.

    Where that is too little, edges go without the names of their leaves, which have lines of their
    own, and then long names without their middle.
    """
    for most, letters, with_names in _ROOM:
        lines = _rows(graph, most, letters, with_names=with_names)
        if max(map(len, lines)) <= WIDTH:
            break
    return [clipped(line) for line in lines]


_ROOM = (
    *((most, WIDTH, True) for most in range(MOST_IN_A_CELL, 0, -1)),
    *((most, letters, False) for letters in (WIDTH, 32, 24, 16) for most in (MOST_IN_A_CELL, 1)),
)
"""How many things a cell holds, how many letters of a name there are, and if edges name leaves."""


def _rows(graph: Graph, most: int, letters: int, *, with_names: bool) -> list[str]:
    with_kind = not _is_uniform(graph)
    with_saved = not any(node.values or node.gradients for node in graph.nodes)
    rows = [("", "node", "tensor", "output", "value", "grad", "leads to", "saved")]
    for node in graph.nodes:
        names = [_elided(name, letters) for name in node.tensor_names]
        if node.retains_grad:
            names.append("(retains grad)")
        output = first_few([*map(shape_text, node.shapes)], most)
        if with_kind:
            output += f" {_kind(node)}"
        targets = [_edge(edge, graph, with_names=with_names) for edge in node.edges]
        saved = first_few([_saved(one, node) for one in node.saved if with_saved], most)
        if with_saved and node.hides_saved:
            saved = "not shown"
        rows.append(
            (
                str(node.index),
                node.name,
                first_few(names, most),
                output,
                value_text(node) or "",
                gradient_text(node) or "",
                first_few(targets, most),
                saved,
            )
        )
    return table(rows, right=(0,))


def _summary(graph: Graph) -> Iterator[str]:
    lines, how = folded(graph)
    roots = [f"{node.index} {node.name}" for node in graph.roots]
    leaves = [leaf.leaf_name or f"node {leaf.index}" for leaf in graph.leaves]
    named = f"{len(leaves)}: {first_few(leaves, MOST_IN_A_CELL)}" if leaves else "0"
    more = f"{how}; .nodes and .to_dict() have them all"
    if turns := [*graph.values_turn, *graph.gradients_turn]:
        more += f", as .nodes[{turns[0].index}]"
    yield from map(clipped, lines)
    yield ""
    yield clipped(f"roots: {first_few(roots, MOST_IN_A_CELL)}")
    yield clipped(f"leaves: {named}")
    yield from textwrap.wrap(more, WIDTH)


def _is_uniform(graph: Graph) -> bool:
    kinds = [*map(attrgetter("dtype", "device"), graph.nodes)]
    return kinds.count(kinds[0]) == len(kinds)


def _kind(node: TracedNode) -> str:
    return f"{torch_name(node.dtype)} on {node.device}"


def _elided(name: str, letters: int) -> str:
    """Leave out the middle of a name that is too long; its end tells more than its start."""
    if len(name) <= letters:
        return name
    head = (letters - len(GAP)) // 3
    return f"{name[:head]}{GAP}{name[head + len(GAP) - letters :]}"


def _edge(edge: TracedEdge, graph: Graph, *, with_names: bool) -> str:
    if edge.target is None:
        return "none"
    words = [str(edge.target)]
    if edge.input_nr:
        words.append(f"output {edge.input_nr}")
    name = graph.nodes[edge.target].leaf_name
    if name and with_names:
        words.append(name)
    return " ".join(words)


def _saved(saved: SavedTensor, node: TracedNode) -> str:
    if status := SAVED_STATES[saved.state].status:
        return f"{saved.name} {status}"
    words = [saved.name, shape_text(saved.shape)]
    if saved.dtype != node.dtype:
        words.append(torch_name(saved.dtype))
    if saved.is_modified:
        words.append(f"(saved at version {saved.saved_version}, now {saved.current_version})")
    return " ".join(words)
