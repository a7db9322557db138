"""What `backward()` refuses to compute."""

import ast
import inspect
from collections.abc import Iterator
from typing import Any

from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._diagnosis.build import diagnosis
from leafgrad._diagnosis.checks.backward.nodes import number_of, source_of
from leafgrad._diagnosis.custom_backward import parse_backward
from leafgrad._diagnosis.diagnosis import Diagnosis, Edit, Severity
from leafgrad._diagnosis.edits import marked, parse, replace, text_of
from leafgrad._diagnosis.registry import check
from leafgrad._diagnosis.situation import Situation
from leafgrad._graph.nodes import Source


@check("once-differentiable", "no-formula")
def find_refusals(situation: Situation) -> Iterator[Diagnosis]:
    """Find operations whose derivative does not exist or was never written."""
    with _autograd.unobserved():
        refusing = [node for node in situation.live if _autograd.refuses(node)]
        alike = {(source_of(situation, node), _variant(node)): node for node in reversed(refusing)}
        situation.failing.update(map(number_of, refusing))
        for (own, variant), node in reversed(alike.items()):
            at = own or _line_of_derivative(situation)
            is_derived = situation.log.flow.order_at(number_of(node)) > 0
            is_second = variant in {"marked", "compiled"} or is_derived or at is not own
            yield diagnosis(
                "once-differentiable" if is_second else "no-formula",
                Severity.ERROR,
                at=at,
                variant=variant,
                operation=_autograd.node_name(node),
            )


def _variant(node: Node) -> str:
    name = _autograd.node_name(node)
    if name.startswith("GeneratedBackwardFor_"):
        return "operator"
    if name.startswith("CompiledFunction"):
        return "compiled"
    if _autograd.is_refusal(node):
        return "marked"
    return "function" if _autograd.forward_class(node) is not None else ""


def _line_of_derivative(situation: Situation) -> Source | None:
    """Return the line of the last backward pass that recorded a graph of its own."""
    passes = [one for one in situation.log.backwards.values() if not one.frees]
    is_recorded = bool(situation.log.flow.orders and passes)
    return situation.log.source_at(passes[-1].place) if is_recorded else None


@check("custom-backward-count")
def find_miscounted(situation: Situation) -> Iterator[Diagnosis]:
    """Find custom functions whose `backward` returns too few gradients."""
    with _autograd.unobserved():
        functions = {_autograd.forward_class(node): node for node in situation.live}
        for function, node in functions.items():
            if function is None or _autograd.is_compiled(node) or _autograd.refuses(node):
                continue
            wanted = len(getattr(node, "needs_input_grad", ()))
            counted = parse_backward(function).counted
            if counted is not None and counted < wanted:
                situation.failing.add(number_of(node))
                at, edits, variant = _line_of_backward(function, wanted - counted)
                yield diagnosis(
                    "custom-backward-count",
                    Severity.ERROR,
                    at=at,
                    variant=variant,
                    edits=edits,
                    function=getattr(function, "__name__", ""),
                    returned=counted,
                    wanted=wanted,
                )


def _line_of_backward(function: Any, missing: int) -> tuple[Source | None, tuple[Edit, ...], str]:
    """Return what a backward returns, the edit that adds a None for each missing, and a variant.

    Without a `return` it is the first line of the method.
    """
    code = getattr(inspect.unwrap(function.backward), "__code__", None)
    if code is None:
        return None, (), ""
    lines = range(code.co_firstlineno, max(n or 0 for _, _, n in code.co_lines()) + 1)
    values = [
        node.value
        for node in ast.walk(parse(code.co_filename))
        if isinstance(node, ast.Return) and node.lineno in lines and node.value is not None
    ]
    source = Source(file=code.co_filename, line=lines[0], function=code.co_qualname)
    if len(values) != 1:
        return source, (), "" if values else "nothing"
    at = marked(source, values[0])
    text = text_of(at, values[0]) + ", None" * missing
    return at, () if isinstance(values[0], ast.Tuple) else replace(at, values[0], text), ""
