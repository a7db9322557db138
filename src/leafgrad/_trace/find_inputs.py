"""The inputs of a traced graph: the tensors without a gradient that its nodes show."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._arguments.names import buffers_in
from leafgrad._graph.nodes import SavedTensor, Shape, TracedNode
from leafgrad._graph.traced_inputs import InputUse, TracedInput
from leafgrad._record.log import Log
from leafgrad._record.module_paths import Roots

TARGET = "target"
"""What losses call a tensor to compare with, which comes from outside wherever they stand."""


class Candidate(NamedTuple):
    """What a node keeps, and what needs no gradient for all that its edges tell.

    Attributes:
        saved: The facts.
        output_nr: The edge that stands for it, where that is known.
        is_given: Whether it is clear that the operation was given it, and did not make it.
    """

    saved: SavedTensor
    output_nr: int | None
    is_given: bool


class Named(NamedTuple):
    """What a tensor is called, None for a buffer, and how many numbers it has, if that is known."""

    name: str | None
    numbers: int | Shape | None


Names = Mapping[int | None, Named]
"""What is known by name, and the buffers, by the identities of their storages."""


def names_of_memory(
    named: Iterable[tuple[str | None, torch.Tensor]], buffers: Iterable[torch.Tensor]
) -> Names:
    """Return what has a name and needs no gradient, and the buffers, of which none is an input."""
    known = {
        _autograd.storage_identity(tensor): Named(name, _numbers(tensor))
        for name, tensor in named
        if name is not None and not _autograd.plain(tensor, "requires_grad")
    }
    known |= {_autograd.storage_identity(buffer): Named(None, None) for buffer in buffers}
    known.pop(None, None)
    return known


def buffers_of(roots: Roots, log: Log) -> Iterator[torch.Tensor]:
    """Yield the buffers of modules that are named, and of those that a recording saw run."""
    ran = (one.module() for one in log.outermost)
    for module in (*roots.values(), *ran):
        if module is not None:
            yield from buffers_in(module)


REARRANGING = {
    "ExpandBackward0",
    "PermuteBackward0",
    "SelectBackward0",
    "SliceBackward0",
    "SplitBackward0",
    "SqueezeBackward1",
    "TBackward0",
    "ToCopyBackward0",
    "TransposeBackward0",
    "UnsqueezeBackward0",
    "ViewBackward0",
}
"""What may stand between a parameter and the first operation, and takes nothing else."""


def graph_inputs(
    nodes: Sequence[TracedNode],
    live: Sequence[Node],
    leaves: Iterable[torch.Tensor],
    names: Names,
) -> tuple[TracedInput, ...]:
    """Find what came into a graph from outside, in the order of the operations.

    What has a name is found wherever it was saved, and so is the target of a loss. Other tensors
    are taken for inputs where a model begins: at operations that were given parameters and nothing
    that was computed from these. Further on, one may as well be the noise of a dropout, and where
    other leaves are the data, the ones that a derivative began with.
    """
    found = defaultdict[Hashable, list[TracedInput]](list)
    is_model = all(map(_autograd.is_parameter, leaves))
    is_plain = [False] * len(nodes)
    for node in reversed(nodes):
        begins = is_model and all(
            edge.target is None or is_plain[edge.target] for edge in node.edges
        )
        is_plain[node.index] = begins and (node.is_leaf or node.name in REARRANGING)
        candidates = _candidates(node) if node.saved else ()
        likely = [
            candidate
            for candidate in candidates
            if names or _comes_from_outside(candidate, begins=begins)
        ]
        if likely:
            for key, one in _inputs(node, live[node.index], likely, names, begins=begins):
                found[key].append(one)
    return tuple(
        replace(uses[0], uses=tuple(use for one in uses for use in one.uses))
        for uses in found.values()
    )


def _candidates(node: TracedNode) -> Iterator[Candidate]:
    """Yield what a node keeps that is no parameter, and whose edge, if any, leads nowhere."""
    has_free_edge = any(edge.target is None for edge in node.edges)
    for saved in node.saved:
        if saved.state != "live" or saved.is_parameter or saved.dtype is None:
            continue
        may_need_gradient = saved.dtype.is_floating_point or saved.dtype.is_complex
        if may_need_gradient and not has_free_edge:
            continue
        edges = 0 if node.custom_function else len(node.edges)
        arguments = _autograd.tensor_arguments(node.name, edges)
        output_nr = None
        if may_need_gradient and saved.name in arguments.by_edge[:edges]:
            output_nr = arguments.by_edge.index(saved.name)
            if node.edges[output_nr].target is not None:
                continue
        is_sure = output_nr is not None or not may_need_gradient or saved.name == TARGET
        yield Candidate(saved, output_nr, bool(edges) and is_sure and saved.name in arguments.known)


def _comes_from_outside(candidate: Candidate, *, begins: bool) -> bool:
    """Return whether a tensor without a name is taken for an input; one number is a constant."""
    is_tensor = candidate.is_given and candidate.saved.shape != ()
    return is_tensor and (begins or candidate.saved.name == TARGET)


def _inputs(
    node: TracedNode, live: Node, candidates: Sequence[Candidate], names: Names, *, begins: bool
) -> Iterator[tuple[Hashable, TracedInput]]:
    """Yield the inputs among what a node keeps, each with what tells it from others."""
    tensors = {slot.name: slot.tensor for slot in _autograd.saved_slots(live)}
    for candidate in candidates:
        tensor = tensors.get(candidate.saved.name)
        if tensor is None or _autograd.plain(tensor, "requires_grad"):
            continue
        named = names.get(_autograd.storage_identity(tensor))
        is_one = (
            _comes_from_outside(candidate, begins=begins) if named is None else bool(named.name)
        )
        if is_one:
            yield _read(node, candidate, tensor, named)


def _read(
    node: TracedNode, candidate: Candidate, tensor: torch.Tensor, named: Named | None
) -> tuple[Hashable, TracedInput]:
    """Read a tensor, or the one that it is a whole view of; a part of one stands for itself."""
    base, numbers = _autograd.base(tensor), _numbers(tensor)
    if base is None or _numbers(base) != numbers:
        base = tensor
    whole = _numbers_in_memory(candidate.saved) if named is None else named.numbers
    is_part = numbers != whole
    name = named and named.name
    one = TracedInput(
        name=f"part of {name}" if name and is_part else name,
        shape=_autograd.shape(base) or (),
        dtype=_autograd.plain(base, "dtype"),
        device=_autograd.plain(base, "device"),
        uses=(
            InputUse(node=node.index, argument=candidate.saved.name, output_nr=candidate.output_nr),
        ),
    )
    own = node.index, candidate.saved.name
    return (own if is_part else _autograd.storage_identity(tensor)), one


def _numbers(tensor: torch.Tensor) -> int | Shape | None:
    """Return how many numbers are in a tensor; its sizes where one of them is no number."""
    sizes = _autograd.shape(tensor)
    if sizes is None or not all(isinstance(size, int) for size in sizes):
        return sizes
    return prod(map(int, sizes))


def _numbers_in_memory(saved: SavedTensor) -> int | None:
    """Return how many numbers fit into the storage of a tensor that has one."""
    if saved.nbytes is None or saved.dtype is None:
        return None
    return saved.nbytes // saved.dtype.itemsize
