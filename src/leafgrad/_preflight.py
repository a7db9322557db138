"""What a backward will fail at, found before it is run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._backward import in_backward_order
from leafgrad._by_name import by_name
from leafgrad._ends import ends_in, inside_transforms, roots_of
from leafgrad._explain import Backward
from leafgrad._explanation import GradExplanation
from leafgrad._findings import InPlaceConflict, OnceDifferentiable, Preflight
from leafgrad._graph import log_of, trace_graph
from leafgrad._record import Recording
from leafgrad._traced import TracedNode

Names = torch.nn.Module | Mapping[str, torch.Tensor | torch.nn.Module] | None


@by_name
@_autograd.uncompiled
def preflight(
    outputs: Any,
    *,
    names: Names = None,
    recording: Recording | None = None,
) -> Preflight:
    """Say what a backward from some outputs would fail at or leave out, without running it.

    It finds what PyTorch itself checks: tensors written or detached in place since they were saved,
    saved tensors that are gone, and leaves that have become results. What hooks and the code of
    custom functions do is not foreseen; where a failure depends on that, it is told as possible
    only. A few nodes do not show what they saved: they are listed as `Preflight.hidden`.

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
        ValueError: If `outputs` holds nothing, or nothing that needs a gradient.

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
    trace = trace_graph(outputs, names=names, recording=recording)
    nodes = tuple(in_backward_order(trace))
    with _autograd.unobserved():
        ends = [inside_transforms(end) for end in ends_in(outputs)]
        pairs = [*zip(_autograd.walk(roots_of(ends)), trace.nodes, strict=True)]
        once = dict(_once_differentiable(pairs))
        cut = {node.index for live, node in pairs if _autograd.keeps_detached(live)}
        moved = {node.index for live, node in pairs if _autograd.is_leaf_with_history(live)}
    conflicts = tuple(_conflicts(nodes))
    certain = cut | moved | {conflict.node.index for conflict in conflicts if conflict.is_certain}
    return Preflight(
        conflicts=conflicts,
        freed=tuple(node for node in nodes if node.is_freed),
        detached=tuple(node for node in nodes if node.index in cut),
        moved=tuple(node for node in nodes if node.index in moved),
        refusing=tuple(node for node in nodes if node.name in REFUSING),
        without_gradient=tuple(_without_gradient(Backward(ends, log_of(recording)), names)),
        once_differentiable=tuple(once[node.index] for node in nodes if node.index in once),
        hidden=tuple(node for node in nodes if node.hides_saved),
        failures=tuple(node for node in nodes if node.index in certain or _is_sure_to_fail(node)),
    )


REFUSING = {"Error", "NotImplemented"}


def _is_sure_to_fail(node: TracedNode) -> bool:
    """Say whether it does so for another reason than a write; custom functions may not care."""
    return node.name in REFUSING or (node.is_freed and node.custom_function is None)


def _conflicts(nodes: Sequence[TracedNode]) -> Iterator[InPlaceConflict]:
    for node in nodes:
        for saved in node.saved:
            if saved.is_modified or saved.may_be_modified:
                yield InPlaceConflict(node=node, saved=saved)


def _without_gradient(backward: Backward, names: Names) -> Iterator[GradExplanation]:
    """Explain each parameter, or whatever else was named, that backward would not fill."""
    for name, tensor in _named(names):
        explanation = backward.explain(tensor, name, is_ahead=True)
        if not explanation.will_be_filled:
            yield explanation


def _named(names: Names) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the parameters of a module, or what a mapping names and those of its modules."""
    if isinstance(names, torch.nn.Module):
        yield from names.named_parameters()
        return
    for name, named in (names or {}).items():
        if isinstance(named, torch.nn.Module):
            yield from ((f"{name}.{path}", one) for path, one in named.named_parameters())
        else:
            yield name, named


def _once_differentiable(
    pairs: Sequence[tuple[Node, TracedNode]],
) -> Iterator[tuple[int, OnceDifferentiable]]:
    """Find what stands in the way of a second derivative, as far as nodes show it."""
    for live, node in pairs:
        for is_once, reason in ONCE.items():
            if is_once(live):
                yield node.index, OnceDifferentiable(node=node, reason=reason)


ONCE = {
    _autograd.is_marked_once_differentiable: "its backward is marked @once_differentiable",
    _autograd.is_once_differentiable: "PyTorch has no formula for the derivative of its backward",
    _autograd.is_compiled: "torch.compile made its backward, which cannot be differentiated",
}
