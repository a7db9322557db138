"""Find the inputs of a traced graph: named tensors without a gradient that its nodes saved."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._arguments.names import buffers_in
from leafgrad._graph.nodes import InputUse, TracedInput, TracedNode
from leafgrad._record.log import Log
from leafgrad._record.module_paths import Roots


def graph_inputs(
    nodes: Sequence[TracedNode],
    live: Sequence[Node],
    named: Iterable[tuple[str | None, torch.Tensor]],
    roots: Roots,
    log: Log,
) -> tuple[TracedInput, ...]:
    """Return the named tensors without a gradient that nodes saved, in the order of the operations.

    Buffers of modules are not inputs.

    Args:
        nodes: The traced nodes.
        live: The live nodes, by index.
        named: Names and tensors.
        roots: The modules that the user named.
        log: What a recording saw. Buffers of the modules that it saw do not count either.
    """
    known = {
        _autograd.storage_identity(tensor): (name, tensor)
        for name, tensor in named
        if name is not None and not _autograd.plain(tensor, "requires_grad")
    }
    known.pop(None, None)
    for module in (*roots.values(), *(one.module() for one in log.outermost)):
        for buffer in buffers_in(module) if module is not None else ():
            known.pop(_autograd.storage_identity(buffer), None)
    uses = defaultdict[int, list[InputUse]](list)
    for node in reversed(nodes) if known else ():
        for argument, memory in _constants(node, live[node.index]):
            if memory in known:
                uses[memory].append(InputUse(node=node.index, argument=argument))
    return tuple(
        TracedInput(
            name=known[memory][0],
            shape=_autograd.shape(known[memory][1]) or (),
            dtype=_autograd.plain(known[memory][1], "dtype"),
            device=_autograd.plain(known[memory][1], "device"),
            uses=tuple(found),
        )
        for memory, found in uses.items()
    )


def _constants(node: TracedNode, live: Node) -> Iterator[tuple[str, int]]:
    """Yield the name and storage of each tensor that the node saved and that needs no gradient.

    `live` is the autograd node that `node` describes.
    """
    # Each floating-point input has an edge; the edge of one without a gradient has no target.
    has_free_edge = any(edge.target is None for edge in node.edges)
    saved = {
        one.name
        for one in node.saved
        if one.state == "live" and not one.is_parameter and one.dtype is not None
        if has_free_edge or not one.dtype.is_floating_point
    }
    for slot in _autograd.saved_slots(live) if saved else ():
        if slot.name in saved and slot.tensor is not None:
            memory = _autograd.storage_identity(slot.tensor)
            if memory is not None and not _autograd.plain(slot.tensor, "requires_grad"):
                yield slot.name, memory
