"""The results of a forward pass that raised an error, from the frames of its traceback."""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.nn import Module

from leafgrad import _autograd
from leafgrad._arguments.outputs import gradient_edges, unwrap_functorch
from leafgrad._graph.code_files import is_installed
from leafgrad._graph.nodes import ForwardFailure, Source
from leafgrad._messages import message
from leafgrad._record.module_paths import Roots, join
from leafgrad._record.place import is_library_file
from leafgrad._record.torch_functions import tensors_in

PassedFrame = tuple[FrameType, int]
"""A function that an error came through, and the line where it did."""


def failed_forward(
    error: BaseException, modules: Roots
) -> tuple[list[torch.Tensor], ForwardFailure]:
    """Return the last results before an error, and where it happened.

    They are read from functions that are over: to ask one that still runs for its variables would
    keep these. Where a module ran, what stands around the outermost one is left out.
    """
    passed = [*_passed_frames(error)]
    running = _running_frames()
    over = [frame for frame, _ in passed if id(frame) not in running]
    owners = [(index, module) for index, frame in enumerate(over) if (module := _module_of(frame))]
    first = owners[0][0] if owners else 0
    results = _last_results([tensor for frame in over[first:] for tensor in _tensors_in(frame)])
    if not results:
        raise ValueError(message("errors.trace.failed", type=type(error).__name__))
    return results, _describe_failure(error, passed, [module for _, module in owners], modules)


def _passed_frames(error: BaseException) -> Iterator[PassedFrame]:
    """Yield the frames of an error, outermost first, then those of its causes."""
    seen: set[int] = set()
    behind: BaseException | None = error
    while behind is not None and id(behind) not in seen:
        seen.add(id(behind))
        step: TracebackType | None = behind.__traceback__
        while step is not None:
            yield step.tb_frame, step.tb_lineno
            step = step.tb_next
        context = None if behind.__suppress_context__ else behind.__context__
        behind = behind.__cause__ or context


def _running_frames() -> set[int]:
    """Return the identities of the frames that are still running."""
    found: set[int] = set()
    frame = inspect.currentframe()
    while frame is not None:
        found.add(id(frame))
        frame = frame.f_back
    return found


def _module_of(frame: FrameType) -> Module | None:
    """Return the module whose method a frame runs, if any."""
    code = frame.f_code
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    return first if isinstance(first, Module) else None


def _tensors_in(frame: FrameType) -> Iterator[torch.Tensor]:
    """Yield the tensors with a graph among the local variables of a frame.

    Those of a script or a cell are all that it ever made, and at hand.
    """
    if frame.f_locals is frame.f_globals:
        return
    values: list[Any] = [*frame.f_locals.values()]
    values += [inner for value in values if type(value) is dict for inner in value.values()]
    for tensor in map(unwrap_functorch, tensors_in(values)):
        if not _autograd.is_invalid_view(tensor) and _autograd.plain(tensor, "grad_fn") is not None:
            yield tensor


def _last_results(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors that no other one depends on, one for each node."""
    made_by = {node: tensor for tensor in tensors for node, _ in gradient_edges([tensor])}
    graph = _autograd.walk(made_by)
    earlier = {successor for successors in graph.values() for successor, _ in successors}
    return [tensor for node, tensor in made_by.items() if node not in earlier]


def _describe_failure(
    error: BaseException,
    passed: Sequence[PassedFrame],
    owners: Sequence[Module],
    modules: Roots,
) -> ForwardFailure:
    sources = [
        Source(file=frame.f_code.co_filename, line=line, function=frame.f_code.co_qualname)
        for frame, line in passed
        if not is_library_file[frame.f_code.co_filename]
    ]
    own = [source for source in sources if not is_installed(source.file)]
    source = own[-1] if own else sources[-1] if sources else None
    if source is not None and source is not sources[-1]:
        source = replace(source, library=str(sources[-1]))
    reason = str(error).strip().partition("\n")[0]
    kind = type(error).__name__
    return ForwardFailure(
        error=f"{kind}: {reason}" if reason else kind,
        module=_find_path(owners[-1], [modules, {"": owners[0]}]) if owners else None,
        class_name=type(owners[-1]).__name__ if owners else None,
        source=source,
    )


def _find_path(module: Module, named: Sequence[Roots]) -> str:
    """Return the first path of a module among the named ones, else its class."""
    for roots in named:
        for name, root in roots.items():
            for path, inner in root.named_modules():
                if inner is module:
                    return join(name, path)
    return type(module).__name__
