"""The walk: a series goes from the inputs to the outputs, node by node."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._taylor._jet import Jet
from leafgrad._taylor._refusal import Refusal
from leafgrad._taylor._rules import rule_of
from leafgrad._taylor._series import Series
from leafgrad._taylor._step import Result, Step


def replay(
    path: Sequence[Node], start: _autograd.Edge | None, series: Series, end: _autograd.Edge | None
) -> Series | None:
    """Take a series along the path, from where gradients arrive at the inputs; None is zero."""
    known: dict[object, Series] = {start: series}
    steps = [Step(node) for node in path]
    last = {edge: step for step in steps for edge in step.successors}
    for step in steps:
        inputs = [known.get(edge) for edge in step.successors]
        if any(series is not None for series in inputs):
            for number, result in enumerate(_results(step, inputs)):
                if result is not None:
                    known[step.node, number] = result
        for edge in step.successors:
            if last[edge] is step and edge != end:
                known.pop(edge, None)
    return known.get(end)


def _results(step: Step, inputs: Sequence[Series | None]) -> Iterable[Series | None]:
    """Apply the rule of the node."""
    rule = rule_of(step.node, step.name)
    if rule is None:
        raise Refusal(f"there is no rule for {_described(step)}")
    try:
        results = _as_tuple(rule(step, *inputs))
    except Refusal as refusal:
        raise Refusal(f"there is no answer for {_described(step)}: {refusal}") from None
    return map(_fitted, results, step.results)


def _as_tuple(results: Result) -> Sequence[Series | None]:
    if isinstance(results, Jet):
        return (results.series,)
    return (results,) if results is None or isinstance(results, Series) else results


def _fitted(series: Series | None, result: _autograd.TensorType) -> Series | None:
    """Give a series the shape and dtype of the operation's result."""
    if series is None:
        return None
    if result.dtype.is_complex or 0 in result.shape:
        raise Refusal("there is no answer for complex numbers, nor for a tensor without elements")
    series = series.broadcast(tuple(result.shape))
    if series.stack.dtype != result.dtype:
        series = series.changed(series.stack.to(result.dtype))
    return series


def _described(step: Step) -> str:
    """Name the node, and where its function is defined, if it is a custom one."""
    function = _autograd.forward_class(step.node)
    code = getattr(inspect.unwrap(function.forward), "__code__", None) if function else None
    name = _autograd.node_name(step.node)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else name
