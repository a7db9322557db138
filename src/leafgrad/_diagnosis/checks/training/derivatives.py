"""Derivatives that the loss uses as constants."""

import ast
from collections.abc import Iterator

from torch import Tensor

from leafgrad import _autograd
from leafgrad._diagnosis.build import diagnosis
from leafgrad._diagnosis.diagnosis import Diagnosis, Edit, Severity
from leafgrad._diagnosis.edits import add_argument, call_at, replace
from leafgrad._diagnosis.paths import Paths
from leafgrad._diagnosis.registry import check
from leafgrad._diagnosis.situation import Situation
from leafgrad._graph.nodes import Source
from leafgrad._record.log import Log


@check("missing-create-graph")
def find_constant_derivatives(situation: Situation) -> Iterator[Diagnosis]:
    """Find derivatives without a graph beside which another path leads to what is trained."""
    with _autograd.unobserved():
        if not any(call.name == "grad" for call in situation.log.tape.calls):
            return
        paths = Paths(situation.outputs, situation.log)
        names: dict[Source | None, list[str]] = {}
        for name, tensor in situation.parameters.items():
            is_trained = _autograd.plain(tensor, "requires_grad")
            is_news = is_trained and id(tensor) not in situation.explained
            for cut in paths.cuts(tensor) if is_news else ():
                if cut.operation == "grad" and not (
                    _says_so(cut.source) or _is_stale(situation.log, tensor, cut.source)
                ):
                    names.setdefault(cut.source, []).append(name)
        for at, subject in names.items():
            edits = _with_graph(at)
            yield diagnosis(
                "missing-create-graph", Severity.WARNING, subject=subject, at=at, edits=edits
            )


def _is_stale(log: Log, tensor: Tensor, at: Source | None) -> bool:
    """Return whether a tensor was written to after its derivative at a line, as by a step."""
    value, is_stale = log.tape.value_of(tensor), False
    for call in log.tape.calls:
        if call.name == "grad" and log.source_at(call.place) == at:
            is_stale = False
        is_stale |= any(write.value is value for write in call.writes)
    return is_stale


def _says_so(at: Source | None) -> bool:
    """Return whether a call has the argument ``create_graph``."""
    call = call_at(at)
    return call is not None and any(one.arg == "create_graph" for one in call.keywords)


def _with_graph(at: Source | None) -> tuple[Edit, ...]:
    """Pass ``create_graph=True`` in place of ``retain_graph=True``, which it includes."""
    call = call_at(at)
    if at is None or call is None:
        return ()
    retaining = [one for one in call.keywords if one.arg == "retain_graph"]
    if retaining and isinstance(retaining[0].value, ast.Constant):
        return replace(at, retaining[0], "create_graph=True")
    return add_argument(at, call, "create_graph=True")
