"""Why a parameter gets no gradient."""

import ast
from collections.abc import Iterator

from leafgrad import _autograd
from leafgrad._diagnosis.build import diagnosis
from leafgrad._diagnosis.diagnosis import Diagnosis, Edit, Severity, Span
from leafgrad._diagnosis.edits import call_at, replace, text_of
from leafgrad._diagnosis.registry import check
from leafgrad._diagnosis.situation import Situation
from leafgrad._explain.grad_explainer import GradExplainer
from leafgrad._explain.grad_explanation import GradCause
from leafgrad._graph.nodes import Source
from leafgrad._messages import message
from leafgrad._record.cut import Cut


@check("no-grad", "detached")
def find_missing_gradients(situation: Situation) -> Iterator[Diagnosis]:
    """Find parameters that the backward pass does not reach."""
    explainer = GradExplainer(situation.outputs, situation.log, situation.modules)
    alike: dict[tuple[GradCause, Cut], list[str]] = {}
    for name, tensor in situation.parameters.items():
        explained = explainer.explain(tensor, name, is_ahead=True)
        if explained.will_be_filled is False and explained.cuts:
            alike.setdefault((explained.cause, explained.cuts[0]), []).append(name)
            with _autograd.unobserved():
                situation.explained.add(id(tensor))
    for (cause, cut), names in alike.items():
        if cause is GradCause.NO_GRAD:
            switch = cut.switch_source
            label = message("no-grad.switch")
            spans = [] if switch is None else [Span(source=switch, label=label)]
            yield diagnosis(
                "no-grad", Severity.ERROR, subject=names, at=cut.source, secondary=spans
            )
        if cause is GradCause.DETACHED:
            yield diagnosis(
                "detached",
                Severity.ERROR,
                subject=names,
                at=cut.source,
                edits=_without_detach(cut.source),
            )


def _without_detach(source: Source | None) -> tuple[Edit, ...]:
    """Replace ``x.detach()`` by ``x``."""
    call = call_at(source)
    if source is None or call is None or not isinstance(call.func, ast.Attribute):
        return ()
    return replace(source, call, text_of(source, call.func.value))
