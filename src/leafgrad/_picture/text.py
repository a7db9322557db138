"""A traced graph as text: a line for each node, or a summary of a large graph."""

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from leafgrad import _autograd
from leafgrad._display.markup import visible
from leafgrad._display.table import table
from leafgrad._display.text_width import WIDTH, cells, elide, wrap
from leafgrad._display.units import count, first_few, shape_text, torch_name
from leafgrad._graph.graph import Graph, gradient_turns_of, sinks_of, value_turns_of
from leafgrad._graph.nodes import (
    SavedTensor,
    TracedEdge,
    TracedNode,
    age_order,
    gradient_text,
    place_text,
    short_name,
    value_text,
)
from leafgrad._graph.summary import TensorSummary, brief_text, worst_of
from leafgrad._messages import has_message, message
from leafgrad._picture.folded_text import fold_to_text

MOST_NODES = 35
MOST_IN_A_CELL = 4


def text(graph: Graph) -> str:
    """Return a graph as text: a table of its nodes, or a summary if there are more than 35."""
    body = _summary if len(graph.nodes) > MOST_NODES else _listing
    return "\n".join(map(visible, [*header(graph), "", *body(graph)]))


def header(graph: Graph) -> Iterator[str]:
    """Yield the first lines of the text: facts about the graph, then problems with backward."""
    facts = [
        count(len(graph.nodes), "node"),
        count(sum(edge.target is not None for edge in graph.edges), "edge"),
        message("text.depth", depth=graph.depth),
    ]
    if shared := _kind_text(graph.nodes[0], _common_fields(graph)):
        facts.append(message("text.all", kind=shared))
    facts.append(message("text.saved", tensors=count(len(graph.saved), "tensor")))
    sentences = [message("lists.facts").join(facts)]
    if graph.is_freed:
        sentences.append(message("text.freed"))
    if any(saved.is_modified for saved in graph.saved):
        sentences.append(message("text.modified"))
    for sentence in (*sentences, *_not_finite_lines(graph)):
        yield from wrap(sentence, WIDTH, break_long_words=False, break_on_hyphens=False)


def _not_finite_lines(graph: Graph) -> Iterator[str]:
    """Yield sentences that say where values and gradients first become NaN or infinite."""
    bad = [node for node in graph.nodes if worst_of(node.values)]
    finite_roots = [value for root in graph.roots for value in root.values]
    if turns := value_turns_of(graph):
        first = turns[0]
        key = "values-near" if first.value_turn_is_near else "values"
        place = {"kind": first.value_turn_kind, "place": place_text(first)}
        sentence = message(f"text.not-finite.{key}", **place)
        if names := message("lists.and").join(first.value_turn_given):
            sentence = message("text.not-finite.came-in", text=sentence, names=names)
        yield sentence
    elif bad and not all(value and value.is_finite for value in finite_roots):
        yield message("text.not-finite.unknown")
    elif nans := [node for node in bad if worst_of(node.values) == "NaN"]:
        first = min(nans, key=age_order)
        yield message("text.not-finite.at", place=place_text(first))
    ends = [kind for sink in sinks_of(graph) if (kind := worst_of(sink.gradients))]
    if turns := gradient_turns_of(graph):
        first = turns[0]
        place = {"kind": first.gradient_turn_kind, "place": place_text(first)}
        yield message("text.not-finite.gradients", **place)
    elif ends:
        starts = [kind for root in graph.roots if (kind := worst_of(root.gradients))]
        key = "gradients-from-start" if starts else "gradients-somewhere"
        yield message(f"text.not-finite.{key}", kind=[*starts, *ends][0])


class Detail(NamedTuple):
    """How much a row of the table shows of its node.

    Attributes:
        edges: How many edges, names and shapes a cell holds.
        saved: How many saved tensors a cell names; with 0 it shows only their number.
        with_shapes: Whether saved tensors have shapes and data types.
        is_bare: Whether the names of nodes are short: without ``Backward0``, and "leaf" for a leaf.
            The end of a cell then shows how many entries are left out as "+3".
        with_names: Whether an edge to a leaf shows the name of the leaf.
        with_kind: Whether data types and devices are shown where they differ.
        is_brief: Whether a tensor is shown by its norm only.
        least: The minimum width of a column that is cut; its cells lose their middle.
        whole: The columns that are never cut.
    """

    edges: int = MOST_IN_A_CELL
    saved: int = MOST_IN_A_CELL
    with_shapes: bool = True
    is_bare: bool = False
    with_names: bool = False
    with_kind: bool = True
    is_brief: bool = False
    least: int = WIDTH
    whole: tuple[int, ...] = (3, 4, 5, 6)


NARROW = Detail(saved=2, with_shapes=False, is_brief=True, is_bare=True)
COUNTED = NARROW._replace(saved=0)
DETAILS = (
    Detail(with_names=True),
    Detail(),
    Detail(saved=1),
    Detail(saved=2, with_shapes=False, is_brief=True),
    NARROW,
    COUNTED,
    COUNTED._replace(least=24),
    COUNTED._replace(least=16, edges=2),
    COUNTED._replace(least=7, edges=1, with_kind=False),
    COUNTED._replace(least=7, edges=1, with_kind=False, whole=()),
)
"""The levels of detail to try, until the table fits into the terminal.

The last one always fits, with up to 35 nodes.
"""


def _listing(graph: Graph) -> list[str]:
    """Return the lines of the table of nodes, as detailed as the terminal has room for."""
    tried = (
        table(_rows(graph, one), right=(0,), whole=one.whole, width=WIDTH, least=one.least)
        for one in DETAILS
    )
    lines = next(lines for lines in tried if max(map(cells, lines)) <= WIDTH)
    return [*lines, "", *_input_lines(graph)] if graph.inputs else lines


def _input_lines(graph: Graph) -> list[str]:
    """Return a sentence about the inputs of a graph: name, shape, data type and users of each."""
    inputs = []
    for source in graph.inputs:
        nodes = first_few([str(use.node) for use in source.uses], MOST_IN_A_CELL)
        words = source.name, shape_text(source.shape), torch_name(source.dtype)
        inputs.append(" ".join([*words, message("text.at-nodes", nodes=nodes)]))
    listed = first_few(inputs, MOST_IN_A_CELL)
    return wrap(message("text.inputs", inputs=listed), WIDTH)


def _rows(graph: Graph, detail: Detail) -> list[tuple[str, ...]]:
    """Return the cells of the table of nodes, heading first."""
    differing = {"dtype", "device"} - _common_fields(graph)
    with_saved = not any(node.values or node.gradients for node in graph.nodes)
    rows: list[tuple[str, ...]] = [("", *message("text.heading").split(", "))]
    for node in graph.nodes:
        names = [*node.tensor_names]
        if node.retains_grad:
            names.append(message("text.retains"))
        output = _in_cell([*map(shape_text, node.shapes)], detail.edges, detail)
        if differing and detail.with_kind:
            output += f" {_kind_text(node, differing)}"
        name = node.name
        if detail.is_bare:
            name = message("text.leaf") if node.is_leaf else _autograd.stem(name)
        targets = [_edge_text(edge, graph, with_names=detail.with_names) for edge in node.edges]
        rows.append(
            (
                str(node.index),
                name,
                _in_cell(names, detail.edges, detail),
                output,
                _brief_text(node.values) if detail.is_brief else value_text(node) or "",
                _brief_text(node.gradients) if detail.is_brief else gradient_text(node) or "",
                _in_cell(targets, detail.edges, detail),
                _all_saved_text(node, detail) if with_saved else "",
            )
        )
    return rows


def _brief_text(summaries: Sequence[TensorSummary | None]) -> str:
    """Return the norms of several tensors as text."""
    return "; ".join(brief_text(summary) for summary in summaries if summary is not None)


def _summary(graph: Graph) -> Iterator[str]:
    """Yield the lines for a large graph: a folded table, its roots, leaves and inputs."""
    lines, how = fold_to_text(graph)
    roots = [f"{node.index} {node.name}" for node in graph.roots]
    leaves = [short_name(leaf) for leaf in graph.leaves]
    more = message("text.rest", how=how)
    if turns := [*value_turns_of(graph), *gradient_turns_of(graph)]:
        more = message("text.rest-as", how=how, index=turns[0].index)
    yield from lines
    yield ""
    yield _first_names(message("text.roots"), roots)
    yield _first_names(message("text.leaves", count=len(leaves)), leaves)
    if graph.inputs:
        yield from _input_lines(graph)
    yield from wrap(more, WIDTH)


def _first_names(what: str, names: Sequence[str]) -> str:
    """Return a line with as many names as fit; a single name that is too long loses its middle.

    `what` is the word before the names, such as "leaves".
    """
    if not names:
        return what
    lines = (f"{what}: {first_few(names, most)}" for most in range(MOST_IN_A_CELL, 0, -1))
    for line in lines:
        if cells(line) <= WIDTH:
            return line
    room = WIDTH - cells(f"{what}: {first_few([''] * len(names), 1)}")
    return f"{what}: {first_few([elide(name, room) for name in names], 1)}"


def _common_fields(graph: Graph) -> set[str]:
    """Return which of `dtype` and `device` are the same for all nodes."""
    fields = ("dtype", "device")
    return {field for field in fields if len({*map(attrgetter(field), graph.nodes)}) == 1}


def _kind_text(node: TracedNode, fields: Container[str]) -> str:
    """Return the data type and the device of a node, as far as `fields` names them."""
    dtype = [torch_name(node.dtype)] if "dtype" in fields else []
    device = [message("text.on-device", device=node.device)] if "device" in fields else []
    return " ".join(dtype + device)


def _edge_text(edge: TracedEdge, graph: Graph, *, with_names: bool) -> str:
    """Return the text of an edge: the index of its target, and which output it uses."""
    if edge.target is None:
        return message("text.no-edge")
    words = [str(edge.target)]
    if edge.input_nr:
        words.append(message("text.edge-output", number=edge.input_nr))
    name = graph.nodes[edge.target].leaf_name
    if name and with_names:
        words.append(name)
    return " ".join(words)


def _in_cell(texts: Sequence[str], most: int, detail: Detail) -> str:
    """Return the first `most` texts of a cell, and how many are left out."""
    if detail.is_bare and len(texts) > most:
        return f"{', '.join(texts[:most])} +{len(texts) - most}"
    return first_few(texts, most)


def _all_saved_text(node: TracedNode, detail: Detail) -> str:
    """Return the saved tensors of a node by name, or how many there are of each state."""
    if node.hides_saved:
        return message("nodes.status.hidden")
    if detail.saved:
        return _in_cell(
            [_saved_text(one, node, detail) for one in node.saved], detail.saved, detail
        )
    counts = Counter(
        message("nodes.status.modified") if saved.is_modified else _status(saved)
        for saved in node.saved
    )
    return ", ".join(" ".join(filter(None, (str(n), status))) for status, n in counts.items())


def _status(saved: SavedTensor) -> str:
    """Return the state of a saved tensor, such as "freed"; "" for a live one."""
    key = f"nodes.status.{saved.state}"
    return message(key) if has_message(key) else ""


def _saved_text(saved: SavedTensor, node: TracedNode, detail: Detail) -> str:
    """Return the name of a saved tensor with its state, shape, data type and versions."""
    if status := _status(saved):
        return f"{saved.name} {status}"
    words = [saved.name]
    if detail.with_shapes:
        words.append(shape_text(saved.shape))
        if saved.dtype != node.dtype:
            words.append(torch_name(saved.dtype))
    if saved.is_modified:
        versions = {"saved": saved.saved_version, "now": saved.current_version}
        words.append(message("text.versions", **versions))
    return " ".join(words)
