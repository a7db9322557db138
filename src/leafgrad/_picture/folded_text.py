"""A table for a large graph: one row for each module, or for each kind of node."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from leafgrad import _autograd
from leafgrad._display.table import table
from leafgrad._display.text_width import WIDTH, cells
from leafgrad._display.units import count, first_few, size
from leafgrad._graph.graph import Graph
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._graph.nodes import TracedNode
from leafgrad._graph.summary import norms_text
from leafgrad._messages import message
from leafgrad._picture.derivatives import with_derivatives
from leafgrad._picture.view import NUMBER, merge_names

MOST_ROWS = 24
MOST_KINDS = 20
MOST_NAMES = 4


def fold_to_text(graph: Graph) -> tuple[list[str], str]:
    """Return the lines of the table for a large graph, and the sentence on how it was grouped."""
    graph = with_derivatives(graph)
    if any(node.module is not None for node in graph.nodes):
        return _by_module(graph)
    return _by_kind(graph)


def _by_module(graph: Graph) -> tuple[list[str], str]:
    """Return a table with a row for each module in the order of the forward pass, and a sentence.

    Modules whose paths differ only in numbers share a row.
    """
    groups = defaultdict[Hashable, list[TracedNode]](list)
    for node in sorted(graph.nodes, key=lambda node: (node.created is None, node.created or 0)):
        groups[node.module and NUMBER.sub("*", node.module)].append(node)
    rows = [_heading("module-heading")]
    for nodes in [*groups.values()][:MOST_ROWS]:
        kinds = Counter(_autograd.stem(node.name) for node in nodes if not node.is_leaf)
        names = [name for name, _ in kinds.most_common()]
        modules = {node.module for node in nodes}
        numbers = str(len(modules)), str(len(nodes)), *_facts(graph, nodes)
        turns = _turns_text(nodes, in_several=len(modules) > 1)
        rows.append(Row((_module_name(modules), *numbers), turns, names))
    lines = _fit_table(rows)
    if len(groups) > MOST_ROWS:
        others = count(len(groups) - MOST_ROWS, "other module")
        lines.append(message("text.folded.more", what=others))
    is_inferred = any(node.is_module_inferred for node in graph.nodes)
    key = "text.folded.by-inferred-module" if is_inferred else "text.folded.by-module"
    return lines, message(key, nodes=count(len(graph.nodes), "node"))


def _module_name(modules: Iterable[str | None]) -> str:
    """Return one name for several module paths, with stars for numbers that differ."""
    paths = [path for path in modules if path is not None]
    if not paths:
        return message("modules.outside")
    return merge_names(paths) or message("modules.outermost")


def _by_kind(graph: Graph) -> tuple[list[str], str]:
    """Return a table with a row for each kind of node, the most frequent first, and a sentence."""
    groups = defaultdict[str, list[TracedNode]](list)
    for node in graph.nodes:
        groups[node.name].append(node)
    ordered = sorted(groups.values(), key=len, reverse=True)
    rows = [_heading("kind-heading")]
    for nodes in ordered[:MOST_KINDS]:
        numbers = str(len(nodes)), *_facts(graph, nodes)
        rows.append(Row((nodes[0].name, *numbers), _turns_text(nodes), []))
    lines = _fit_table(rows)
    if others := ordered[MOST_KINDS:]:
        number = count(sum(map(len, others)), "node")
        kinds = count(len(others), "other kind")
        lines.append(message("text.folded.more-nodes", nodes=number, kinds=kinds))
    return lines, message("text.folded.by-kind", nodes=count(len(graph.nodes), "node"))


class Row(NamedTuple):
    """A row of the table; the last cell holds `words`, or as many of the `names` as fit.

    The first row is the heading.
    """

    cells: tuple[str, ...]
    words: str
    names: Sequence[str]


def _heading(key: str) -> Row:
    """Return the heading row of the table from the message `text.folded.` plus `key`."""
    *headings, last = message(f"text.folded.{key}").split(", ")
    return Row(tuple(headings), last, [])


def _fit_table(rows: Sequence[Row]) -> list[str]:
    """Return the aligned rows, with as many names in the last column as there is room for."""
    right = range(1, len(rows[0].cells))
    for most in range(MOST_NAMES, 0, -1):
        written = [(*row.cells, row.words or first_few(row.names, most)) for row in rows]
        lines = table(written, right=right)
        if max(map(cells, lines)) <= WIDTH:
            return lines
    return table(written, right=right, width=WIDTH)


def _facts(graph: Graph, nodes: Sequence[TracedNode]) -> tuple[str, str, str, str]:
    """Return four cells: count and bytes of saved tensors, or norms of values and of gradients."""
    if any(node.values or node.gradients for node in graph.nodes):
        values = norms_text(value for node in nodes for value in node.values)
        gradients = norms_text(gradient for node in nodes for gradient in node.gradients)
        return "", "", values, gradients
    saved = [one for node in nodes for one in node.saved]
    nbytes = bytes_without_parameters(saved)
    return str(len(saved) or ""), size(nbytes) if nbytes else "", "", ""


def _turns_text(nodes: Sequence[TracedNode], *, in_several: bool = False) -> str:
    """Return the first node of a row at which a value or a gradient becomes NaN or infinite.

    `in_several` is whether the row stands for several modules, so that the text names the module.
    """
    key = "text.folded.turn-in" if in_several else "text.folded.turn"
    values = [(node.value_turn_kind, node) for node in nodes if node.value_turns]
    gradients = [(node.gradient_turn_kind, node) for node in nodes if node.gradient_turns]
    first_value, first_gradient = (
        [message(key, kind=kind, index=node.index, module=node.module) for kind, node in turns[:1]]
        for turns in (values, gradients)
    )
    grad_turns = (message("text.folded.grad-turn", turn=turn) for turn in first_gradient)
    return "; ".join([*first_value, *grad_turns])
