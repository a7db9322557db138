"""Letting compiled code run backward and leaving what it saved as it is.

Inductor lets a backward write over what was saved for it, and refuses to keep the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch.autograd.graph import Node

from leafgrad._autograd.elements import lacking_memory
from leafgrad._autograd.formula import is_compiled
from leafgrad._autograd.saved import saved_slots
from leafgrad._autograd.tensor import storage_identity, unobserved


@contextmanager
def donated_buffers_kept(nodes: Iterable[Node]) -> Iterator[None]:
    """Let compiled code run backward, and then write back what it had saved, behind the versions.

    A gradient that it hands on may lie in that memory, so it is to be read before the end.
    """
    compiled = [node for node in nodes if is_compiled(node)]
    if not compiled:
        yield
        return
    with unobserved():
        storages = _storages(compiled)
        before = [(storage, storage.clone()) for storage in storages]
    try:
        with torch._functorch.config.patch(donated_buffer=False):
            yield
    finally:
        with unobserved():
            for storage, numbers in before:
                storage.copy_(numbers)


def _storages(nodes: Iterable[Node]) -> list[torch.UntypedStorage]:
    """Return the memory of what nodes saved, each once."""
    slots = (slot for node in nodes for slot in saved_slots(node))
    kept = [slot.tensor for slot in slots if slot.state == "live" and slot.tensor is not None]
    found = {storage_identity(tensor): tensor for tensor in kept}
    found.pop(None, None)
    return [tensor.untyped_storage() for tensor in found.values() if not lacking_memory(tensor)]
