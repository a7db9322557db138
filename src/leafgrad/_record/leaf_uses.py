"""Which leaves were used while code ran, and where first."""

import weakref
from collections.abc import Container, Iterator
from typing import NamedTuple

from torch import Tensor

from leafgrad import _autograd
from leafgrad._record.place import Place


class LeafUse(NamedTuple):
    """The first use of a leaf.

    Attributes:
        operation: The function that was called.
        place: The code and the instruction in it that called, where that is known.
        required_grad: Whether the leaf required grad then.
        number: The number of the node that the call made, if it made one.
    """

    operation: str
    place: Place | None
    required_grad: bool
    number: int | None = None


class LeafUses:
    """The first use of each leaf that lives, in numbers and code.

    Attributes:
        by_leaf: The uses, by the identity of the leaf.
        by_storage: The uses of the first few leaves of a storage, by its identity and by theirs.
    """

    def __init__(self) -> None:
        """Start with nothing used."""
        self.by_leaf: dict[int, tuple[weakref.ref[Tensor], LeafUse]] = {}
        self.by_storage: dict[int, tuple[_autograd.StorageReference, dict[int, LeafUse]]] = {}

    def of(self, tensor: Tensor) -> LeafUse | None:
        """Return the first use of a leaf, None where it was not used."""
        reference, use = self.by_leaf.get(id(tensor), (None, None))
        return use if reference is not None and reference() is tensor else None

    def through_shared_memory(self, tensor: Tensor, numbers: Container[int]) -> LeafUse | None:
        """Return a use of a tensor's memory through another leaf that made one of some nodes."""
        _, users = self.by_storage.get(_autograd.storage_identity(tensor) or 0, (None, {}))
        others = (use for user, use in users.items() if user != id(tensor))
        return next((use for use in others if use.number in numbers), None)

    def of_late_leaves(self) -> Iterator[LeafUse]:
        """Yield the uses of leaves that did not require grad then, and do now."""
        for reference, use in self.by_leaf.values():
            leaf = reference()
            if (
                leaf is not None
                and not use.required_grad
                and _autograd.plain(leaf, "requires_grad")
            ):
                yield use

    def note(self, leaf: Tensor, use: LeafUse) -> None:
        """Note the first use of a leaf."""
        self.by_leaf[id(leaf)] = weakref.ref(leaf), use

    def note_storage(self, leaf: Tensor) -> None:
        """Note the use for the storage of a leaf as well, which may be that of other leaves."""
        identity, (_, use) = id(leaf), self.by_leaf[id(leaf)]
        storage = _autograd.storage_identity(leaf)
        if storage is None:
            return
        if storage not in self.by_storage:
            self.by_storage[storage] = _autograd.storage_reference(leaf), {}
        users = self.by_storage[storage][1]
        if len(users) < MAX_LEAVES_OF_STORAGE:
            users[identity] = use

    def prune(self) -> None:
        """Drop leaves that are dead, and storages that are freed."""
        for identity in [one for one, (leaf, _) in self.by_leaf.items() if leaf() is None]:
            del self.by_leaf[identity]
        for identity in [one for one, (kept, _) in self.by_storage.items() if kept.expired()]:
            del self.by_storage[identity]


MAX_LEAVES_OF_STORAGE = 4
