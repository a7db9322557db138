"""What a graph keeps alive for backward: by node, kind, module, line, device and state."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from leafgrad._display.card import Card, ShownAsCard
from leafgrad._display.jsonable import fields_as_json
from leafgrad._display.units import count, size
from leafgrad._graph.nodes import SavedTensor, TracedNode
from leafgrad._graph.saved_states import SAVED_STATES

MOST_SHARES = 3
WIDEST_NAME = 36


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


@dataclass(frozen=True, kw_only=True, repr=False)
class GraphMemory(ShownAsCard):
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
        return self._card().sentences

    def _card(self) -> Card:
        """Put the sums and the largest shares into rows."""
        total = self.total
        rows = (
            ("tensors saved", f"{total.slots}, together {size(total.tensor_bytes)}"),
            ("memory", f"{size(total.storage_bytes)} in {count(len(self.storages), 'storage')}"),
            ("without parameters", size(total.bytes_without_parameters)),
            *_largest_rows("module", self.modules),
            *_largest_rows("line", self.sources),
            *_largest_rows("kind", self.kinds),
        )
        title = f"kept for backward: {size(total.bytes_without_parameters)} without parameters"
        return Card(title=title, rows=rows, sentences=tuple(_sentences(self)))

    def to_dict(self) -> dict[str, Any]:
        """Return every field under its name, as JSON types only.

        Returns:
            Shares and storages as dicts, devices and data types by their names.

        Example:
            >>> import torch
            >>> from leafgrad import trace_graph
            >>> x = torch.ones(3, requires_grad=True)
            >>> trace_graph(x.exp()).memory.to_dict()["total"]["storage_bytes"]
            12
        """
        return fields_as_json(self)


def memory_of(nodes: Sequence[TracedNode]) -> GraphMemory:
    """Add up what the nodes keep."""
    pairs = [(node, saved) for node in nodes for saved in node.saved]
    return GraphMemory(
        node_count=len(nodes),
        recomputing=tuple(node.index for node in nodes if node.recomputes),
        hiding=tuple(node.index for node in nodes if node.hides_saved),
        total=_share("all", [saved for _, saved in pairs]),
        storages=_storages(saved for _, saved in pairs),
        nodes=_from_largest(_share(node.name, node.saved) for node in nodes if node.saved),
        kinds=_shares((node.name, saved) for node, saved in pairs),
        modules=_shares((node.module, saved) for node, saved in pairs),
        sources=_shares((node.source, saved) for node, saved in pairs),
        devices=_shares((saved.device, saved) for _, saved in pairs),
        states=_shares((_state(saved), saved) for _, saved in pairs),
    )


def bytes_without_parameters(saved: Sequence[SavedTensor]) -> int:
    """Return the bytes of the distinct storages that are no parameter's, which live anyway."""
    parameters = {slot.storage for slot in saved if slot.is_parameter}
    kept = _bytes_by_storage(saved)
    return sum(nbytes for storage, nbytes in kept.items() if storage not in parameters)


def _bytes_by_storage(saved: Iterable[SavedTensor]) -> dict[int, int]:
    return {slot.storage: slot.nbytes or 0 for slot in saved if slot.storage is not None}


def _state(saved: SavedTensor) -> str:
    if saved.name.startswith("checkpoint.cache"):
        return "cached"
    return "on ctx" if saved.is_on_ctx else saved.state


def _shares(keyed: Iterable[tuple[object, SavedTensor]]) -> tuple[MemoryShare, ...]:
    """Group what has a key other than None."""
    groups = defaultdict[object, list[SavedTensor]](list)
    for key, saved in keyed:
        if key is not None:
            groups[key].append(saved)
    return _from_largest(_share(str(key), saved) for key, saved in groups.items())


def _from_largest(shares: Iterable[MemoryShare]) -> tuple[MemoryShare, ...]:
    def largest(share: MemoryShare) -> tuple[int, ...]:
        return -share.bytes_without_parameters, -share.storage_bytes, *share.nodes[:1]

    return tuple(sorted(shares, key=largest))


def _share(name: str, saved: Sequence[SavedTensor]) -> MemoryShare:
    return MemoryShare(
        name=name,
        nodes=tuple(dict.fromkeys(slot.node for slot in saved)),
        slots=len(saved),
        tensor_bytes=sum(map(_tensor_bytes, saved)),
        storage_bytes=sum(_bytes_by_storage(saved).values()),
        bytes_without_parameters=bytes_without_parameters(saved),
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


# --- In words


def _largest_rows(group: str, shares: Sequence[MemoryShare]) -> Iterator[tuple[str, str]]:
    for rank, share in enumerate(shares[:MOST_SHARES]):
        name = share.name or "the outermost"
        if len(name) > WIDEST_NAME:
            name = f"...{name[3 - WIDEST_NAME :]}"
        heading = f"largest {group}s" if rank == 0 else ""
        yield heading, f"{size(share.bytes_without_parameters):>10}  {name}"
    if len(shares) > MOST_SHARES:
        yield "", f"and {count(len(shares) - MOST_SHARES, group)} more"


def _sentences(memory: GraphMemory) -> Iterator[str]:
    total = memory.total
    kept = f"{size(total.storage_bytes)} that they keep for backward"
    yield (
        f"As long as one of the outputs lives, so do {count(memory.node_count, 'node')} and the "
        f"{kept}. Where only a value is needed, keep output.detach() or output.item() instead."
    )
    for state in memory.states:
        if sentence := SAVED_STATES[state.name].sentence:
            yield sentence.format(
                slots=count(state.slots, "tensor"), bytes=size(state.storage_bytes)
            )
    if memory.recomputing:
        nodes = count(len(memory.recomputing), "node")
        if any(state.name == "cached" for state in memory.states):
            nodes = f"up to {nodes}"
        yield f"For {nodes}, backward computes again what checkpoint() did not keep."
    if total.hidden:
        yield f"{count(total.hidden, 'tensor')} of these do not show what memory they keep."
    if memory.hiding:
        hiding = count(len(memory.hiding), "node")
        yield f"Of {hiding}, PyTorch does not show what is kept, which comes on top."
