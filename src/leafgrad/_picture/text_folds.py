"""A big graph on a few lines: by module, by what repeats itself, or by kind."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from leafgrad._display.table import table
from leafgrad._display.units import count, size
from leafgrad._graph.graph import Graph
from leafgrad._graph.memory import bytes_without_parameters
from leafgrad._graph.nodes import TracedNode
from leafgrad._picture.runs import Run, runs

MOST_ROWS = 24
MOST_KINDS = 20
MOST_NAMES = 4

Folded = tuple[list[str], str]


def folded(graph: Graph) -> Folded:
    """Give a few lines for a whole graph, and say how they were folded."""
    if any(node.module is not None for node in graph.nodes):
        return _by_module(graph)
    repeated = [*runs([node.name for node in graph.nodes])]
    spared = sum(run.period * (run.times - 1) for run in repeated)
    if len(repeated) <= MOST_ROWS and 2 * spared >= len(graph.nodes):
        return _by_repetition(graph, repeated)
    return _by_kind(graph)


def _by_module(graph: Graph) -> Folded:
    """Put modules that differ in a number only on one line, in the order of their first use."""
    groups = defaultdict[str, list[TracedNode]](list)
    for node in sorted(graph.nodes, key=_by_creation):
        groups[_pattern(node.module)].append(node)
    rows: list[tuple[str, ...]] = [("module", "times", "nodes", "saved", "memory", "made of")]
    rows += [_module_row(name, nodes) for name, nodes in [*groups.items()][:MOST_ROWS]]
    lines = table(rows, right=(1, 2, 3, 4))
    if len(groups) > MOST_ROWS:
        lines.append(f"and {count(len(groups) - MOST_ROWS, 'other module')}")
    inferred = any(node.is_module_inferred for node in graph.nodes)
    guess = " (inferred from the parameters)" * inferred
    return lines, f"folded by module{guess}: {count(len(graph.nodes), 'node')}"


def _by_creation(node: TracedNode) -> tuple[bool, int]:
    return node.created is None, node.created or 0


def _pattern(module: str | None) -> str:
    if module is None:
        return "outside"
    return re.sub(r"\b\d+\b", "*", module) or "the outermost"


def _module_row(name: str, nodes: Sequence[TracedNode]) -> tuple[str, ...]:
    modules = {node.module for node in nodes}
    saved = [slot for node in nodes for slot in node.saved]
    nbytes = bytes_without_parameters(saved)
    counts = Counter(_short(node.name) for node in nodes if not node.is_leaf)
    return (
        name,
        str(len(modules)),
        str(len(nodes)),
        str(len(saved) or ""),
        size(nbytes) if nbytes else "",
        _turns(nodes) + _names([name for name, _ in counts.most_common()]),
    )


def _turns(nodes: Sequence[TracedNode]) -> str:
    """Say which nodes that are folded here are where numbers stop being finite."""
    values = [f"{n.value_turn_kind} from node {n.index}; " for n in nodes if n.value_turns]
    gradients = [
        f"grad {n.gradient_turn_kind} from node {n.index}; " for n in nodes if n.gradient_turns
    ]
    return "".join([*values[:1], *gradients[:1]])


def _by_repetition(graph: Graph, repeated: Sequence[Run]) -> Folded:
    rows: list[tuple[str, ...]] = [("nodes", "times", "saved", "each time")]
    rows += [_run_row(graph, run) for run in repeated]
    folded_nodes = count(len(graph.nodes), "node")
    return table(rows, right=(1, 2)), f"folded by what repeats: {folded_nodes}"


def _run_row(graph: Graph, run: Run) -> tuple[str, ...]:
    stop = run.start + run.period * run.times
    nodes = graph.nodes[run.start : stop]
    saved = sum(len(node.saved) for node in nodes)
    span = f"{run.start} to {stop - 1}" if len(nodes) > 1 else f"{run.start}"
    names = _turns(nodes) + _names([_short(node.name) for node in nodes[: run.period]])
    return span, str(run.times), str(saved or ""), names


def _by_kind(graph: Graph) -> Folded:
    counts = Counter(node.name for node in graph.nodes)
    saved = Counter(graph.nodes[slot.node].name for slot in graph.saved)
    turning = [node for node in graph.nodes if node.value_turns or node.gradient_turns]
    shown = counts.most_common(MOST_KINDS)
    rows = [("node", "count", "saved", "")]
    rows += [
        (name, str(number), str(saved[name] or ""), _turns([n for n in turning if n.name == name]))
        for name, number in shown
    ]
    lines = table(rows, right=(1, 2))
    if len(counts) > len(shown):
        others = len(graph.nodes) - sum(number for _, number in shown)
        kinds = count(len(counts) - len(shown), "other kind")
        lines.append(f"and {count(others, 'node')} of {kinds}")
    return lines, f"folded by kind: {count(len(graph.nodes), 'node')}"


def _names(names: Sequence[str]) -> str:
    more = [f"and {len(names) - MOST_NAMES} more"] * (len(names) > MOST_NAMES)
    return ", ".join([*names[:MOST_NAMES], *more])


def _short(name: str) -> str:
    """Leave out what the names of PyTorch's own nodes have in common."""
    return re.sub(r"Backward\d*$", "", name)
