"""The numbers in a tensor, and where in the graph they belong."""

from __future__ import annotations

import re
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
    return why_unread(tensor) is None


def why_unread(tensor: torch.Tensor) -> str | None:
    """Say why PyTorch's own operations do not read the tensor's elements, None where they do.

    A read beyond the end of a storage that was made smaller kills the process.
    """
    if functorch_wrapper(tensor):
        return "it is inside torch.func"
    if _is_of_subclass(tensor):
        return f"it is a {type(tensor).__name__}"
    for kind in ("meta", "nested", "quantized"):
        if plain(tensor, f"is_{kind}"):
            return f"it is {kind}"
    layout, dtype = plain(tensor, "layout"), plain(tensor, "dtype")
    if layout is not torch.strided or dtype not in _READ:
        return f"it is {dtype if layout is torch.strided else layout}".replace("torch.", "")
    return "it is functionalized" if torch._is_functional_tensor(tensor) else lacking_memory(tensor)


def lacking_memory(tensor: torch.Tensor) -> str | None:
    """Say what is wrong with a tensor's storage: its owner may have let go of the memory.

    As FSDP does by ``untyped_storage().resize_(0)``. What has no single storage cannot lack it.
    """
    try:
        nbytes = torch.Tensor.untyped_storage(tensor).nbytes()
    except (NotImplementedError, RuntimeError):
        return None
    if _is_of_subclass(tensor) or plain(tensor, "is_nested") or nbytes >= _extent(tensor):
        return None
    return "its storage holds too little" if nbytes else "its storage holds nothing"


def _is_of_subclass(tensor: torch.Tensor) -> bool:
    """Say whether a subclass stands between PyTorch's own operations and the elements."""
    return bool(torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python))


def _extent(tensor: torch.Tensor) -> int:
    """Count the bytes from the start of the storage to the end of the tensor's last element."""
    sizes, strides = plain(tensor, "shape"), plain(tensor, "stride")()
    if 0 in sizes:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    count: int = plain(tensor, "storage_offset")() + last + 1
    itemsize: int = plain(tensor, "itemsize")
    return count * itemsize


# The others are for packing bits, and no operation converts them.
_READ = frozenset(
    dtype
    for name, dtype in vars(torch).items()
    if isinstance(dtype, torch.dtype)
    and re.fullmatch(r"bool|u?int(8|16|32|64)|(b?float|complex)\d+|float8_\w+", name)
)


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
