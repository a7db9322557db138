"""Backward passes that PyTorch refuses to run.

An operation has no derivative, a custom function returns too few gradients, or a reentrant
checkpoint marks parameters of `DistributedDataParallel` as ready twice.
"""

import ast
from collections import Counter
from collections.abc import Iterator

from torch.autograd.graph import Node
from torch.nn.parallel import DistributedDataParallel

from leafgrad import _autograd
from leafgrad._diagnosis.diagnosis import Diagnosis, Edit, Severity, diagnosis
from leafgrad._diagnosis.edits import node_at, parse, replace, returned_by, text_of
from leafgrad._diagnosis.gradient_flow import parse_backward, wanted_gradients
from leafgrad._diagnosis.situation import Situation, check, number_of
from leafgrad._graph.nodes import Source


@check("once-differentiable", "no-formula")
def find_refusals(situation: Situation) -> Iterator[Diagnosis]:
    """Find operations without a derivative, or without a second one."""
    refusing = [node for node in situation.live if _autograd.refuses(node)]
    alike = {(situation.source_of(node), _variant(node)): node for node in reversed(refusing)}
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
    """Return the variant of the messages that fits a node that refuses to run backward.

    A variant is a cause of the finding that has its own message texts.
    """
    name = _autograd.node_name(node)
    if name.startswith("GeneratedBackwardFor_"):
        return "operator"
    if name.startswith("CompiledFunction"):
        return "compiled"
    if _autograd.is_refusal(node):
        return "marked"
    return "function" if _autograd.forward_class(node) is not None else ""


def _line_of_derivative(situation: Situation) -> Source | None:
    """Return the line of the last backward pass with ``create_graph=True``; None if none ran."""
    passes = [one for one in situation.log.backwards.values() if not one.frees]
    is_recorded = bool(situation.log.flow.orders and passes)
    return situation.log.source_at(passes[-1].place) if is_recorded else None


@check("custom-backward-count")
def find_miscounted(situation: Situation) -> Iterator[Diagnosis]:
    """Find custom functions whose `backward` returns too few gradients."""
    functions = {_autograd.forward_class(node): node for node in situation.live}
    for function, node in functions.items():
        if function is None or _autograd.is_compiled(node) or _autograd.refuses(node):
            continue
        code = parse_backward(function)
        if code.lacks_gradients(node):
            situation.failing.add(number_of(node))
            wanted, counted = wanted_gradients(node), code.counted or 0
            at, edits, variant = _line_of_backward(code.source, wanted - counted)
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


def _line_of_backward(
    definition: Source | None, missing: int
) -> tuple[Source | None, tuple[Edit, ...], str]:
    """Return the expression that a custom backward returns, an edit of it, and a variant.

    The edit adds the missing Nones. The variant is the name of the cause, which selects the message
    texts. If the method does not have exactly one `return`, its definition is returned instead of
    the expression.
    """
    returned = returned_by(definition)
    if len(returned) != 1:
        return definition, (), "" if returned else "nothing"
    at = returned[0]
    value = node_at(at, ast.expr)
    if value is None or isinstance(value, ast.Tuple):
        return at, (), ""
    return at, replace(at, value, text_of(at, value) + ", None" * missing), ""


@check("ready-twice")
def find_parameters_ready_twice(situation: Situation) -> Iterator[Diagnosis]:
    """Find reentrant checkpoints that `DistributedDataParallel` refuses.

    Their backward passes mark a parameter as ready more than once.
    """
    models = [one for one in situation.modules.values() if isinstance(one, DistributedDataParallel)]
    is_strict = any(one.find_unused_parameters for one in models)
    if not models or all(one.static_graph for one in models):
        return
    names = {id(tensor): name for name, tensor in situation.named.items()}
    uses: Counter[str] = Counter()
    blocks = [node for node in situation.live if _autograd.is_reentrant_checkpoint(node)]
    for node in blocks:
        modules = _autograd.modules_of_reentrant_checkpoint(node)
        inside = {id(one): one for module in modules for one in module.parameters()}
        uses.update(names[one] for one in inside if one in names)
    twice = [name for name, number in uses.items() if is_strict or number > 1]
    if twice:
        situation.failing.update(map(number_of, blocks))
        at = situation.source_of(blocks[-1])
        yield diagnosis(
            "ready-twice",
            Severity.ERROR,
            subject=twice,
            at=at,
            variant="unused" if is_strict else "",
            edits=without_reentrance(at),
        )


def without_reentrance(at: Source | None) -> tuple[Edit, ...]:
    """Return the edits that replace each ``use_reentrant=True`` in the file of `at`."""
    if at is None:
        return ()
    found = [
        node
        for node in ast.walk(parse(at.file))
        if isinstance(node, ast.keyword) and ast.unparse(node) == "use_reentrant=True"
    ]
    return tuple(edit for one in found for edit in replace(at, one, "use_reentrant=False"))
