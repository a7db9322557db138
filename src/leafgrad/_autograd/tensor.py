"""Read undocumented facts about tensors, without running code of subclasses and modes."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from gc import get_objects
from types import FunctionType
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.utils._python_dispatch import _disable_current_modes, is_traceable_wrapper_subclass

StorageReference = StorageWeakRef


def unobserved() -> AbstractContextManager[None]:
    """Disable ``__torch_function__`` of subclasses and modes within the context."""
    return torch._C.DisableTorchFunction()


def without_subclasses() -> AbstractContextManager[None]:
    """Disable ``__torch_function__`` of subclasses, but not of modes, within the context."""
    return torch._C.DisableTorchFunctionSubclass()


@contextmanager
def plain_computation() -> Iterator[None]:
    """Run operations within the context without modes, `torch.func` transforms or subclasses."""
    with ExitStack() as left:
        left.enter_context(unobserved())
        left.enter_context(torch.inference_mode(mode=False))
        if torch._C._len_torch_dispatch_stack():
            left.enter_context(_disable_current_modes())
        if torch._C._are_functorch_transforms_active():
            left.enter_context(torch._C._DisableFuncTorch())
        yield


def function_modes() -> int:
    """Return the number of active ``TorchFunctionMode`` objects in this thread."""
    modes: int = torch._C._len_torch_function_stack()
    return modes


def function_mode_stack() -> list[Any]:
    """Return the active ``TorchFunctionMode`` objects of this thread, the innermost last.

    The mode of ``torch.set_default_device()`` is left out: PyTorch keeps it below all others.
    """
    modes = map(torch._C._get_function_stack_at, range(function_modes()))
    return [mode for mode in modes if type(mode).__name__ != "DeviceContext"]


def joint_norm(tensors: Sequence[torch.Tensor], order: float) -> torch.Tensor:
    """Return the norm of all elements of all tensors, computed with PyTorch's foreach kernels.

    `order` is the p of the p-norm. For many small tensors, this is faster than
    ``torch.nn.utils.get_total_norm()``.
    """
    norms = torch._foreach_norm([*tensors], order)
    together = torch.stack([one.to(norms[0].device, non_blocking=True) for one in norms])
    norm: torch.Tensor = torch.linalg.vector_norm(together, order)
    return norm


def plain(tensor: torch.Tensor, name: str) -> Any:
    """Return an attribute of a tensor as `torch.Tensor` defines it, ignoring subclasses."""
    return reader(name)(tensor)


@cache
def reader(name: str) -> Callable[[torch.Tensor], Any]:
    """Return a function that reads an attribute of a tensor as `torch.Tensor` defines it."""
    read: Callable[[torch.Tensor], Any] = getattr(torch.Tensor, name).__get__
    return read


def is_parameter(tensor: torch.Tensor) -> bool:
    """Return whether `nn.Module` would register the tensor as a parameter.

    These are `nn.Parameter` objects, and tensors with PyTorch's attribute ``_is_param``.
    """
    if type(tensor) is torch.Tensor:
        return hasattr(tensor, "_is_param")  # reading `__dict__` would create it
    if issubclass(type(tensor), torch.nn.Parameter):
        return True
    return "_is_param" in object.__getattribute__(tensor, "__dict__")


def is_view(tensor: torch.Tensor) -> bool:
    """Return whether autograd tracks the tensor as a view. Detached views are not tracked."""
    return bool(plain(tensor, "_is_view")())


def base(view: torch.Tensor) -> torch.Tensor | None:
    """Return the tensor that autograd tracks `view` as a view of, None if it is no view."""
    tracked: torch.Tensor | None = plain(view, "_base")
    return tracked


def version(tensor: torch.Tensor) -> int | None:
    """Return the number of in-place writes to the tensor's memory, None for an inference tensor."""
    return None if plain(tensor, "is_inference")() else plain(tensor, "_version")


def storage(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Return the identity and the bytes of the tensor's storage, None if it has no single one."""
    identity = storage_identity(tensor)
    return None if identity is None else (identity, torch.Tensor.untyped_storage(tensor).nbytes())


def storage_identity(tensor: torch.Tensor) -> int | None:
    """Return a number that identifies the tensor's storage while it lives, None if it has none."""
    try:
        address: int = torch._C._storage_address(tensor)  # type: ignore[attr-defined]
    except NotImplementedError:
        return None
    return address


def place_in_memory(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return a key that is equal for tensors with the same elements in memory, at the same version.

    All views of one gapless piece of memory have the same key, whatever their shapes.
    """
    sizes, strides = tuple(tensor.shape), tensor.stride()
    spread = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    layout = (sizes, strides) if spread + 1 != tensor.numel() else tensor.numel()
    return storage_identity(tensor), version(tensor), tensor.storage_offset(), layout


def as_row(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements in memory order as one dimension; tensors with gaps are not changed."""
    place = place_in_memory(tensor)[-1]
    return tensor.detach().as_strided((place,), (1,)) if isinstance(place, int) else tensor


def may_belong_to_array(tensor: torch.Tensor, *, becomes_array: bool) -> bool:
    """Return whether NumPy may share the tensor's memory.

    PyTorch cannot resize such memory, unlike its own.

    Args:
        tensor: The tensor.
        becomes_array: Whether a NumPy array may be created from it later.
    """
    if not tensor.is_cpu or storage_identity(tensor) is None:
        return False
    memory = torch.Tensor.untyped_storage(tensor)
    return becomes_array or not (memory.resizable() or memory.is_shared())


def memory_address(tensor: torch.Tensor) -> int | None:
    """Return the address of the tensor's storage, None if there is no memory."""
    try:
        return torch.Tensor.untyped_storage(tensor).data_ptr() or None
    except (NotImplementedError, RuntimeError):
        return None


def storage_reference(tensor: torch.Tensor) -> StorageReference:
    """Return a weak reference to the tensor's storage.

    While the reference exists, no other storage gets the same identity.
    """
    return StorageReference(torch.Tensor.untyped_storage(tensor))


def storages_of_parameters(tensors: Iterable[torch.Tensor]) -> set[int | None]:
    """Return the identities of the storages of all parameters among the tensors."""
    own = [*filter(is_parameter, tensors)]
    own += [inner for tensor in own for _, inner in inner_tensors(tensor) or ()]
    return {*map(storage_identity, own)} - {None}


def inner_tensors(tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]] | None:
    """Return the tensors inside a tensor subclass, with their paths; None for other tensors.

    The list is empty if the subclass wraps others but does not implement ``__tensor_flatten__``. A
    wrapper claims memory for its whole shape but owns none.
    """
    if type(tensor) in _USUAL:
        return None
    found: list[tuple[str, torch.Tensor]] = []
    ahead: list[tuple[str, Any]] = [("", tensor)]
    for path, one in ahead:
        if is_traceable_wrapper_subclass(one):
            names, _ = one.__tensor_flatten__()
            ahead += [(f"{path}.{name}", getattr(one, name)) for name in names]
        elif one is tensor and not _lacks_memory(one):
            return None
        elif one is not tensor and isinstance(one, torch.Tensor):
            found.append((path, one))
    return found


_USUAL = {torch.Tensor, torch.nn.Parameter}


def _lacks_memory(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's class overrides ``__torch_dispatch__`` and it holds no data."""
    if type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__:
        return False
    try:
        memory = torch.Tensor.untyped_storage(tensor)
        _ = memory.device.type == "meta" or memory.data_ptr()
    except RuntimeError:
        return True
    return False


Facts = tuple[
    tuple[int | str, ...] | None,
    torch.dtype | None,
    torch.device | None,
    int | None,
    bool | None,
]


def facts(tensor: torch.Tensor, parameters: Container[int | None] = ()) -> tuple[int | None, Facts]:
    """Return the identity of a tensor's storage, and the tensor's facts.

    The facts are the shape, dtype, device, number of bytes in the storage (None if symbolic), and
    whether the storage belongs to a parameter.

    Args:
        tensor: The tensor.
        parameters: The identities of storages that belong to parameters.
    """
    identity, nbytes = storage(tensor) or (None, None)
    if not isinstance(nbytes, int):
        nbytes = None
    views = [tensor, plain(tensor, "_base")]
    is_own = identity in parameters or any(is_parameter(one) for one in views if one is not None)
    dtype, device = plain(tensor, "dtype"), plain(tensor, "device")
    return identity, (shape(tensor), dtype, device, nbytes, is_own)


def shape(tensor: torch.Tensor) -> tuple[int | str, ...] | None:
    """Return the shape, with strings for sizes that are not integers; None for a lazy parameter."""
    if type(tensor) is torch.Tensor and not tensor.is_nested:
        return extents(tensor.shape)
    if issubclass(type(tensor), UninitializedTensorMixin):
        return None
    if plain(tensor, "is_nested") and plain(tensor, "layout") is torch.strided:
        return tuple(_nested_extent(tensor, dim) for dim in range(plain(tensor, "dim")()))
    return extents(plain(tensor, "shape"))


def extents(sizes: Sequence[int | torch.SymInt]) -> tuple[int | str, ...]:
    """Return sizes as values: integers, or strings for symbolic and ragged sizes."""
    return tuple(map(extent, sizes))


def extent(size: int | torch.SymInt) -> int | str:
    """Return one size as an integer, or as a string if it is symbolic or ragged.

    Converting a symbolic size to a number would fix it to that number.
    """
    if isinstance(size, int):
        return size
    return "ragged" if size.node.is_nested_int() else str(size)


def _nested_extent(tensor: torch.Tensor, dim: int) -> int | str:
    """Return one size of a strided nested tensor; "ragged" if it varies."""
    try:
        return extent(plain(tensor, "size")(dim))
    except RuntimeError:
        return "ragged"


# CPython discards a warning before it reaches any filter if `__name__` of the warning code is None.
# So this function reads without a warning, and no thread's filters, registries or recorders change.
_read_without_warning = FunctionType(
    (lambda attribute, tensor: attribute.__get__(tensor)).__code__, {"__name__": None}
)


def held_grad(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return ``.grad``, which may be None, without PyTorch's warning about non-leaves."""
    gradient: torch.Tensor | None = _read_without_warning(torch.Tensor.grad, tensor)
    return gradient


def is_invalid_view(tensor: torch.Tensor) -> bool:
    """Return whether PyTorch cannot place this view in the graph after an in-place write.

    For a valid view, the check creates the new node, as any use of the view would.
    """
    try:
        plain(tensor, "is_leaf")
    except RuntimeError:
        return True
    return False


is_wrapped: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor

_is_of_old_vmap: Callable[[torch.Tensor], bool] = torch._C._functorch.is_legacy_batchedtensor


def is_batch(gradient: torch.Tensor) -> bool:
    """Return whether a gradient is a batch from ``is_grads_batched`` or `torch.func.vmap`.

    PyTorch cannot write a batch into a plain tensor, nor use it as ``out``.
    """
    return is_wrapped(gradient) or _is_of_old_vmap(gradient)


def functorch_wrapper(tensor: torch.Tensor) -> str | None:
    """Return the transform and level that wrap the tensor, such as ``"vmap, level 1"``, or None.

    Return ``"ended"`` if the transform is no longer running.
    """
    if not is_wrapped(tensor):
        return None
    functorch = torch._C._functorch
    level = functorch.maybe_get_level(tensor)
    running = {entry.level(): entry.key() for entry in functorch.get_interpreter_stack() or ()}
    return f"{running[level].name.lower()}, level {level}" if level in running else "ended"


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor inside one `torch.func` wrapper."""
    return torch._C._functorch.get_unwrapped(tensor)


def without_wrappers(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor inside all of its `torch.func` wrappers."""
    while is_wrapped(tensor):
        tensor = unwrapped(tensor)
    return tensor


def alive() -> list[torch.Tensor]:
    """Return all tensors that Python's garbage collector knows.

    Each type is checked only once, because there are about a hundred thousand objects.
    """
    things = get_objects()
    kinds = {kind for kind in set(map(type, things)) if issubclass(kind, torch.Tensor)}
    return [thing for thing in things if type(thing) in kinds]
