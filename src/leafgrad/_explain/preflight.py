"""What a backward will fail at, found before it is run."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._arguments.names import Names, buffers_in, named_modules, named_tensors, read_names
from leafgrad._arguments.outputs import gradient_edges, iter_outputs, root_nodes, unwrap_functorch
from leafgrad._arguments.signature import public_function
from leafgrad._display.units import count
from leafgrad._explain.findings import (
    InPlaceConflict,
    Miscounted,
    OnceDifferentiable,
)
from leafgrad._explain.gradient_flow import GradientFlow
from leafgrad._explain.preflight_report import Preflight
from leafgrad._explain.second_backward import SecondBackward
from leafgrad._explain.unnoticed import doubts_about_blocks, silent_errors
from leafgrad._graph.nodes import TracedNode
from leafgrad._graph.order import in_backward_order
from leafgrad._record.log import Log
from leafgrad._record.place import source_at
from leafgrad._record.record import Recording, log_of
from leafgrad._trace.trace_graph import trace_graph


@public_function()
def preflight(
    outputs: Any,
    *,
    names: Names = None,
    recording: Recording | None = None,
) -> Preflight:
    """Find what a backward from some outputs would fail at or leave out, without running it.

    It finds what PyTorch itself checks: tensors written or detached in place since they were saved,
    saved tensors that are gone, leaves that have become results, and outputs without a graph. With
    a recording it also finds writes that PyTorch does not check: through ``.data``, and into what a
    checkpointed block reads again. Writes through NumPy or in other threads are not seen. What
    hooks, the code of custom functions and checkpointed blocks that run again do is not foreseen;
    where a failure depends on that, it is told as possible only. A few nodes do not show what they
    saved, or run a backward of their own: they are listed as `Preflight.hidden` and
    `Preflight.running`.

    Args:
        outputs: What backward is to be called on, all together: a tensor of any shape and dtype, a
            `torch.autograd.graph.GradientEdge`, or any nest of lists, tuples and dicts of them.
        names: The parameters that are to get a gradient: a module, an optimizer, a mapping from
            name to tensor or module, or pairs of both.
        recording: What `record` gave while the outputs were computed in this thread; it adds the
            lines that saved and that wrote.

    Returns:
        The findings, in the order in which backward would meet them.

    Raises:
        TypeError: If `outputs` holds anything else, `names` does not lead from strings to tensors,
            or `recording` is no recording.
        ValueError: If `outputs` holds nothing, or `names` is a `state_dict`, whose tensors are
            detached.

    Example:
        >>> import torch
        >>> from leafgrad import preflight, record
        >>> x = torch.ones(2, requires_grad=True)
        >>> with record() as recording:
        ...     h = x * 2
        ...     loss = h.sin().sum()
        ...     h[0] = 0.0
        >>> found = preflight(loss, names={"x": x}, recording=recording)
        >>> found.will_fail, found.first_failure.name
        (True, 'SinBackward0')
        >>> conflict = found.conflicts[0]
        >>> conflict.node.source.line, [write.source.line for write in conflict.saved.writes]
        (3, [4])
    """
    log, names = log_of(recording), read_names(names)
    with _autograd.unobserved():
        ends = [unwrap_functorch(end) for end in iter_outputs(outputs)]
        edges = gradient_edges(ends)
        graph = _autograd.walk([node for node, _ in edges])
        flow = GradientFlow(edges, graph)
    lacks_graph = bool(ends) and not edges
    trace = None if lacks_graph else trace_graph(outputs, names=names, recording=recording)
    nodes = () if trace is None else tuple(in_backward_order(trace))

    def those(is_one: Callable[[Node], bool]) -> tuple[TracedNode, ...]:
        return tuple(node for node in nodes if is_one(live[node.index]))

    with _autograd.unobserved():
        live = [] if lacks_graph else [*_autograd.walk(root_nodes(ends))]
        detached, moved = those(_autograd.keeps_detached), those(_autograd.is_leaf_with_history)
        refusing = tuple(_with_line(node, live, log) for node in those(_autograd.refuses))
        running = those(flow.unseen.__contains__)
        compiled = {node.index for node in those(_autograd.is_compiled)}
        miscounted = tuple(
            Miscounted(node=node, told=_miscounted(flow, live[node.index]))
            for node in those(flow.miscounted.__contains__)
        )
        shapes = tuple(_autograd.shape(end) or () for end in ends if _needs_gradient(end))
        once = tuple(_once_differentiable(nodes, live))
        conflicts = tuple(_with_names(_conflicts(nodes), live, names))
        silent = tuple(silent_errors(nodes, live, log, _storage_names(names)))
        blocks = tuple(doubts_about_blocks(nodes, live, log))
        is_freed = any(node.is_freed for node in nodes)
        second = SecondBackward(graph, log, named_modules(names)).told() if is_freed else None
    freed = tuple(node for node in nodes if node.is_freed)
    # a custom function may not look at what it saved; compiled code always does
    surely_freed = (one for one in freed if one.custom_function is None or one.index in compiled)
    sure_conflicts = (conflict.node for conflict in conflicts if conflict.is_certain)
    sure = (*sure_conflicts, *surely_freed, *detached, *moved, *refusing)
    failing = {node.index for node in (*sure, *(one.node for one in miscounted))}
    return Preflight(
        conflicts=conflicts,
        freed=freed,
        detached=detached,
        moved=moved,
        refusing=refusing,
        miscounted=miscounted,
        once_differentiable=once,
        hidden=tuple(node for node in nodes if node.hides_saved),
        running=running,
        failures=tuple(node for node in nodes if node.index in failing),
        silent=silent,
        checkpointed=blocks,
        shapes=shapes,
        second_backward=second,
        is_switched_off=not torch.is_grad_enabled(),
        lacks_graph=lacks_graph,
    )


def _with_line(node: TracedNode, live: Sequence[Node], log: Log) -> TracedNode:
    """Return a node that has no number with the line that made it, where that was seen."""
    place = log.refusals.get(_autograd.numbers_after(live[node.index]))
    return node if place is None or node.source else replace(node, source=source_at(place))


def _needs_gradient(end: object) -> bool:
    """Return whether an output is not one real number, with whose gradient 1 a backward begins."""
    if not isinstance(end, torch.Tensor) or not _autograd.plain(end, "requires_grad"):
        return False
    sizes = _autograd.shape(end)
    is_one = sizes is not None and all(size == 1 for size in sizes)
    return not is_one or _autograd.plain(end, "dtype").is_complex


def _conflicts(nodes: Sequence[TracedNode]) -> Iterator[InPlaceConflict]:
    fresh = {
        saved.storage
        for node in nodes
        for saved in node.saved
        if saved.saved_version is not None and not saved.is_modified
    }
    for node in nodes:
        for saved in node.saved:
            if saved.is_modified or saved.may_be_modified:
                is_used_since = saved.storage is not None and saved.storage in fresh
                yield InPlaceConflict(node=node, saved=saved, is_used_since=is_used_since)


def _with_names(
    conflicts: Iterable[InPlaceConflict], live: Sequence[Node], names: Names
) -> Iterator[InPlaceConflict]:
    """Yield the conflicts with the names of what shares the memory that was written."""
    found = [*conflicts]
    if not found:
        return
    known = _storage_names(names)
    roots = named_modules(names).values()
    buffers = {_autograd.storage_identity(one) for root in roots for one in buffers_in(root)}
    rows = _autograd.read_saved(live, ())
    written = {(row.node, row.name): row.written for row in rows}
    for one in found:
        storage = written[one.node.index, one.saved.name] or 0
        is_buffer = storage in known and storage in buffers
        yield replace(one, name=known.get(storage), is_buffer=is_buffer)


def _storage_names(names: Names) -> dict[int, str]:
    """Return the first name of a tensor in each storage, by the identity of the storage."""
    known: dict[int, str] = {}
    for name, tensor in named_tensors(names):
        known.setdefault(_autograd.storage_identity(tensor) or 0, name)
    known.pop(0, None)
    return known


def _miscounted(flow: GradientFlow, node: Node) -> str:
    """Return how many gradients a custom function returns, for how many inputs."""
    code, wanted = flow.backwards[node], flow.miscounted[node]
    name = f"{_autograd.node_name(node)}{code.place}"
    return f"{name} returns {code.told} for {count(wanted, 'input')}"


def _once_differentiable(
    nodes: Sequence[TracedNode], live: Sequence[Node]
) -> Iterator[OnceDifferentiable]:
    """Yield what stands in the way of a second derivative, with the first reason that applies."""
    for node in nodes:
        reasons = (reason for is_once, reason in ONCE.items() if is_once(live[node.index]))
        if (reason := next(reasons, None)) is not None:
            yield OnceDifferentiable(node=node, reason=reason)


ONCE = {
    _autograd.is_compiled: "torch.compile made its backward, which cannot be differentiated",
    _autograd.is_once_differentiable: "PyTorch has no formula for the derivative of its backward",
    _autograd.is_marked_once_differentiable: "its backward is marked @once_differentiable",
}
