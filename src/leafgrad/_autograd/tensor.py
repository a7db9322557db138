"""What a tensor is, as PyTorch alone knows it."""

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
    """Keep ``__torch_function__`` of subclasses and modes from being called inside."""
    return torch._C.DisableTorchFunction()


def without_subclasses() -> AbstractContextManager[None]:
    """Keep ``__torch_function__`` of subclasses from being called inside, but that of modes not."""
    return torch._C.DisableTorchFunctionSubclass()


@contextmanager
def plain_computation() -> Iterator[None]:
    """Compute on plain tensors inside, past every mode, transform and subclass."""
    with ExitStack() as left:
        left.enter_context(unobserved())
        left.enter_context(torch.inference_mode(mode=False))
        if torch._C._len_torch_dispatch_stack():
            left.enter_context(_disable_current_modes())
        if torch._C._are_functorch_transforms_active():
            left.enter_context(torch._C._DisableFuncTorch())
        yield


def function_modes() -> int:
    """Return how many modes see the calls of this thread, as ``TorchFunctionMode`` lets one."""
    modes: int = torch._C._len_torch_function_stack()
    return modes


def function_mode_stack() -> list[Any]:
    """Return the modes that see the calls of this thread, the innermost last.

    The mode of ``torch.set_default_device()`` is left out: PyTorch keeps it below all others.
    """
    modes = map(torch._C._get_function_stack_at, range(function_modes()))
    return [mode for mode in modes if type(mode).__name__ != "DeviceContext"]


def joint_norm(tensors: Sequence[torch.Tensor], order: float) -> torch.Tensor:
    """Return the norm of all elements, in one call where PyTorch has a kernel for it.

    ``torch.nn.utils.get_total_norm()`` takes longer for many small tensors.
    """
    norms = torch._foreach_norm([*tensors], order)
    together = torch.stack([one.to(norms[0].device, non_blocking=True) for one in norms])
    norm: torch.Tensor = torch.linalg.vector_norm(together, order)
    return norm


def plain(tensor: torch.Tensor, name: str) -> Any:
    """Read what `torch.Tensor` itself has under `name`, whatever a subclass put in its place."""
    return reader(name)(tensor)


@cache
def reader(name: str) -> Callable[[torch.Tensor], Any]:
    """Return what reads an attribute of a tensor as PyTorch does, whatever its class says."""
    read: Callable[[torch.Tensor], Any] = getattr(torch.Tensor, name).__get__
    return read


def is_parameter(tensor: torch.Tensor) -> bool:
    """Return whether `nn.Module` takes the tensor as a parameter (some carry a mark instead)."""
    if type(tensor) is torch.Tensor:
        return hasattr(tensor, "_is_param")  # its `__dict__` would be made, and stay
    if issubclass(type(tensor), torch.nn.Parameter):
        return True
    return "_is_param" in object.__getattribute__(tensor, "__dict__")


def is_view(tensor: torch.Tensor) -> bool:
    """Return whether autograd tracks the tensor as a view of another (a detached one is not)."""
    return bool(plain(tensor, "_is_view")())


def base(view: torch.Tensor) -> torch.Tensor | None:
    """Return the tensor that autograd tracks `view` as a view of, None where it is no view."""
    tracked: torch.Tensor | None = plain(view, "_base")
    return tracked


def version(tensor: torch.Tensor) -> int | None:
    """Return how many writes the tensor's memory has seen, None for an inference tensor."""
    return None if plain(tensor, "is_inference")() else plain(tensor, "_version")


def storage(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Return the identity and bytes of the tensor's storage, None where it has no single one."""
    identity = storage_identity(tensor)
    return None if identity is None else (identity, torch.Tensor.untyped_storage(tensor).nbytes())


def storage_identity(tensor: torch.Tensor) -> int | None:
    """Return what tells the tensor's storage from any other that lives, None where it has none."""
    try:
        address: int = torch._C._storage_address(tensor)  # type: ignore[attr-defined]
    except NotImplementedError:
        return None
    return address


def place_in_memory(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return what tensors share that show the same memory after the same counted writes.

    Views of one contiguous piece have one place, whatever their shapes.
    """
    sizes, strides = tuple(tensor.shape), tensor.stride()
    spread = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    layout = (sizes, strides) if spread + 1 != tensor.numel() else tensor.numel()
    return storage_identity(tensor), version(tensor), tensor.storage_offset(), layout


def as_row(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements in the order in which they lie in memory, if that has no gaps."""
    place = place_in_memory(tensor)[-1]
    return tensor.detach().as_strided((place,), (1,)) if isinstance(place, int) else tensor


def may_belong_to_array(tensor: torch.Tensor, *, becomes_array: bool) -> bool:
    """Return whether NumPy may write into the tensor's memory: PyTorch must not move it then."""
    if not tensor.is_cpu or storage_identity(tensor) is None:
        return False
    memory = torch.Tensor.untyped_storage(tensor)
    return becomes_array or not (memory.resizable() or memory.is_shared())


def memory_address(tensor: torch.Tensor) -> int | None:
    """Return where the memory of the tensor's storage begins, which others may share; None if 0."""
    try:
        return torch.Tensor.untyped_storage(tensor).data_ptr() or None
    except (NotImplementedError, RuntimeError):
        return None


def storage_reference(tensor: torch.Tensor) -> StorageReference:
    """Return a reference to the tensor's storage that keeps its identity and not its memory."""
    return StorageReference(torch.Tensor.untyped_storage(tensor))


def storages_of_parameters(tensors: Iterable[torch.Tensor]) -> set[int | None]:
    """Return the identities of the storages of those tensors that are parameters."""
    own = [*filter(is_parameter, tensors)]
    own += [inner for tensor in own for _, inner in inner_tensors(tensor) or ()]
    return {*map(storage_identity, own)} - {None}


def inner_tensors(tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]] | None:
    """Return the tensors that one of a subclass wraps, each with its path; None for all others.

    Such a tensor claims memory for all its sizes and has none. The list is empty where it does not
    tell what it wraps, as it does for `torch.compile` by ``__tensor_flatten__``.
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
    """Return whether a subclass runs its operations on something else, and holds no data itself."""
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
    """Return the storage's identity, and shape, dtype, device, storage's bytes, if a parameter's.

    A storage among `parameters` is known to be a parameter's. Symbolic bytes are no number: None.
    """
    identity, nbytes = storage(tensor) or (None, None)
    if not isinstance(nbytes, int):
        nbytes = None
    views = [tensor, plain(tensor, "_base")]
    is_own = identity in parameters or any(is_parameter(one) for one in views if one is not None)
    dtype, device = plain(tensor, "dtype"), plain(tensor, "device")
    return identity, (shape(tensor), dtype, device, nbytes, is_own)


def shape(tensor: torch.Tensor) -> tuple[int | str, ...] | None:
    """Return the shape, with words for sizes that are not numbers; None for a lazy parameter."""
    if type(tensor) is torch.Tensor and not tensor.is_nested:
        return extents(tensor.shape)
    if issubclass(type(tensor), UninitializedTensorMixin):
        return None
    if plain(tensor, "is_nested") and plain(tensor, "layout") is torch.strided:
        return tuple(_nested_extent(tensor, dim) for dim in range(plain(tensor, "dim")()))
    return extents(plain(tensor, "shape"))


def extents(sizes: Sequence[int | torch.SymInt]) -> tuple[int | str, ...]:
    """Return sizes as values, nearly all of which are numbers already."""
    return tuple(map(extent, sizes))


def extent(size: int | torch.SymInt) -> int | str:
    """Return a size as a value; asking a symbolic one for its number would fix it for good."""
    if isinstance(size, int):
        return size
    return "ragged" if size.node.is_nested_int() else str(size)


def _nested_extent(tensor: torch.Tensor, dim: int) -> int | str:
    """Return one size of a strided nested tensor, which has no shape as a whole."""
    try:
        return extent(plain(tensor, "size")(dim))
    except RuntimeError:
        return "ragged"


# CPython drops a warning unseen, before any filter is asked, when `__name__` of the code that
# warns is None. So nobody's filters, registries or recorders are touched, in any thread.
_read_without_warning = FunctionType(
    (lambda attribute, tensor: attribute.__get__(tensor)).__code__, {"__name__": None}
)


def held_grad(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return what ``.grad`` holds, without the warning that reading it may give."""
    gradient: torch.Tensor | None = _read_without_warning(torch.Tensor.grad, tensor)
    return gradient


def is_invalid_view(tensor: torch.Tensor) -> bool:
    """Return whether PyTorch refuses to place this view in the graph, after a write in place.

    Asking makes PyTorch rebuild the node of a valid view that was written into, as any use would.
    """
    try:
        plain(tensor, "is_leaf")
    except RuntimeError:
        return True
    return False


is_wrapped: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor

_is_of_old_vmap: Callable[[torch.Tensor], bool] = torch._C._functorch.is_legacy_batchedtensor


def is_batch(gradient: torch.Tensor) -> bool:
    """Return whether a gradient is a batch of them, as ``is_grads_batched`` and `torch.func` send.

    No operation may write such a tensor into a plain one, nor have it for its ``out``.
    """
    return is_wrapped(gradient) or _is_of_old_vmap(gradient)


def functorch_wrapper(tensor: torch.Tensor) -> str | None:
    """Return the `torch.func` transform that wraps the tensor and its level, or None."""
    if not is_wrapped(tensor):
        return None
    functorch = torch._C._functorch
    level = functorch.maybe_get_level(tensor)
    running = {entry.level(): entry.key() for entry in functorch.get_interpreter_stack() or ()}
    return f"{running[level].name.lower()}, level {level}" if level in running else "ended"


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor inside a `torch.func` wrapper, one level deeper."""
    return torch._C._functorch.get_unwrapped(tensor)


def without_wrappers(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor inside all `torch.func` wrappers, the tensor itself where it has none."""
    while is_wrapped(tensor):
        tensor = unwrapped(tensor)
    return tensor


def alive() -> list[torch.Tensor]:
    """Return all tensors that Python knows of.

    Types are asked once each, as there are a hundred thousand things.
    """
    things = get_objects()
    kinds = {kind for kind in set(map(type, things)) if issubclass(kind, torch.Tensor)}
    return [thing for thing in things if type(thing) in kinds]
