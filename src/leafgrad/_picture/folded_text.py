"""A big graph on a few lines: by module, by what repeats itself, or by kind."""

import re
from collections import Counter
from collections.abc import Sequence

from leafgrad._display.table import table
from leafgrad._display.units import count, first_few, size
from leafgrad._graph.graph import Graph
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._graph.nodes import TracedNode
from leafgrad._picture.grouped_views import by_alike_modules, by_kind
from leafgrad._picture.repeats import Run, runs_in

MOST_ROWS = 24
MOST_KINDS = 20
MOST_NAMES = 4
BACKWARD = re.compile(r"Backward\d*$")

Folded = tuple[list[str], str]


def folded(graph: Graph) -> Folded:
    """Return a few lines for a whole graph, and how they were folded."""
    if any(node.module is not None for node in graph.nodes):
        return _by_module(graph)
    runs = runs_in([node.name for node in graph.nodes])
    if len(runs) <= MOST_ROWS and 2 * sum(run.saving for run in runs) >= len(graph.nodes):
        return _by_repetition(graph, runs)
    return _by_kind(graph)


def _by_module(graph: Graph) -> Folded:
    boxes = by_alike_modules(graph).boxes
    rows: list[tuple[str, ...]] = [("module", "times", "nodes", "saved", "memory", "made of")]
    for box in boxes[:MOST_ROWS]:
        nbytes = bytes_without_parameters(box.saved)
        kinds = Counter(_short(node.name) for node in box.members if not node.is_leaf)
        names = [name for name, _ in kinds.most_common()]
        rows.append(
            (
                box.name or "",
                str(box.copies),
                str(len(box.members)),
                str(len(box.saved) or ""),
                size(nbytes) if nbytes else "",
                _turns(box.members) + first_few(names, MOST_NAMES),
            )
        )
    lines = table(rows, right=(1, 2, 3, 4))
    if len(boxes) > MOST_ROWS:
        lines.append(f"and {count(len(boxes) - MOST_ROWS, 'other module')}")
    is_inferred = any(node.is_module_inferred for node in graph.nodes)
    how = "module (inferred from the parameters)" if is_inferred else "module"
    return lines, f"folded by {how}: {count(len(graph.nodes), 'node')}"


def _by_repetition(graph: Graph, runs: Sequence[Run]) -> Folded:
    rows: list[tuple[str, ...]] = [("nodes", "times", "saved", "each time")]
    for run in runs:
        nodes = graph.nodes[run.first : run.end]
        saved = sum(len(node.saved) for node in nodes)
        span = f"{run.first} to {run.end - 1}" if len(nodes) > 1 else f"{run.first}"
        names = [_short(node.name) for node in nodes[: run.period]]
        made_of = _turns(nodes) + first_few(names, MOST_NAMES)
        rows.append((span, str(run.copies), str(saved or ""), made_of))
    return table(rows, right=(1, 2)), f"folded by what repeats: {count(len(graph.nodes), 'node')}"


def _by_kind(graph: Graph) -> Folded:
    boxes = sorted(by_kind(graph).boxes, key=lambda box: -len(box.members))
    rows: list[tuple[str, ...]] = [("node", "count", "saved", "")]
    rows += [
        (box.node.name, str(len(box.members)), str(len(box.saved) or ""), _turns(box.members))
        for box in boxes[:MOST_KINDS]
    ]
    lines = table(rows, right=(1, 2))
    if others := boxes[MOST_KINDS:]:
        nodes = count(sum(len(box.members) for box in others), "node")
        lines.append(f"and {nodes} of {count(len(others), 'other kind')}")
    return lines, f"folded by kind: {count(len(graph.nodes), 'node')}"


def _turns(nodes: Sequence[TracedNode]) -> str:
    """Return which nodes that are folded here are where numbers stop being finite."""
    values = [f"{n.value_turn_kind} from node {n.index}; " for n in nodes if n.value_turns]
    gradients = [
        f"grad {n.gradient_turn_kind} from node {n.index}; " for n in nodes if n.gradient_turns
    ]
    return "".join([*values[:1], *gradients[:1]])


def _short(name: str) -> str:
    """Leave out what the names of PyTorch's own nodes have in common."""
    return BACKWARD.sub("", name)
