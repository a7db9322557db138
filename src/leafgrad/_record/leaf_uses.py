"""Which leaves were used while code ran, and where first."""

import weakref
from types import CodeType
from typing import NamedTuple

from torch import Tensor

from leafgrad import _autograd


class Use(NamedTuple):
    """The first use of a leaf.

    Attributes:
        operation: The function that was called.
        place: The code and the instruction in it that called, where that is known.
        required_grad: Whether the leaf required grad then.
    """

    operation: str
    place: tuple[CodeType, int] | None
    required_grad: bool


class Uses:
    """The first use of each leaf that lives, in numbers and code.

    Attributes:
        known: The uses, by the identity of the leaf.
        memory: The uses by the identity of the storage, with the identities of the leaves.
    """

    def __init__(self) -> None:
        """Start with nothing used."""
        self.known: dict[int, tuple[weakref.ref[Tensor], Use]] = {}
        self.memory: dict[int, tuple[_autograd.StorageReference, dict[int, Use]]] = {}

    def of(self, tensor: Tensor) -> Use | None:
        """Tell where a leaf was used first."""
        reference, use = self.known.get(id(tensor), (None, None))
        return use if reference is not None and reference() is tensor else None

    def through_another(self, tensor: Tensor) -> Use | None:
        """Tell where the memory of a tensor was used first through another leaf."""
        _, users = self.memory.get(_autograd.storage_identity(tensor) or 0, (None, {}))
        return next((use for user, use in users.items() if user != id(tensor)), None)

    def note(self, leaf: Tensor, use: Use) -> None:
        """Note the first use of a leaf."""
        self.known[id(leaf)] = weakref.ref(leaf), use

    def note_memory(self, leaf: Tensor) -> None:
        """Note whose memory a leaf uses, which may be another tensor's."""
        identity, (_, use) = id(leaf), self.known[id(leaf)]
        storage = _autograd.storage_identity(leaf)
        if storage is None:
            return
        if storage not in self.memory:
            self.memory[storage] = _autograd.storage_reference(leaf), {}
        users = self.memory[storage][1]
        if len(users) < _MOST_USERS:
            users[identity] = use

    def forget_what_is_gone(self) -> None:
        """Drop leaves that are dead, and storages that are freed."""
        for identity in [one for one, (leaf, _) in self.known.items() if leaf() is None]:
            del self.known[identity]
        for identity in [one for one, (kept, _) in self.memory.items() if kept.expired()]:
            del self.memory[identity]


_MOST_USERS = 4
