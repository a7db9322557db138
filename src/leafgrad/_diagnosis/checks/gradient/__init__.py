"""Parameters that get no gradient: the checks, and how serious each cause is."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from posixpath import commonpath

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from leafgrad import _autograd
from leafgrad._diagnosis.checks.gradient.cause import (
    Cause,
    cause_of_cut,
    edits_for,
    find_switch,
    first_name,
    loop_variables,
)
from leafgrad._diagnosis.checks.gradient.cause_finder import CauseFinder
from leafgrad._diagnosis.checks.gradient.unregistered import find_unregistered_leaves
from leafgrad._diagnosis.diagnosis import (
    NUMBER,
    Diagnosis,
    Severity,
    Span,
    as_code,
    diagnosis,
    list_names,
)
from leafgrad._diagnosis.situation import Situation, check
from leafgrad._graph.nodes import Source
from leafgrad._messages import message

CODES = (
    "no-graph",
    "collective",
    "no-grad",
    "detached",
    "converted",
    "copied",
    "create-graph",
    "no-derivative",
    "zero-derivative",
    "custom-backward",
    "requires-grad-late",
    "other-tensor",
    "frozen",
    "unregistered",
    "not-a-leaf",
    "not-retained",
    "linear",
    "unused",
    "not-reached",
)


@check(*CODES)
def find_missing_gradients(situation: Situation) -> Iterator[Diagnosis]:
    """Find parameters that get no gradient, and leaves that no module registers."""
    finder = CauseFinder(situation)
    wanted = {
        name: one
        for name, one in situation.parameters.items()
        if _is_wanted(situation, name) and id(one) not in situation.explained
    }
    missing = {name: finder.cause(tensor) for name, tensor in wanted.items()}
    if any(map(_autograd.refuses, situation.live)):  # The graph ends at a node that refuses to run.
        missing = {name: one for name, one in missing.items() if one and one.code != "unused"}
    causes = [one for one in missing.values() if one is not None]
    if finder.paths.is_lost and (causes or not wanted):
        situation.explained.update(map(id, wanted.values()))
        yield _lost_graph(situation, finder, wanted, causes)
        return
    reached = {NUMBER.sub("*", name) for name, cause in missing.items() if cause is None}
    groups: dict[tuple[Cause, Severity], tuple[Cause, list[str]]] = {}
    for name, cause in missing.items():
        severity = None if cause is None else _severity(situation, name, cause, reached)
        if cause is not None and severity is not None:
            alike = cause._replace(marks=()) if cause.code == "unused" else cause
            groups.setdefault((alike, severity), (cause, []))[1].append(name)
            situation.explained.add(id(wanted[name]))
    for (_, severity), (cause, names) in groups.items():
        yield _finding(situation, cause, names, severity)
    yield from find_unregistered_leaves(situation, finder.paths)


def _is_wanted(situation: Situation, name: str) -> bool:
    """Return whether a parameter should get a gradient: it is expected or optimized."""
    if situation.expected is not None:
        return situation.expects(name)
    optimized = situation.optimized
    tensor = situation.parameters[name]
    return not optimized or id(tensor) in optimized or not _autograd.is_parameter(tensor)


def _severity(situation: Situation, name: str, cause: Cause, reached: set[str]) -> Severity | None:
    """Return how serious a missing gradient is; None if it is normal.

    `reached` has the names of the parameters that get one, with stars instead of numbers.
    """
    if situation.expects(name):
        return Severity.ERROR
    if cause.code == "frozen":
        is_parameter = cause.variant == "" and "lora" not in name
        is_held = id(situation.parameters[name]) in situation.optimized
        return Severity.NOTE if is_held or not is_parameter else None
    is_skipped = cause.code in {"unused", "not-reached"} and NUMBER.sub("*", name) in reached
    is_partly_linear = cause.code == "linear" and bool(reached)
    if is_skipped or is_partly_linear or (cause.code, cause.variant) in NOTES:
        return Severity.NOTE
    return Severity.WARNING if (cause.code, cause.variant) in WARNINGS else Severity.ERROR


NOTES = {("detached", "straight-through"), ("not-retained", "")}
WARNINGS = {
    ("unused", ""),
    ("not-reached", ""),
    ("unused", "output"),
    ("zero-derivative", "output"),
    ("linear", ""),
    ("other-tensor", "memory"),
    ("not-a-leaf", ""),
}


def _lost_graph(
    situation: Situation, finder: CauseFinder, wanted: dict[str, Tensor], causes: Sequence[Cause]
) -> Diagnosis:
    """Return the finding about outputs without a graph, with the place where they lost it.

    `wanted` contains the parameters that should get a gradient, by name.
    """
    names = [name for name, one in wanted.items() if _autograd.plain(one, "requires_grad")]
    tensors = [end for end in situation.outputs if isinstance(end, Tensor)]
    cuts = [cut for end in tensors for cut in finder.paths.cuts_before(end)]
    lost = [one for one in [*map(cause_of_cut, cuts), *causes] if one.code in CUTTING]
    state = "" if torch.is_grad_enabled() else "off"
    state = state or ("leaf" if finder.reached else "")
    cause = lost[0] if lost else Cause("no-graph", state)
    if wanted and not names:
        cause = Cause("no-graph", "frozen")
    found = _finding(situation, cause, names or [*wanted], Severity.ERROR)
    headline = message(f"no-graph{'.leaf' if finder.reached else ''}.headline")
    return replace(found, code="no-graph", headline=headline)


CUTTING = {*CODES[CODES.index("collective") : CODES.index("custom-backward")]}


def _finding(
    situation: Situation, cause: Cause, names: Sequence[str], severity: Severity
) -> Diagnosis:
    """Return the finding about parameters that get no gradient for the same cause.

    `names` are the names of these parameters.
    """
    marks, original = [], first_name(cause.at)
    if cause.code == "frozen" and not _is_about(situation, cause.at, names[0] if names else ""):
        cause = cause._replace(at=None)
    for label, source in cause.marks:
        is_switch = label == "no-grad.switch"
        is_decorator, place = find_switch(cause.at, source) if is_switch else (False, source)
        marks.append(Span(source=place, label=message(label)))
        cause = cause._replace(variant="decorator" if is_decorator else cause.variant)
    return diagnosis(
        cause.code,
        severity,
        subject=names,
        at=cause.at,
        variant=cause.variant,
        secondary=marks,
        notes=[*_notes(situation, cause)],
        edits=edits_for(cause, names[0] if names else ""),
        names=list_names(names, [*situation.parameters]),
        operation=cause.operation,
        call=_as_call(situation, names),
        original=f"`{original}`" if original else message("other-tensor.original"),
    )


def _is_about(situation: Situation, at: Source | None, name: str) -> bool:
    """Return whether a line that freezes parameters may freeze this one, judging by its name.

    `at` is the line, and `name` the name of the parameter.
    """
    roots = {name.partition(".")[0] for name in situation.modules}
    return "" in roots or first_name(at) in {name.partition(".")[0], *loop_variables(at)}


def _notes(situation: Situation, cause: Cause) -> Iterator[str]:
    """Yield notes on how to find what froze a parameter, and on DistributedDataParallel."""
    if cause.code == "frozen" and not cause.variant and cause.at is None:
        yield message("frozen.search")
    if cause.code == "unused" and any(
        isinstance(one, DistributedDataParallel) for one in situation.modules.values()
    ):
        yield message("unused.distributed")


def _as_call(situation: Situation, names: Sequence[str]) -> str:
    """Return the path of the innermost module that contains all names, such as `model.encoder`."""
    shared = commonpath([name.replace(".", "/") for name in names or [""]])
    path = as_code(shared.replace("/", "."))
    is_root = "" in situation.modules and not path.startswith("model[")
    return f"model.{path}".removesuffix(".") if is_root else path
