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
        self._most = 1_000

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
        identity, known = id(leaf), self.known
        known[identity] = weakref.ref(leaf, lambda _: known.pop(identity, None)), use

    def note_memory(self, leaf: Tensor) -> None:
        """Note whose memory a leaf uses, which may be another tensor's."""
        identity, (_, use) = id(leaf), self.known[id(leaf)]
        storage = _autograd.storage_identity(leaf)
        if storage is None:
            return
        if storage not in self.memory:
            self._forget_what_is_gone()
            self.memory[storage] = _autograd.storage_reference(leaf), {}
        users = self.memory[storage][1]
        if len(users) < _MOST_USERS:
            users[identity] = use

    def _forget_what_is_gone(self) -> None:
        """Drop storages that are freed, once in a while."""
        if len(self.memory) < self._most:
            return
        self.memory = {s: kept for s, kept in self.memory.items() if not kept[0].expired()}
        self._most = max(self._most, 2 * len(self.memory))


_MOST_USERS = 4
