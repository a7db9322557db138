"""Derivatives and samples that the loss uses as constants."""

from collections.abc import Iterator

from torch import Tensor

from leafgrad import _autograd
from leafgrad._diagnosis.checks.gradient.cause import Cause, draw_by_rsample
from leafgrad._diagnosis.diagnosis import Diagnosis, Severity, diagnosis
from leafgrad._diagnosis.edits import call_at, line_text, pass_create_graph
from leafgrad._diagnosis.paths import Paths
from leafgrad._diagnosis.situation import Situation, check
from leafgrad._graph.nodes import Source
from leafgrad._record.log import Log


@check("missing-create-graph")
def find_constant_derivatives(situation: Situation) -> Iterator[Diagnosis]:
    """Find derivatives without a graph in a loss that depends on parameters in another way too."""
    for at, names in _cut_parameters(situation, "grad").items():
        edits = pass_create_graph(at)
        yield diagnosis(
            "missing-create-graph", Severity.WARNING, subject=[*names], at=at, edits=edits
        )


@check("partly-sampled")
def find_samples_beside_another_path(situation: Situation) -> Iterator[Diagnosis]:
    """Find samples that pass on no gradient, if the loss does not use their probability."""
    for at, names in _cut_parameters(situation, "sample").items():
        edits = () if at is None else draw_by_rsample(Cause("partly-sampled"), at, "")
        yield diagnosis("partly-sampled", Severity.WARNING, subject=[*names], at=at, edits=edits)


def _cut_parameters(situation: Situation, operation: str) -> dict[Source | None, dict[str, None]]:
    """Return the parameters that the loss depends on both through a cut and on another path.

    A cut is a call whose result has no graph although an input had one.

    Args:
        situation: The training step.
        operation: The operation that cuts the path: ``"grad"`` or ``"sample"``.

    Returns:
        The names of the parameters, by the line of the cut.
    """
    log, names = situation.log, dict[Source | None, dict[str, None]]()
    paths = Paths(situation.outputs, log) if _is_called(log, operation) else None
    for name, tensor in situation.parameters.items() if paths else ():
        is_trained = _autograd.plain(tensor, "requires_grad")
        is_news = is_trained and id(tensor) not in situation.explained
        for cut in paths.cuts(tensor) if paths and is_news else ():
            is_meant = _has_create_graph(cut.source) or _is_stale(log, tensor, cut.source)
            if cut.operation == operation and not cut.switch_source and not is_meant:
                names.setdefault(cut.source, {})[name] = None
    return names


def _is_called(log: Log, operation: str) -> bool:
    """Return whether a derivative was computed, or a sample drawn whose probability is not used."""
    if operation == "grad":
        return any(call.name == "grad" for call in log.tape.calls)
    sites = [call.site for call in log.tape.calls if call.site is not None]
    is_drawn = any(site.function == "sample" for site in sites)
    lines = (line_text(source.file, source.line) for source in log.sources())
    return is_drawn and not any("log_prob(" in line for line in lines)


def _is_stale(log: Log, tensor: Tensor, at: Source | None) -> bool:
    """Return whether an optimizer step changed a tensor after a line computed its derivative."""
    value, is_stale = log.tape.value_of(tensor), False
    for call in log.tape.calls:
        if log.source_at(call.place) == at:
            is_stale = False
        is_stale |= any(write.value is value for write in call.writes)
    return is_stale


def _has_create_graph(at: Source | None) -> bool:
    """Return whether the call at `at` has the argument ``create_graph``."""
    call = call_at(at)
    return call is not None and any(one.arg == "create_graph" for one in call.keywords)
