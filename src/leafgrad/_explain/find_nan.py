"""Where NaN and infinity come from, in values and in gradients."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from leafgrad import _autograd
from leafgrad._arguments.names import Names, named_tensors, read_names
from leafgrad._arguments.outputs import gradient_edges, iter_outputs
from leafgrad._arguments.signature import public_function
from leafgrad._display.units import first_few
from leafgrad._explain.nan_report import NanOrigin, NanReport, came_in_with
from leafgrad._explain.nan_words import (
    CURE_OF_LEAF,
    CURE_OF_NUMBER,
    EMPTY,
    NOT_SEEN,
    OF_INFINITY,
    words_for,
)
from leafgrad._graph.graph import gradient_turns_of, value_turns_of
from leafgrad._graph.nodes import TracedNode
from leafgrad._graph.summary import TensorSummary, summary_of
from leafgrad._graph.zero_words import Words
from leafgrad._record.log import Birth, Log
from leafgrad._record.place import source_at
from leafgrad._record.record import Recording, log_of
from leafgrad._record.value_recorder import NUMBER
from leafgrad._trace.graph_trace import GraphTrace
from leafgrad._trace.not_finite_turns import only_moves
from leafgrad._trace.trace_graph import trace_graph
from leafgrad._trace.values import argument_name


@public_function()
def find_nan(
    outputs: Any,
    *,
    names: Names = None,
    recording: Recording | None = None,
) -> NanReport:
    """Find the operations at which NaN or infinity comes up, in values and in gradients.

    Values are those that ``record(values=True)`` saw, and those that the graph itself still knows.
    For the gradients one backward is run, from each output with the gradient 1; it fills no
    ``.grad`` and frees nothing. Call it before ``backward()``, which frees the graph, or after
    ``backward(retain_graph=True)``; a graph that is freed has values only. Where several processes
    share a model, all have to call it. What is gone before the
    end, such as the infinities of a mask that a softmax makes zeros of, is not reported.

    Args:
        outputs: The loss, or any outputs, as in `trace_graph`. They may have been computed under
            ``no_grad``; then there is nothing to say of gradients.
        names: What tensors and modules are called, as in `trace_graph`: the model.
        recording: What ``record(values=True)`` gave while the outputs were computed in this thread.
            Without it few values are known, and neither lines nor most modules.

    Returns:
        The report, which is true if anything was found, and prints itself as a card.

    Raises:
        TypeError: If `outputs` holds anything but tensors, `names` does not lead from strings to
            tensors, or `recording` is no recording.

    Example:
        >>> import torch
        >>> from leafgrad import find_nan, record
        >>> x = torch.tensor([0.0, 4.0], requires_grad=True)
        >>> with record(values=True) as recording:
        ...     length = (x * x).sqrt().sum()
        >>> report = find_nan(length, names={"x": x}, recording=recording)
        >>> [(one.way, one.kind, one.operation) for one in report.origins]
        [('gradient', 'infinity', 'sqrt'), ('gradient', 'NaN', 'mul')]
        >>> print(report.origins[0].cure)
        Add a small number inside: (x + 1e-12).sqrt().

    What PyTorch's own ``torch.autograd.set_detect_anomaly`` sees is NaN in gradients alone.
    """
    names = read_names(names)
    log = log_of(recording)
    ends = [*iter_outputs(outputs)]
    if not gradient_edges(ends):
        return NanReport(
            origins=tuple(_without_graph(ends, log)),
            unrecorded=0,
            without_gradients="no output requires grad.",
        )
    trace = trace_graph(outputs, names=names, recording=recording, values=True)
    without = "the graph is freed, as by a backward() before." if trace.is_freed else None
    if without is None:
        try:
            trace = trace_graph(
                outputs,
                names=names,
                recording=recording,
                values=True,
                gradients=True,
                grad_outputs=_ones(outputs),
            )
        except RuntimeError as error:
            complaint, _, _ = str(error).partition(". ")
            without = f"torch.autograd.grad() fails with {complaint!r}; see preflight()."
    return NanReport(
        origins=(*_in_values(trace, _births(log, names)), *_in_gradients(trace)),
        unrecorded=sum(None in node.values and not only_moves(node) for node in trace.nodes),
        without_gradients=without,
    )


def _ones(outputs: Any) -> list[torch.Tensor | None]:
    """Return a gradient of ones for each tensor that needs one; None for what has no numbers."""
    starts = (end for end in iter_outputs(outputs) if gradient_edges([end]))
    return [
        torch.ones_like(start, requires_grad=False) if isinstance(start, torch.Tensor) else None
        for start in starts
    ]


Births = Mapping[str, Birth]
Given = tuple[tuple[str, TensorSummary | None], ...]


def _births(log: Log, names: Any) -> Births:
    """Return where tensors became not finite that calls were given, by their names there."""
    named = [*named_tensors(names)]
    given = (one for _, _, several in log.given for one in several)
    return {argument_name(one, named): one.birth for one in given if one.birth is not None}


def _without_graph(ends: Sequence[object], log: Log) -> Iterator[NanOrigin]:
    """Yield where outputs without a graph became not finite."""
    for end in ends:
        found = summary_of(end) if isinstance(end, torch.Tensor) else None
        if isinstance(end, torch.Tensor) and found is not None and found.not_finite is not None:
            birth = log.birth_of(end)
            words = (
                NOT_SEEN
                if birth is None
                else words_for(operation_of(birth), "value", end.dtype, birth.kind)
            )
            yield NanOrigin(
                way="value",
                kind=found.not_finite if birth is None else birth.kind,
                operation="not recorded" if birth is None else operation_of(birth),
                node=None,
                given=(),
                made=(found,),
                passed_on=(),
                because=words[0],
                cure=words[1],
                source=None if birth is None else log.source_at(birth.place),
            )


def operation_of(birth: Birth) -> str:
    """Return what words call the operation of a call."""
    return birth.operation.strip("_").removeprefix("true").replace("_", "")


def _in_values(trace: GraphTrace, births: Births) -> Iterator[NanOrigin]:
    has_infinity = False
    turns = value_turns_of(trace)
    made = {_operation(node) for node in turns if node.value_turn_kind == "NaN"}
    for node in turns:
        if _is_mask(node) and made and "softmax" not in made:
            continue  # the infinities are meant, and what made NaN of them is not
        given = _given(node, trace)
        is_made_of_infinity = has_infinity and any(one and one.infinities for _, one in given)
        has_infinity |= node.value_turn_kind == "infinity"
        is_of_it = is_made_of_infinity and "softmax" not in _operation(node)
        birth = next((births[one] for one in came_in_with(node) if one in births), None)
        words = (
            _value_words(node, given)
            if birth is None
            else words_for(operation_of(birth), "value", node.dtype, birth.kind)
        )
        because, cure = OF_INFINITY if is_of_it else words
        yield NanOrigin(
            way="value",
            kind=node.value_turn_kind or "NaN",
            operation=_operation(node) if birth is None else operation_of(birth),
            source=None if birth is None else source_at(birth.place),
            node=node,
            given=given if birth is None else (),
            made=node.values if birth is None else (),
            passed_on=(),
            because=because,
            cure=cure,
        )


def _in_gradients(trace: GraphTrace) -> Iterator[NanOrigin]:
    """Yield the turns of the gradients, but not what only follows from the turns of values."""
    has_infinity = False
    has_value_turns = any(node.value_turns for node in trace.nodes)
    for node in gradient_turns_of(trace):
        given = _given(node, trace)
        is_of_infinity = has_infinity and node.gradient_turn_kind == "NaN"
        has_infinity |= node.gradient_turn_kind == "infinity"
        at = [*node.values, *(value for _, value in given)]
        if has_value_turns and (is_of_infinity or any(one and one.not_finite for one in at)):
            continue
        words = words_for(_operation(node), "gradient", _dtype_of_gradient(node))
        because, cure = OF_INFINITY if is_of_infinity else words
        yield NanOrigin(
            way="gradient",
            kind=node.gradient_turn_kind or "NaN",
            operation=_operation(node),
            node=node,
            given=given,
            made=node.gradients,
            passed_on=tuple(edge.gradient for edge in node.edges if edge.target is not None),
            because=because,
            cure=cure,
        )


def _is_mask(node: TracedNode) -> bool:
    """Return whether a node puts infinities in on purpose, of which others may make NaN."""
    is_mask = _operation(node) in {"maskedfill", "where"}
    return is_mask and node.value_turn_kind == "infinity" and not node.value_turn_given


def _operation(node: TracedNode) -> str:
    """Return the name of the operation, as PyTorch's functions are called."""
    return "leaf" if node.is_leaf else _autograd.stem(node.name).lower()


def _value_words(node: TracedNode, given: Given) -> Words:
    """Return why a value is not finite, and the cure: the data, a leaf, or the operation."""
    if any(one.startswith(NUMBER) for one in came_in_with(node)):
        return f"It came in with {' and '.join(came_in_with(node))}.", CURE_OF_NUMBER
    if came_in_with(node):
        return (
            f"It came in with {' and '.join(came_in_with(node))}, which no gradient leads to.",
            "Look at the data: ask torch.isfinite(x).all() of each batch before the model sees it.",
        )
    if node.is_leaf:
        held = f"{node.leaf_name or 'The leaf'} held it before the operations that were traced."
        return held, CURE_OF_LEAF
    if any(one and 0 in (one.shape or ()) for _, one in given):
        return EMPTY
    because, cure = words_for(_operation(node), "value", node.dtype, node.value_turn_kind or "NaN")
    near = "What came right before was not recorded. If it comes up here: "
    return f"{near if node.value_turn_is_near else ''}{because}", cure


def _dtype_of_gradient(node: TracedNode) -> torch.dtype:
    """Return the type of what a node passed on that is not finite."""
    passed = (edge.gradient for edge in node.edges)
    return next((one.dtype for one in passed if one and one.not_finite), node.dtype)


def _given(node: TracedNode, trace: GraphTrace) -> Given:
    """Return what is known of what an operation was given by other nodes, each by its name."""
    given: list[tuple[str, TensorSummary | None]] = []
    for edge in node.edges:
        if edge.target is not None:
            maker = trace.nodes[edge.target]
            name = maker.tensor_names[0] if maker.tensor_names else _made_by(maker, trace)
            values = maker.values
            given.append((name, values[edge.input_nr] if edge.input_nr < len(values) else None))
    return tuple(given)


def _made_by(maker: TracedNode, trace: GraphTrace) -> str:
    """Return which node made a tensor without a name, its module, and the names that it goes to."""
    module = f" of {maker.module}" if maker.module else ""
    names = _names_behind(maker, trace)
    behind = f", made of {first_few(names, MOST_NAMES)}" if names else ""
    return f"by node {maker.index}, {maker.name}{module}{behind}"


MOST_NAMES = 3


def _names_behind(node: TracedNode, trace: GraphTrace) -> list[str]:
    """Return the names of the tensors nearest behind a node, going on where there are none."""
    names: dict[str, None] = {}
    seen = {node.index}
    ahead = [node]
    while ahead and len(names) <= MOST_NAMES:
        targets = {edge.target for edge in ahead.pop(0).edges if edge.target is not None} - seen
        seen |= targets
        for behind in (trace.nodes[target] for target in sorted(targets)):
            if behind.tensor_names:
                names[behind.tensor_names[0]] = None
            else:
                ahead.append(behind)
    return [*names]
