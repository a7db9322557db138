"""Read the private state of `torch.utils.checkpoint` behind the saved tensors of a node.

A *block* is the code that one `checkpoint()` call runs. Unless the checkpoint is reentrant, each
node of a block saves a *holder* instead of a tensor, and an *unpack hook* that runs the block again
to compute the tensor. All holders of a block lead to the same *frame*, which stores its inputs.

To avoid counting a block several times, the functions that take a holder yield something only for
the last holder that is still alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.graph import Node
from torch.utils._pytree import tree_leaves

from leafgrad._autograd.node import forward_class


def block_inputs(unpack_hook: Any, holder: object) -> Iterator[tuple[int, Any]]:
    """Yield the saved inputs of a checkpointed block, each with its position among the arguments.

    Yield nothing while the block is being recomputed, or if this PyTorch stores the inputs
    elsewhere.
    """
    for frame in _checkpoint_frames(unpack_hook, holder):
        for place, kept in enumerate(getattr(frame, "saved_args", ())):
            if isinstance(kept, torch._C._autograd.SavedTensor):
                yield place, kept


def cached_results(unpack_hook: Any, holder: object) -> Iterator[tuple[torch.Tensor, int | None]]:
    """Yield each tensor that selective checkpointing cached for a block, with its expected version.

    Backward fails if the tensor then has another version. The expected version is None if backward
    accepts any version, or if a saved-tensor hook packed the tensor.
    """
    for context in _selective_contexts(unpack_hook, holder):
        for entry in tree_leaves(context.storage):
            if isinstance(entry, _ENTRY) and isinstance(entry.val, torch.Tensor):
                is_any = context.allow_cache_entry_mutation or getattr(entry, "unpack_hook", None)
                yield entry.val, None if is_any else entry.version


def result_caches(unpack_hook: Any, holder: object) -> Iterator[Any]:
    """Yield the lists of results that selective checkpointing cached for a block, one per operator.

    A backward pass removes the entries that it uses.
    """
    for context in _selective_contexts(unpack_hook, holder):
        yield from context.storage.values()


def _selective_contexts(unpack_hook: Any, holder: object) -> Iterator[Any]:
    """Yield the selective-checkpointing context of a block, if it has one."""
    for frame in _checkpoint_frames(unpack_hook, holder):
        context = captured_variable(frame.recompute_fn, "recompute_context")
        if isinstance(context, _CACHED):
            yield context


_CACHED: Any = getattr(torch.utils.checkpoint, "_CachedTorchDispatchMode", ())
_ENTRY: Any = getattr(torch.utils.checkpoint, "_VersionWrapper", ())


def _checkpoint_frames(unpack_hook: Any, holder: object) -> Iterator[Any]:
    """Yield the frame of a block if `holder` is the last of its holders that is still alive.

    A block is the code that one `checkpoint()` call runs. Its nodes save holders instead of
    tensors, and its frame stores its inputs.
    """
    frame = captured_variable(unpack_hook, "frame")
    left = (reference() for reference in reversed(getattr(frame, "weak_holders", ())))
    if next((one for one in left if one is not None), None) is holder:
        yield frame


def captured_variable(function: Any, name: str) -> Any:
    """Return the variable `name` from a function's closure; None if it has none."""
    names = function.__code__.co_freevars
    return function.__closure__[names.index(name)].cell_contents if name in names else None


def is_reentrant_checkpoint(node: Node) -> bool:
    """Return whether the node belongs to a block under reentrant checkpointing."""
    return forward_class(node) is torch.utils.checkpoint.CheckpointFunction


def modules_of_reentrant_checkpoint(node: Node) -> list[torch.nn.Module]:
    """Return the modules that a reentrant checkpoint runs again in backward.

    They are found if the checkpointed function is a module, a method of one or a closure over one.
    """
    checkpointed: Any = node
    function = checkpointed.run_function
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    shown = [function, getattr(function, "__self__", None), *cells]
    return [one for one in shown if isinstance(one, torch.nn.Module)]
