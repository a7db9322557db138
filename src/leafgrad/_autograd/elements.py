"""Check whether the elements of a tensor can be read, and compute with them unnoticed.

These computations do not reach the `__torch_function__` of subclasses or modes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from leafgrad._autograd.tensor import functorch_wrapper, plain, unobserved
from leafgrad._messages import message


def why_unread(tensor: torch.Tensor) -> str | None:
    """Return the reason why the elements of a tensor cannot be read, None if they can.

    A read beyond the end of a storage that was resized would kill the process.
    """
    if functorch_wrapper(tensor):
        return message("unread.transform")
    if _is_of_subclass(tensor):
        return message("unread.subclass", type=type(tensor).__name__)
    kinds = [kind for kind in ("meta", "nested", "quantized") if plain(tensor, f"is_{kind}")]
    layout, dtype = plain(tensor, "layout"), plain(tensor, "dtype")
    kinds += [] if layout is torch.strided else [str(layout)]
    kinds += ["functionalized"] if torch._is_functional_tensor(tensor) else []
    kinds += [] if dtype in _READ else [str(dtype)]
    if kinds:
        return message("unread.kind", kind=kinds[0].removeprefix("torch."))
    return _lack(tensor, torch.Tensor.untyped_storage(tensor).nbytes())


def lacking_memory(tensor: torch.Tensor) -> str | None:
    """Return a message if a tensor's storage is too small for it, else None.

    FSDP frees the storage of a parameter with ``untyped_storage().resize_(0)``. Tensors without a
    single storage return None.
    """
    try:
        lack = _lack(tensor, torch.Tensor.untyped_storage(tensor).nbytes())
    except (NotImplementedError, RuntimeError):
        return None
    if lack is None or _is_of_subclass(tensor) or plain(tensor, "is_nested"):
        return None
    return lack


def _is_of_subclass(tensor: torch.Tensor) -> bool:
    """Return whether a subclass intercepts the tensor's operations by ``__torch_dispatch__``."""
    return bool(torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python))


def _lack(tensor: torch.Tensor, nbytes: int) -> str | None:
    """Return a message if `nbytes` of storage end before the tensor's last element, else None."""
    kind = torch.Tensor  # a subclass may override these methods
    size = kind.numel(tensor)
    if size and not kind.is_contiguous(tensor):
        sizes = zip(kind.size(tensor), kind.stride(tensor), strict=True)
        size = 1 + sum((length - 1) * stride for length, stride in sizes)
    if not size or nbytes >= (kind.storage_offset(tensor) + size) * kind.element_size(tensor):
        return None
    return message("unread.too-short" if nbytes else "unread.empty")


# PyTorch cannot convert the other dtypes to numbers: they only pack bits.
_READ = frozenset(
    dtype
    for name, dtype in vars(torch).items()
    if isinstance(dtype, torch.dtype)
    and re.fullmatch(r"bool|u?int(8|16|32|64)|(b?float|complex)\d+|float8_\w+", name)
)


@contextmanager
def below_autograd() -> Iterator[None]:
    """Disable autograd within the context, and hide its operations from modes and subclasses."""
    with torch.no_grad(), unobserved(), torch._C._DisableTorchDispatch():
        yield
