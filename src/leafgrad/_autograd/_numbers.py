"""The numbers in a tensor, and where in the graph they belong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.autograd.graph import Node

from leafgrad._autograd._forward import kept
from leafgrad._autograd._node import forward_class, next_functions
from leafgrad._autograd._saved import Slot, saved_slots
from leafgrad._autograd._sequence import sequence_nr
from leafgrad._autograd._tensor import is_invalid_view, plain, unobserved
from leafgrad._autograd._walk import keep_successors
from leafgrad._autograd._wrapper import functorch_wrapper


def holds_numbers(tensor: torch.Tensor) -> bool:
    """Say whether PyTorch's own operations read the tensor's elements, and no subclass's."""
    if plain(tensor, "layout") is not torch.strided or functorch_wrapper(tensor):
        return False
    if any(plain(tensor, kind) for kind in ("is_meta", "is_nested", "is_quantized")):
        return False
    return not torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python)


@contextmanager
def unseen() -> Iterator[None]:
    """Compute what nobody is to know of: no graph, no mode and no subclass sees it."""
    with torch.no_grad(), unobserved(), torch._C._DisableTorchDispatch():
        yield


def numbered_output(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Tell which output of the node with which number the tensor is, None for one that is none.

    Looking at a node leaves a trace in it: see `keep_successors`.
    """
    node = None if is_invalid_view(tensor) else plain(tensor, "grad_fn")
    if node is None:
        return None
    keep_successors(node, next_functions(node))
    number = sequence_nr(node)
    return None if number is None else (number, plain(tensor, "output_nr"))


def results_in_slots(node: Node) -> Iterator[tuple[Node, int, torch.Tensor]]:
    """Find results of operations among what a node saved: which output of which node each is.

    Only what is as it was when it was saved, and read without a hook.
    """
    for slot in saved_slots(node):
        if slot.tensor is None or slot.state != "live" or slot.saved_version is None:
            continue
        if slot.saved_version != slot.current_version:
            continue
        tensor = _with_graph(node, slot, slot.tensor)
        maker = plain(tensor, "grad_fn")
        if maker is not None:
            yield maker, plain(tensor, "output_nr"), tensor


def _with_graph(node: Node, slot: Slot, tensor: torch.Tensor) -> torch.Tensor:
    """Give a saved tensor with its graph, which a slot does not show of the node's own result."""
    if plain(tensor, "grad_fn") is not None or forward_class(node) or "[" in slot.name:
        return tensor
    unpacked: torch.Tensor = kept(node, slot.name)
    return unpacked
