"""A traced graph as text: a line a node, or a count of each kind of node when there are many."""

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from leafgrad._render._table import table

if TYPE_CHECKING:
    from leafgrad._trace import GraphTrace
    from leafgrad._traced import SavedTensor, TracedEdge, TracedNode

MOST_NODES = 35
MOST_KINDS = 20
MOST_IN_A_CELL = 4


def text(trace: "GraphTrace") -> str:
    """Write every node on a line of its own where that fits, else sum them up."""
    body = _listing(trace) if len(trace.nodes) <= MOST_NODES else _summary(trace)
    return "\n".join([*header(trace), "", *body])


def html(trace: "GraphTrace") -> str:
    """Show the text in a notebook, in the colours of what is around it."""
    style = "color: inherit; background: none; overflow-x: auto"
    return f'<pre style="{style}">{escape(text(trace))}</pre>'


def header(trace: "GraphTrace") -> Iterator[str]:
    """Tell what is true of the whole graph, and what would keep a backward from working."""
    facts = [
        _count(len(trace.nodes), "node"),
        _count(sum(edge.target is not None for edge in trace.edges), "edge"),
        f"depth {trace.depth}",
        *[f"all {_kind(trace.nodes[0])}"] * _is_uniform(trace),
        f"{_count(len(trace.saved), 'tensor')} saved",
    ]
    yield ", ".join(facts)
    if trace.is_freed:
        yield "freed: what some nodes saved is gone, so another backward through them fails"
    if any(saved.is_modified for saved in trace.saved):
        yield "modified: a saved tensor was written in place, so a backward that needs it fails"


def _listing(trace: "GraphTrace") -> list[str]:
    mixed = not _is_uniform(trace)
    rows = [("", "node", "tensor", "output", "leads to", "saved")]
    rows += [
        (
            str(node.index),
            node.name,
            _tensor(node),
            _output(node, with_kind=mixed),
            _cell([_edge(edge, trace) for edge in node.edges]),
            _cell([_saved(saved, node) for saved in node.saved]),
        )
        for node in trace.nodes
    ]
    return table(rows, right=(0,))


def _summary(trace: "GraphTrace") -> Iterator[str]:
    counts = Counter(node.name for node in trace.nodes)
    saved = Counter(trace.nodes[saved.node].name for saved in trace.saved)
    shown = counts.most_common(MOST_KINDS)
    rows = [("node", "count", "saved")]
    rows += [(name, str(count), str(saved[name] or "")) for name, count in shown]
    yield from table(rows, right=(1, 2))
    if len(counts) > len(shown):
        others = len(trace.nodes) - sum(count for _, count in shown)
        yield f"and {_count(others, 'node')} of {_count(len(counts) - len(shown), 'other kind')}"
    yield ""
    yield f"roots: {_cell([f'{node.index} {node.name}' for node in trace.roots])}"
    yield f"leaves: {_leaves(trace)}"
    yield f"left out: the lines of {len(trace.nodes)} nodes; .nodes and .to_dict() have them all"


def _is_uniform(trace: "GraphTrace") -> bool:
    return len({_kind(node) for node in trace.nodes}) == 1


def _kind(node: "TracedNode") -> str:
    return f"{_short(node.dtype)} on {node.device}"


def _tensor(node: "TracedNode") -> str:
    return _cell([*node.tensor_names, *["(retains grad)"] * bool(node.retains_grad)])


def _output(node: "TracedNode", *, with_kind: bool) -> str:
    shapes = _cell([_shape(shape) for shape in node.shapes])
    return f"{shapes} {_kind(node)}" if with_kind else shapes


def _edge(edge: "TracedEdge", trace: "GraphTrace") -> str:
    if edge.target is None:
        return "none"
    output = f" output {edge.input_nr}" * bool(edge.input_nr)
    name = trace.nodes[edge.target].leaf_name
    return f"{edge.target}{output}{'' if name is None else f' {name}'}"


def _saved(saved: "SavedTensor", node: "TracedNode") -> str:
    if saved.state in STATES:
        return f"{saved.name} {STATES[saved.state]}"
    dtype = f" {_short(saved.dtype)}" * (saved.dtype != node.dtype)
    versions = f"saved at version {saved.saved_version}, now {saved.current_version}"
    modified = f" ({versions})" * saved.is_modified
    return f"{saved.name} {_shape(saved.shape)}{dtype}{modified}"


STATES = {
    "freed": "freed",
    "packed": "packed by a hook",
    "offloaded": "offloaded",
    "recompute": "to be recomputed",
}


def _leaves(trace: "GraphTrace") -> str:
    names = [leaf.leaf_name or f"node {leaf.index}" for leaf in trace.leaves]
    return f"{len(names)}{': ' * bool(names)}{_cell(names)}"


def _cell(items: Sequence[str]) -> str:
    more = [f"and {len(items) - MOST_IN_A_CELL} more"] * (len(items) > MOST_IN_A_CELL)
    return ", ".join([*items[:MOST_IN_A_CELL], *more])


def _shape(shape: tuple[int | str, ...] | None) -> str:
    if shape is None:
        return "nested"
    comma = "," * (len(shape) == 1)
    return f"({', '.join(map(str, shape))}{comma})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _short(name: object) -> str:
    return str(name).removeprefix("torch.")
