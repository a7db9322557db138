"""Hooks on all modules, and what PyTorch leaves of one that was removed."""

from torch.nn.modules import module
from torch.utils.hooks import RemovableHandle


def remove_hook_on_all(handle: RemovableHandle) -> None:
    """Remove a hook on all modules, with the note that it takes keyword arguments.

    ``remove()`` alone leaves that note in ``_global_forward_hooks_with_kwargs``, by which PyTorch
    takes it that there are hooks: each call of a module is slower, and a compiled one warns.
    """
    handle.remove()
    vars(module)["_global_forward_hooks_with_kwargs"].pop(handle.id, None)
