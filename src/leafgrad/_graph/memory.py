"""What a graph keeps alive for backward: by node, kind, module, line, device and state."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from leafgrad._display.jsonable import json_types
from leafgrad._graph.memory_card import card
from leafgrad._graph.nodes import SavedTensor, TracedNode


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptStorage:
    """A piece of memory that a graph keeps alive.

    Attributes:
        number: The number that its saved tensors have as `SavedTensor.storage`.
        nbytes: The bytes of all of it.
        device: Where it is.
        is_parameter: Whether a parameter lives in it, which would keep it alive anyway.
        saved: The saved tensors in it.
    """

    number: int
    nbytes: int
    device: torch.device
    is_parameter: bool
    saved: tuple[SavedTensor, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryShare:
    """What some of the saved tensors keep alive.

    Storages that two shares have in common count in each of them.

    Attributes:
        name: What they have in common: a kind of node, a module, a line of code.
        nodes: The indices of the nodes that keep them.
        slots: How many saved tensors there are.
        tensor_bytes: What they would take if each had memory of its own.
        storage_bytes: The bytes of the distinct storages that they live in.
        bytes_without_parameters: The bytes of those that are no parameter's.
        hidden: How many of them do not show the memory that they keep: sparse tensors, and what a
            hook packed into something else than one tensor.
    """

    name: str
    nodes: tuple[int, ...]
    slots: int
    tensor_bytes: int
    storage_bytes: int
    bytes_without_parameters: int
    hidden: int


@dataclass(frozen=True, kw_only=True)
class GraphMemory:
    """What a graph keeps alive for backward; `GraphTrace.memory` gives it.

    Each group lists its shares from the largest to the smallest, without parameters.

    Attributes:
        node_count: How many nodes the graph has, with or without saved tensors.
        recomputing: The indices of the nodes for which backward will run code of the forward again.
        hiding: The indices of the nodes that do not show what they keep, which counts nowhere here.
        total: Everything together.
        storages: The memory, piece by piece, from the largest to the smallest.
        nodes: Node by node.
        kinds: By the name of the node.
        modules: By the path of the module, where it is known.
        sources: By the line of code, where it is known.
        devices: By the device that the memory is on.
        states: By `SavedTensor.state`, with ``"on ctx"`` for what custom functions keep as
            attributes, and ``"cached"`` for the results that selective checkpointing keeps.
    """

    node_count: int
    recomputing: tuple[int, ...]
    hiding: tuple[int, ...]
    total: MemoryShare
    storages: tuple[KeptStorage, ...]
    nodes: tuple[MemoryShare, ...]
    kinds: tuple[MemoryShare, ...]
    modules: tuple[MemoryShare, ...]
    sources: tuple[MemoryShare, ...]
    devices: tuple[MemoryShare, ...]
    states: tuple[MemoryShare, ...]

    @property
    def why(self) -> tuple[str, ...]:
        """What a living output pins, and what backward will not find there, in sentences."""
        return card(self).sentences

    def __str__(self) -> str:
        return card(self).to_text()

    def _repr_html_(self) -> str:
        return card(self).to_html()

    def to_dict(self) -> dict[str, Any]:
        """Give every field under its name, as JSON types only.

        Returns:
            Shares and storages as dicts, devices and data types by their names.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> x = torch.ones(3, requires_grad=True)
            >>> trace_graph(x.exp()).memory.to_dict()["total"]["storage_bytes"]
            12
        """
        fields: dict[str, Any] = json_types(self)
        return fields


def memory_of(nodes: Sequence[TracedNode]) -> GraphMemory:
    """Add up what the nodes keep."""
    pairs = [(node, saved) for node in nodes for saved in node.saved]
    return GraphMemory(
        node_count=len(nodes),
        recomputing=tuple(node.index for node in nodes if node.recomputes),
        hiding=tuple(node.index for node in nodes if node.hides_saved),
        total=_share("all", [saved for _, saved in pairs]),
        storages=_storages(saved for _, saved in pairs),
        nodes=_by_node(nodes),
        kinds=_shares((node.name, saved) for node, saved in pairs),
        modules=_shares((node.module, saved) for node, saved in pairs),
        sources=_shares((node.source, saved) for node, saved in pairs),
        devices=_shares((saved.device, saved) for _, saved in pairs),
        states=_shares((_state(saved), saved) for _, saved in pairs),
    )


def _state(saved: SavedTensor) -> str:
    if saved.name.startswith("checkpoint.cache"):
        return "cached"
    return "on ctx" if saved.is_on_ctx else saved.state


def _by_node(nodes: Sequence[TracedNode]) -> tuple[MemoryShare, ...]:
    return _from_largest([_share(node.name, node.saved) for node in nodes if node.saved])


def _shares(keyed: Iterable[tuple[object, SavedTensor]]) -> tuple[MemoryShare, ...]:
    """Group what has a key other than None."""
    groups = defaultdict[object, list[SavedTensor]](list)
    for key, saved in keyed:
        if key is not None:
            groups[key].append(saved)
    return _from_largest([_share(str(key), saved) for key, saved in groups.items()])


def _from_largest(shares: list[MemoryShare]) -> tuple[MemoryShare, ...]:
    def largest(share: MemoryShare) -> tuple[int, ...]:
        return -share.bytes_without_parameters, -share.storage_bytes, *share.nodes[:1]

    return tuple(sorted(shares, key=largest))


def _share(name: str, saved: Sequence[SavedTensor]) -> MemoryShare:
    kept = {slot.storage: slot for slot in saved if slot.storage is not None}
    parameters = {slot.storage for slot in saved if slot.is_parameter}
    return MemoryShare(
        name=name,
        nodes=tuple(dict.fromkeys(slot.node for slot in saved)),
        slots=len(saved),
        tensor_bytes=sum(map(_tensor_bytes, saved)),
        storage_bytes=sum(slot.nbytes or 0 for slot in kept.values()),
        bytes_without_parameters=sum(
            slot.nbytes or 0 for storage, slot in kept.items() if storage not in parameters
        ),
        hidden=sum(slot.nbytes is None and slot.state in {"live", "packed"} for slot in saved),
    )


def _tensor_bytes(saved: SavedTensor) -> int:
    """Multiply the sizes; where they are not all known, take the bytes of the storage.

    A tensor that wraps others takes nothing beyond what these do.
    """
    if saved.storage is None and saved.nbytes == 0:
        return 0
    sizes = [size for size in saved.shape or () if isinstance(size, int)]
    if saved.shape is None or saved.dtype is None or len(sizes) < len(saved.shape):
        return saved.nbytes or 0
    return prod(sizes) * saved.dtype.itemsize


def _storages(saved: Iterable[SavedTensor]) -> tuple[KeptStorage, ...]:
    groups = defaultdict[tuple[int, int, torch.device], list[SavedTensor]](list)
    for slot in saved:
        match slot:
            case SavedTensor(
                storage=int(number), nbytes=int(nbytes), device=torch.device() as device
            ):
                groups[-nbytes, number, device].append(slot)
    return tuple(
        KeptStorage(
            number=number,
            nbytes=-nbytes,
            device=device,
            is_parameter=any(slot.is_parameter for slot in group),
            saved=tuple(group),
        )
        for (nbytes, number, device), group in sorted(groups.items(), key=lambda item: item[0][:2])
    )
