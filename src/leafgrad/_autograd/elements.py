"""Whether the elements of a tensor can be read, and how to compute with them unseen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from leafgrad._autograd.tensor import functorch_wrapper, plain, unobserved
from leafgrad._messages import message


def why_unread(tensor: torch.Tensor) -> str | None:
    """Return why PyTorch's own operations do not read the tensor's elements, None where they do.

    A read beyond the end of a storage that was made smaller kills the process. All but that and the
    data type follows from the dispatch keys, of which there are few sets.
    """
    keys = torch._C._dispatch_keys(tensor).raw_repr()
    if keys not in _ORDINARY:
        special = _special(tensor)
        if special is not None:
            return special
        _ORDINARY.add(keys)
    if (dtype := plain(tensor, "dtype")) not in _READ:
        return message("unread.kind", kind=str(dtype).removeprefix("torch."))
    return _lack(tensor, torch.Tensor.untyped_storage(tensor).nbytes())


_ORDINARY = set[int]()


def _special(tensor: torch.Tensor) -> str | None:
    """Return why PyTorch's own operations do not read a tensor's elements, but others do."""
    if functorch_wrapper(tensor):
        return message("unread.transform")
    if _is_of_subclass(tensor):
        return message("unread.subclass", type=type(tensor).__name__)
    for kind in ("meta", "nested", "quantized"):
        if plain(tensor, f"is_{kind}"):
            return message("unread.kind", kind=kind)
    if (layout := plain(tensor, "layout")) is not torch.strided:
        return message("unread.kind", kind=str(layout).removeprefix("torch."))
    is_functional = torch._is_functional_tensor(tensor)
    return message("unread.kind", kind="functionalized") if is_functional else None


def lacking_memory(tensor: torch.Tensor) -> str | None:
    """Return what is wrong with a tensor's storage: its owner may have let go of the memory.

    As FSDP does by ``untyped_storage().resize_(0)``. What has no single storage cannot lack it.
    """
    try:
        lack = _lack(tensor, _storage_of(tensor).nbytes())
    except (NotImplementedError, RuntimeError):
        return None
    if lack is None or _is_of_subclass(tensor) or plain(tensor, "is_nested"):
        return None
    return lack


def _is_of_subclass(tensor: torch.Tensor) -> bool:
    """Return whether a subclass stands between PyTorch's own operations and the elements."""
    return bool(torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python))


def _lack(tensor: torch.Tensor, nbytes: int) -> str | None:
    """Compare what a storage holds with the end of the tensor's last element in it."""
    size = _numel(tensor)
    if size and not _is_contiguous(tensor):
        size = 1
        for length, stride in zip(_size(tensor), _stride(tensor), strict=True):
            size += (length - 1) * stride
    if not size or nbytes >= (_storage_offset(tensor) + size) * _element_size(tensor):
        return None
    return message("unread.too-short" if nbytes else "unread.empty")


# Called for each tensor that a derivative reads, and not as methods, which a subclass may change.
_storage_of, _numel, _is_contiguous, _size, _stride, _storage_offset, _element_size = (
    torch.Tensor.untyped_storage,
    torch.Tensor.numel,
    torch.Tensor.is_contiguous,
    torch.Tensor.size,
    torch.Tensor.stride,
    torch.Tensor.storage_offset,
    torch.Tensor.element_size,
)


# The others are for packing bits, and no operation converts them.
_READ = frozenset(
    dtype
    for name, dtype in vars(torch).items()
    if isinstance(dtype, torch.dtype)
    and re.fullmatch(r"bool|u?int(8|16|32|64)|(b?float|complex)\d+|float8_\w+", name)
)


@contextmanager
def below_autograd() -> Iterator[None]:
    """Compute what nobody is to know of: no graph, no mode and no subclass sees it."""
    with torch.no_grad(), unobserved(), torch._C._DisableTorchDispatch():
        yield
