"""Propagate a series from the inputs to the outputs of an autograd graph, node by node.

Let a node have computed ``y = F(x_1, x_2, ...)`` from values a_i. The rule of its kind takes the
series of the inputs, h_i ``[K, *shape of x_i]`` or None for zero, and computes

    F(a_1 + h_1, a_2 + h_2, ...) - F(a_1, a_2, ...)    [K, *shape of y]

truncated to the algebra. All rules are linear maps or truncated power series, so one walk computes
all orders. The walk visits the nodes in the order of the forward pass. This is the Taylor mode of
Griewank and Walther, Evaluating Derivatives, 2nd edition, SIAM 2008, chapter 13. A series is freed
after its last use.
"""

from __future__ import annotations

import inspect
from collections.abc import Container, Iterable, Sequence

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.taylor.jet import Jet
from leafgrad._derivative.taylor.rule import Result, Rule, Step
from leafgrad._derivative.taylor.rules import rule_of
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.unsupported import Unsupported
from leafgrad._messages import message


def replay(path: _autograd.Path, seed: Series, *, is_in_backward: bool = False) -> Series | None:
    """Propagate `seed` along a path. Return the series ``[K, *shape of outputs]`` at its end.

    The seed, ``[K, *shape of inputs]``, is the series of the inputs, where the path starts. Return
    None if the result is zero. Raise `Unsupported` if a node on the path has no rule.
    """
    known: dict[object, Series] = {path.start: seed}
    last = {edge: node for node, edges in path.nodes.items() for edge in edges}
    last.pop(path.end, None)
    for node, edges in path.nodes.items():
        inputs = [*map(known.get, edges)]
        if not any(inputs):
            continue
        for place, series in enumerate(inputs):
            if series is None:
                continue
            edge = edges[place]
            if last.get(edge) is node:
                known.pop(edge, None)
            else:  # The series is read again later, so materialise it once.
                inputs[place] = known[edge] = series.computed()
        step = step_at(node, edges, seed.dtype, is_in_backward=is_in_backward)
        rule = rule_of(node, step.name)
        if rule is None:
            raise Unsupported("node", node=_describe(node))
        results = results_of(rule, step, inputs)
        for number, result in enumerate(results):
            if result is not None:
                known[node, number] = result
        if not rule.has_exact_type and len(results) < len(step.results):
            check_results(step, len(results), last, path.end)
    return known.get(path.end)


def check_rules(path: _autograd.Path) -> None:
    """Raise `Unsupported` if a node on the path has no rule."""
    for node in path.nodes:
        if rule_of(node, _autograd.node_name(node)) is None:
            raise Unsupported("node", node=_describe(node))


def step_at(
    node: Node, edges: _autograd.Successors, dtype: torch.dtype, *, is_in_backward: bool = False
) -> Step:
    """Return a new `Step` for a node: what the node saved, in the form that its rule reads.

    `edges` lead to the inputs of the node.
    """
    return Step(
        node=node,
        successors=edges,
        name=_autograd.node_name(node),
        dtype=dtype,
        is_in_backward=is_in_backward,
        seen={},
    )


def check_results(
    step: Step, given: int, read: Container[object], end: _autograd.Edge | None
) -> None:
    """Raise `Unsupported` if the path uses a result that the rule does not compute.

    An example is the saved scale of a normalisation. `given` is the number of computed results. A
    result is used if its edge is in `read` or equals `end`. `end` is None if no result is the end
    of the path.
    """
    edges = [(step.node, number) for number in range(given, len(step.results))]
    if any(edge in read or edge == end for edge in edges):
        reason = Unsupported("reason.results", count=given, all=len(step.results))
        raise Unsupported("step", node=step.name, reason=reason)


def results_of(rule: Rule, step: Step, inputs: Sequence[Series | None]) -> Sequence[Series | None]:
    """Return the series ``[K, *its shape]`` of each result of a node, computed by its rule.

    A series is None if it is zero. Raise `Unsupported` if the rule does not apply.
    """
    try:
        if not rule.is_for_complex:
            _check_real(inputs)
        if rule.has_exact_type:
            return _as_tuple(rule.propagate(step, *inputs))
        made = step.results
        if not rule.is_for_complex:
            _check_real(made)
        if 0 in made[0].shape and all(0 in result.shape for result in made):
            return [None] * len(made)
        given = zip(_as_tuple(rule.propagate(step, *inputs)), made, strict=False)
        return [series and _fit_series(step, series, result) for series, result in given]
    except Unsupported as error:
        raise Unsupported("step", node=step.name, reason=error) from None


def _check_real(parts: Iterable[Series | _autograd.TensorType | None]) -> None:
    """Raise `Unsupported` if one of `parts`, which are series or results of a node, is complex."""
    for part in parts:
        if part is not None and part.dtype.is_complex:
            raise Unsupported("reason.complex")


def _as_tuple(results: Result) -> Sequence[Series | None]:
    """Convert a rule's return value to one series ``[K, *its shape]`` per result."""
    if results is None or isinstance(results, Series):
        return (results,)
    return (results.series,) if isinstance(results, Jet) else results


def _fit_series(step: Step, series: Series, result: _autograd.TensorType) -> Series:
    """Convert a series to the shape of the result, and to at least its precision."""
    shape = tuple(result.shape)
    if series.shape != shape:
        series = series.broadcast(shape)
    if series.dtype == result.dtype:
        return series
    return series.changed(series.stack.to(step.wide(result.dtype)))


def _describe(node: Node) -> str:
    """Return a sentence that says which operation has no rule.

    For a user's custom function, it contains the source line and suggests to register a rule.
    """
    name, function = _autograd.node_name(node), _autograd.forward_class(node)
    if function is None:
        return message("derivative.no-rule", node=name)
    module = function.__module__
    if module.startswith("leafgrad."):
        return message("derivative.rule-of-leafgrad", node=name)
    if module.startswith("torch."):
        return message("derivative.rule-of-torch", node=name, module=module)
    code = getattr(inspect.unwrap(function.forward), "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return message("derivative.register-rule", node=name, where=where)
