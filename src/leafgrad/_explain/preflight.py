"""What a backward will fail at, found before it is run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._arguments.names import named_modules, named_tensors
from leafgrad._arguments.outputs import iter_outputs, root_nodes, unwrap_functorch
from leafgrad._arguments.signature import public_function
from leafgrad._explain.explanation import GradCause, GradExplanation
from leafgrad._explain.findings import InPlaceConflict, OnceDifferentiable, Preflight
from leafgrad._explain.grad_explainer import GradExplainer
from leafgrad._graph.nodes import TracedNode
from leafgrad._graph.order import in_backward_order
from leafgrad._record.cut import Cut
from leafgrad._record.module_paths import join
from leafgrad._record.record import Recording, log_of
from leafgrad._trace.trace_graph import trace_graph

Names = torch.nn.Module | Mapping[str, torch.Tensor | torch.nn.Module] | None


@public_function()
def preflight(
    outputs: Any,
    *,
    names: Names = None,
    recording: Recording | None = None,
) -> Preflight:
    """Find what a backward from some outputs would fail at or leave out, without running it.

    It finds what PyTorch itself checks: tensors written or detached in place since they were saved,
    saved tensors that are gone, leaves that have become results, and outputs without a graph. What
    hooks, the code of custom functions and checkpointed blocks that run again do is not foreseen;
    where a failure depends on that, it is told as possible only. A few nodes do not show what they
    saved, or run a backward of their own: they are listed as `Preflight.hidden` and
    `Preflight.running`.

    Args:
        outputs: What backward is to be called on, all together: a tensor of any shape and dtype, a
            `torch.autograd.graph.GradientEdge`, or any nest of lists, tuples and dicts of them.
        names: The parameters that are to get a gradient: a module, or a mapping from name to
            tensor or module.
        recording: What `record` gave while the outputs were computed in this thread; it adds the
            lines that saved and that wrote.

    Returns:
        The findings, in the order in which backward would meet them.

    Raises:
        TypeError: If `outputs` holds anything else, `names` is neither a module nor a mapping from
            strings to tensors, or `recording` is no recording.
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
    log = log_of(recording)
    with _autograd.unobserved():
        ends = [unwrap_functorch(end) for end in iter_outputs(outputs)]
        explainer = GradExplainer(ends, log)
        named = [*_named(names)]
    explained = [explainer.explain(tensor, name, is_ahead=True) for name, tensor in named]
    found = _Explained(
        without_gradient=tuple(e for e in explained if e.will_be_filled is False),
        unseen=tuple(e for e in explained if e.will_be_filled is None),
        all_zero=tuple(e for e in explained if e.cause is GradCause.ALL_ZERO),
    )
    if ends and not explainer.reached:
        return _without_graph(found, explainer.cuts_of_outputs())
    trace = trace_graph(outputs, names=names, recording=recording)
    nodes = tuple(in_backward_order(trace))
    with _autograd.unobserved():
        pairs = [*zip(_autograd.walk(root_nodes(ends)), trace.nodes, strict=True)]
        once = dict(_once_differentiable(pairs))
        cut = {node.index for live, node in pairs if _autograd.keeps_detached(live)}
        moved = {node.index for live, node in pairs if _autograd.is_leaf_with_history(live)}
        running = {node.index for live, node in pairs if live in explainer.flow.unseen}
        refusing = {node.index for live, node in pairs if _autograd.refuses(live)}
    conflicts = tuple(_conflicts(nodes))
    certain = {conflict.node.index for conflict in conflicts if conflict.is_certain}
    certain |= cut | moved | refusing
    return Preflight(
        conflicts=conflicts,
        freed=tuple(node for node in nodes if node.is_freed),
        detached=tuple(node for node in nodes if node.index in cut),
        moved=tuple(node for node in nodes if node.index in moved),
        refusing=tuple(node for node in nodes if node.index in refusing),
        once_differentiable=tuple(once[node.index] for node in nodes if node.index in once),
        hidden=tuple(node for node in nodes if node.hides_saved),
        running=tuple(node for node in nodes if node.index in running),
        failures=tuple(node for node in nodes if node.index in certain or _is_sure_to_fail(node)),
        lacks_graph=False,
        cuts=(),
        **found,
    )


class _Explained(TypedDict):
    """What becomes of the named tensors."""

    without_gradient: tuple[GradExplanation, ...]
    unseen: tuple[GradExplanation, ...]
    all_zero: tuple[GradExplanation, ...]


def _without_graph(found: _Explained, cuts: tuple[Cut, ...]) -> Preflight:
    """Return that backward fails before it comes to any node."""
    return Preflight(
        conflicts=(),
        freed=(),
        detached=(),
        moved=(),
        refusing=(),
        once_differentiable=(),
        hidden=(),
        running=(),
        failures=(),
        lacks_graph=True,
        cuts=cuts,
        **found,
    )


def _is_sure_to_fail(node: TracedNode) -> bool:
    """Return whether backward fails at a node as it was freed; custom functions may not care."""
    return node.is_freed and node.custom_function is None


def _conflicts(nodes: Sequence[TracedNode]) -> Iterator[InPlaceConflict]:
    for node in nodes:
        for saved in node.saved:
            if saved.is_modified or saved.may_be_modified:
                yield InPlaceConflict(node=node, saved=saved)


def _named(names: Names) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the parameters of modules, and what else a mapping names."""
    modules = named_modules(names)
    for name, module in modules.items():
        yield from ((join(name, path), one) for path, one in module.named_parameters())
    if isinstance(names, Mapping):
        names = {name: one for name, one in names.items() if name not in modules}
    if not isinstance(names, torch.nn.Module):
        yield from named_tensors(names)


def _once_differentiable(
    pairs: Sequence[tuple[Node, TracedNode]],
) -> Iterator[tuple[int, OnceDifferentiable]]:
    """Yield what stands in the way of a second derivative, by the index of the node."""
    for live, node in pairs:
        for is_once, reason in ONCE.items():
            if is_once(live):
                yield node.index, OnceDifferentiable(node=node, reason=reason)


ONCE = {
    _autograd.is_marked_once_differentiable: "its backward is marked @once_differentiable",
    _autograd.is_once_differentiable: "PyTorch has no formula for the derivative of its backward",
    _autograd.is_compiled: "torch.compile made its backward, which cannot be differentiated",
}
