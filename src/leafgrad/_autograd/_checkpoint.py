"""What `torch.utils.checkpoint` keeps of a block that it will run again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def given_to_block(unpack_hook: Any, holder: object) -> Iterator[tuple[int, Any]]:
    """Yield the tensors that a checkpointed block was called with, packed, each with its place.

    Each tensor that the block saved leads to them; they are shown at the last that is left, which
    is the first that backward asks for. None are shown while the block runs again, nor by a PyTorch
    that keeps them in another place.
    """
    names, cells = unpack_hook.__code__.co_freevars, unpack_hook.__closure__ or ()
    frames = [
        cell.cell_contents for name, cell in zip(names, cells, strict=True) if name == "frame"
    ]
    for frame in frames:
        left = (reference() for reference in reversed(getattr(frame, "weak_holders", ())))
        if next((one for one in left if one is not None), None) is holder:
            for place, kept in enumerate(getattr(frame, "saved_args", ())):
                if isinstance(kept, torch._C._autograd.SavedTensor):
                    yield place, kept
