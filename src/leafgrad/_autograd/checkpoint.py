"""What `torch.utils.checkpoint` keeps of a block that it will run again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.graph import Node
from torch.utils._pytree import tree_leaves

from leafgrad._autograd.node import forward_class


def given_to_block(unpack_hook: Any, holder: object) -> Iterator[tuple[int, Any]]:
    """Yield the tensors that a checkpointed block was called with, packed, each with its place.

    None are shown while the block runs again, nor by a PyTorch that keeps them in another place.
    """
    for frame in _frames_shown_at(unpack_hook, holder):
        for place, kept in enumerate(getattr(frame, "saved_args", ())):
            if isinstance(kept, torch._C._autograd.SavedTensor):
                yield place, kept


def cached_of_block(unpack_hook: Any, holder: object) -> Iterator[tuple[torch.Tensor, int | None]]:
    """Yield the results that selective checkpointing keeps of a block, each with its version.

    That is the one at which backward wants it, None where backward takes any. What a hook has
    packed is a tensor of another kind, or none, and is not asked for a version either.
    """
    for context in _selective_contexts(unpack_hook, holder):
        for entry in tree_leaves(context.storage):
            if isinstance(entry, _ENTRY) and isinstance(entry.val, torch.Tensor):
                is_any = context.allow_cache_entry_mutation or getattr(entry, "unpack_hook", None)
                yield entry.val, None if is_any else entry.version


def caches_of_block(unpack_hook: Any, holder: object) -> Iterator[Any]:
    """Yield what selective checkpointing keeps of a block by operator, which backward uses up."""
    for context in _selective_contexts(unpack_hook, holder):
        yield from context.storage.values()


def _selective_contexts(unpack_hook: Any, holder: object) -> Iterator[Any]:
    for frame in _frames_shown_at(unpack_hook, holder):
        context = taken_along(frame.recompute_fn, "recompute_context")
        if isinstance(context, _CACHED):
            yield context


_CACHED: Any = getattr(torch.utils.checkpoint, "_CachedTorchDispatchMode", ())
_ENTRY: Any = getattr(torch.utils.checkpoint, "_VersionWrapper", ())


def _frames_shown_at(unpack_hook: Any, holder: object) -> Iterator[Any]:
    """Yield what stands for the block, at one only of the many holders that lead to it.

    That is the last holder that is left, which is the first that backward asks for.
    """
    frame = taken_along(unpack_hook, "frame")
    left = (reference() for reference in reversed(getattr(frame, "weak_holders", ())))
    if next((one for one in left if one is not None), None) is holder:
        yield frame


def taken_along(function: Any, name: str) -> Any:
    """Return what a function has taken along from where it was defined, None where it has not."""
    names = function.__code__.co_freevars
    return function.__closure__[names.index(name)].cell_contents if name in names else None


def is_reentrant_checkpoint(node: Node) -> bool:
    """Return whether the node stands for a block that a reentrant checkpoint runs again."""
    return forward_class(node) is torch.utils.checkpoint.CheckpointFunction


def modules_of_reentrant_checkpoint(node: Node) -> list[torch.nn.Module]:
    """Return the modules that a reentrant checkpoint runs, as far as its function shows them."""
    checkpointed: Any = node
    function = checkpointed.run_function
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    shown = [function, getattr(function, "__self__", None), *cells]
    return [one for one in shown if isinstance(one, torch.nn.Module)]
