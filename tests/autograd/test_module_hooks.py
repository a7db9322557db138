"""What PyTorch leaves of a hook on all modules, for which leafgrad removes it by its own door."""

import torch
from torch.nn.modules import module
from torch.nn.modules.module import register_module_forward_hook

from leafgrad import _autograd, record


def hooked() -> torch.utils.hooks.RemovableHandle:
    return register_module_forward_hook(lambda *_: None, with_kwargs=True, always_call=True)


def left(handle: torch.utils.hooks.RemovableHandle) -> bool:
    return handle.id in vars(module)["_global_forward_hooks_with_kwargs"]


def test_remove_alone_leaves_a_note_of_the_hook() -> None:
    handle = hooked()
    handle.remove()
    assert left(handle)
    _autograd.remove_hook_on_all(handle)
    assert not left(handle)


def test_a_hook_is_removed_whole() -> None:
    before = module._has_any_global_hook()
    handle = hooked()
    _autograd.remove_hook_on_all(handle)
    assert module._has_any_global_hook() == before


def test_a_recording_leaves_nothing_that_looks_like_a_hook() -> None:
    before = module._has_any_global_hook()
    with record():
        torch.nn.Linear(2, 1)(torch.ones(2))
    assert module._has_any_global_hook() == before
