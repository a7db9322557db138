"""Find the inputs of a traced graph: the tensors without a gradient that its nodes save."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._arguments.names import buffers_in
from leafgrad._graph.nodes import (
    InputUse,
    SavedTensor,
    Shape,
    TracedInput,
    TracedNode,
    element_count,
)
from leafgrad._messages import message
from leafgrad._record.log import Log
from leafgrad._record.module_paths import Roots
from leafgrad._trace.modules import REARRANGING

TARGET = "target"
"""The argument of a loss that comes from outside, wherever in the graph the loss is."""


class Candidate(NamedTuple):
    """A saved tensor that may be an input of the graph.

    Attributes:
        saved: The saved tensor.
        output_nr: The edge that stands for it, where that is known.
        counts_unnamed: Whether it counts as an input even if it has no name.
    """

    saved: SavedTensor
    output_nr: int | None
    counts_unnamed: bool


class Named(NamedTuple):
    """The name of a tensor, None for a buffer, and its number of elements, if known."""

    name: str | None
    elements: int | Shape | None


Names = Mapping[int | None, Named]
"""The named tensors and the buffers, by the identities of their storages."""


def names_of_memory(
    named: Iterable[tuple[str | None, torch.Tensor]], roots: Roots, log: Log
) -> Names:
    """Return the named tensors that need no gradient, and the buffers, which are no inputs.

    The buffers are those of the modules in `roots`, and of the modules that a recording saw run.
    """
    known = {
        _autograd.storage_identity(tensor): Named(name, _elements(tensor))
        for name, tensor in named
        if name is not None and not _autograd.plain(tensor, "requires_grad")
    }
    for module in (*roots.values(), *(one.module() for one in log.outermost)):
        for buffer in buffers_in(module) if module is not None else ():
            known[_autograd.storage_identity(buffer)] = Named(None, None)
    known.pop(None, None)
    return known


def graph_inputs(
    nodes: Sequence[TracedNode],
    live: Sequence[Node],
    leaves: Iterable[torch.Tensor],
    names: Names,
) -> tuple[TracedInput, ...]:
    """Find the inputs of a graph, in the order of the operations.

    A named tensor and the target of a loss count wherever they were saved. Other tensors count only
    where a model begins: at operations on parameters that depend on no other operation. Further on,
    a saved tensor may be the noise of a dropout. If some leaves are not parameters, they are the
    data, and a saved tensor may be the one that a derivative started from.
    """
    inputs = defaultdict[Hashable, list[TracedInput]](list)
    is_model = all(map(_autograd.is_parameter, leaves))
    is_plain = [False] * len(nodes)  # whether a node is a parameter, possibly rearranged
    for node in reversed(nodes):
        begins = is_model and all(
            edge.target is None or is_plain[edge.target] for edge in node.edges
        )
        is_plain[node.index] = begins and (node.is_leaf or node.name in REARRANGING)
        for candidate in _candidates(node, begins=begins) if node.saved else ():
            if names or candidate.counts_unnamed:
                for key, one in _read(node, live[node.index], candidate, names):
                    inputs[key].append(one)
    return tuple(
        replace(alike[0], uses=tuple(use for one in alike for use in one.uses))
        for alike in inputs.values()
    )


def _candidates(node: TracedNode, *, begins: bool) -> Iterator[Candidate]:
    """Yield the saved tensors that are no parameters and whose edge, if any, leads nowhere."""
    has_free_edge = any(edge.target is None for edge in node.edges)
    edges = 0 if node.custom_function else len(node.edges)
    for saved in node.saved:
        if saved.state != "live" or saved.is_parameter or saved.dtype is None:
            continue
        may_need_gradient = saved.dtype.is_floating_point or saved.dtype.is_complex
        if may_need_gradient and not has_free_edge:
            continue
        arguments = _autograd.tensor_arguments(node.name, edges)
        output_nr = None
        if may_need_gradient and saved.name in arguments.by_edge[:edges]:
            output_nr = arguments.by_edge.index(saved.name)
            if node.edges[output_nr].target is not None:
                continue
        # It is an argument, not a result, and no number such as a constant factor.
        is_sure = output_nr is not None or not may_need_gradient or saved.name == TARGET
        is_argument = bool(edges) and is_sure and saved.name in arguments.known
        is_likely = begins or saved.name == TARGET
        yield Candidate(saved, output_nr, is_argument and is_likely and saved.shape != ())


def _read(
    node: TracedNode, live: Node, candidate: Candidate, names: Names
) -> Iterator[tuple[Hashable, TracedInput]]:
    """Yield the input that a candidate is, if it is one, with a key that tells it from others.

    If the tensor is a view of a whole tensor, that is the input. A part has a key of its own.
    """
    saved = candidate.saved
    slots = {slot.name: slot.tensor for slot in _autograd.saved_slots(live)}
    tensor = slots.get(saved.name)
    if tensor is None or _autograd.plain(tensor, "requires_grad"):
        return
    named = names.get(_autograd.storage_identity(tensor))
    if not (candidate.counts_unnamed if named is None else named.name):
        return
    base, elements = _autograd.base(tensor), _elements(tensor)
    if base is None or _elements(base) != elements:
        base = tensor
    itemsize = _autograd.plain(tensor, "dtype").itemsize
    in_storage = None if saved.nbytes is None else saved.nbytes // itemsize
    is_part = elements != (in_storage if named is None else named.elements)
    name = named and named.name
    one = TracedInput(
        name=message("nodes.part", name=name) if name and is_part else name,
        shape=_autograd.shape(base) or (),
        dtype=_autograd.plain(base, "dtype"),
        device=_autograd.plain(base, "device"),
        uses=(InputUse(node=node.index, argument=saved.name, output_nr=candidate.output_nr),),
    )
    own_key = node.index, saved.name
    yield (own_key if is_part else _autograd.storage_identity(tensor)), one


def _elements(tensor: torch.Tensor) -> int | Shape | None:
    """Return the number of elements of a tensor; its sizes if one of them is not a number."""
    sizes = _autograd.shape(tensor)
    elements = element_count(sizes)
    return sizes if elements is None else elements
