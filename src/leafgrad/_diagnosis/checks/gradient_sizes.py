"""Gradients that vanish or explode on their way through the modules."""

from collections.abc import Iterator, Sequence
from typing import Any

from leafgrad._diagnosis.checks.zero_gradient import NORMALISING, own_operation
from leafgrad._diagnosis.diagnosis import Diagnosis, Severity, as_code, diagnosis, join_messages
from leafgrad._diagnosis.situation import Situation, check
from leafgrad._graph.gradient_norms import ModuleGradient, gradient_norms_of, norm_of
from leafgrad._graph.nodes import TracedNode, place_text
from leafgrad._messages import message

REMEDIES = {
    "activation": {"relu", "gelu", "silu", "leakyrelu", "elu"},
    "residual": {"add"},
    "normalisation": NORMALISING,
}
"""Remedies against vanishing gradients, with the operations that show that a model has one."""

NEXT_TO_NOTHING = 1e-3


@check("vanishing-gradient", "exploding-gradient", runs_backward=True)
def find_extreme_gradients(situation: Situation) -> Iterator[Diagnosis]:
    """Find the module at which gradients start to vanish or explode."""
    trace = situation.backward_trace
    if trace is None:
        return
    norms = gradient_norms_of(trace.nodes)
    if norms.vanishing and norms.vanishing[-1].ratio:
        yield _vanishing(norms.vanishing, norms.modules, trace.nodes)
    if norms.exploding:
        found = norms.exploding
        yield diagnosis("exploding-gradient", Severity.WARNING, **_slots(found, norms.modules))


def _vanishing(
    found: Sequence[ModuleGradient],
    modules: Sequence[ModuleGradient],
    nodes: Sequence[TracedNode],
) -> Diagnosis:
    """Return the finding about vanishing gradients, with the remedies that the model lacks.

    `found` contains the modules in which the gradient vanishes.
    """
    drop = next((node for node in nodes if _drops_in_normalising(node)), None)
    operations = {own_operation(node) for node in nodes}
    missing = [name for name, signs in REMEDIES.items() if signs.isdisjoint(operations)]
    remedies = [message(f"vanishing-gradient.add.{name}") for name in missing]
    variant = "normalised" if drop is not None else "" if missing else "complete"
    return diagnosis(
        "vanishing-gradient",
        # If the model has residual connections, this is only a note. A gradient may vanish inside
        # a block, for example behind a gate initialised near zero, but the residual connection
        # carries it past the block.
        Severity.WARNING if variant == "normalised" or "residual" in missing else Severity.NOTE,
        variant=variant,
        missing=join_messages("vanishing-gradient.add.or", remedies),
        drop="" if drop is None else place_text(drop),
        **_slots(found, modules),
    )


def _slots(found: Sequence[ModuleGradient], modules: Sequence[ModuleGradient]) -> dict[str, Any]:
    """Return the modules and the ratio that the message about gradient sizes names.

    `found` contains the modules in which the gradient vanishes or explodes.
    """
    head = next((one.module for one in modules if one.ratio is not None), "")
    ratio = f"{found[-1].ratio:.1e}"
    first, last, head = map(as_code, (found[0].module, found[-1].module, head))
    return {"first": first, "last": last, "head": head, "ratio": ratio}


def _drops_in_normalising(node: TracedNode) -> bool:
    """Return whether a normalisation passed on almost nothing of the gradient that arrived.

    This happens if the loss is constant in the input of the normalisation. What is passed on is
    then a rounding error divided by the spread of the input. So the limit is a fixed share of the
    gradient that arrived: no multiple of the machine precision bounds such an error.
    """
    if own_operation(node) not in NORMALISING:
        return False
    passed, arrived = norm_of([node.edges[0].gradient]), norm_of(node.gradients)
    return bool(passed and arrived) and (passed or 0.0) < NEXT_TO_NOTHING * (arrived or 0.0)
