"""Add up the memory that a graph keeps alive for the backward pass, by kind, module and line."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from leafgrad._display.card import Card, ShownAsCard
from leafgrad._display.units import count, size
from leafgrad._graph.nodes import SavedTensor, TracedNode, element_count
from leafgrad._messages import has_message, message

MOST_SHARES = 3
WIDEST_NAME = 36


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryShare:
    """The memory that a group of saved tensors keeps alive.

    If two groups share a storage, it counts in each of them.

    Attributes:
        name: The property that the group has in common: the name of a node, a module, or a line of
            code.
        nodes: The indices of the nodes that save the tensors.
        slots: The number of saved tensors.
        tensor_bytes: The number of bytes if each tensor had its own memory.
        storages: The number of distinct storages that contain the tensors.
        storage_bytes: The number of bytes of these storages.
        bytes_without_parameters: The number of bytes of the storages that belong to no parameter.
        hidden: The number of tensors whose memory PyTorch does not show. These are sparse tensors,
            and tensors that a hook packed into something other than one tensor.
    """

    name: str
    nodes: tuple[int, ...]
    slots: int
    tensor_bytes: int
    storages: int
    storage_bytes: int
    bytes_without_parameters: int
    hidden: int


@dataclass(frozen=True, kw_only=True, repr=False)
class GraphMemory(ShownAsCard):
    """The memory that a graph keeps alive for the backward pass. `GraphTrace.memory` returns it.

    The shares in each group are sorted from the largest to the smallest, not counting parameters.

    Attributes:
        node_count: The number of nodes, with or without saved tensors.
        recomputing: The indices of the nodes for which ``backward()`` runs code of the forward pass
            again.
        hiding: The indices of the nodes whose saved tensors PyTorch does not show. The memory of
            these tensors is not counted.
        total: All saved tensors together.
        kinds: The shares by name of the node.
        modules: The shares by path of the module, where it is known.
        sources: The shares by line of code, where it is known.
        states: The shares by `SavedTensor.state`. There is also ``"on ctx"`` for tensors that
            custom functions keep as attributes, and ``"cached"`` for results that selective
            checkpointing keeps.
    """

    node_count: int
    recomputing: tuple[int, ...]
    hiding: tuple[int, ...]
    total: MemoryShare
    kinds: tuple[MemoryShare, ...]
    modules: tuple[MemoryShare, ...]
    sources: tuple[MemoryShare, ...]
    states: tuple[MemoryShare, ...]

    @property
    def why(self) -> tuple[str, ...]:
        """Sentences about the memory that the graph keeps alive, and about recomputation."""
        return self._card().sentences

    def _card(self) -> Card:
        """Return a card with the totals and the largest shares."""
        total = self.total
        without_parameters, tensors = size(total.bytes_without_parameters), size(total.tensor_bytes)
        storages = message(
            "memory.memory-fact",
            bytes=size(total.storage_bytes),
            storages=count(total.storages, "storage"),
        )
        rows = (
            (
                message("memory.saved"),
                message("memory.saved-fact", count=total.slots, bytes=tensors),
            ),
            (message("memory.memory"), storages),
            (message("memory.without-parameters"), without_parameters),
            *_largest_rows("modules", self.modules),
            *_largest_rows("lines", self.sources),
            *_largest_rows("kinds", self.kinds),
        )
        title = message("memory.title", bytes=without_parameters)
        return Card(title=title, rows=rows, sentences=tuple(_sentences(self)))


def memory_of(nodes: Sequence[TracedNode]) -> GraphMemory:
    """Return the memory that the nodes keep alive."""
    pairs = [(node, saved) for node in nodes for saved in node.saved]
    return GraphMemory(
        node_count=len(nodes),
        recomputing=tuple(node.index for node in nodes if node.recomputes),
        hiding=tuple(node.index for node in nodes if node.hides_saved),
        total=_share("all", [saved for _, saved in pairs]),
        kinds=_shares((node.name, saved) for node, saved in pairs),
        modules=_shares((node.module, saved) for node, saved in pairs),
        sources=_shares((node.source, saved) for node, saved in pairs),
        states=_shares((_state(saved), saved) for _, saved in pairs),
    )


def bytes_without_parameters(saved: Sequence[SavedTensor]) -> int:
    """Return the bytes of the distinct storages that belong to no parameter."""
    parameters = {slot.storage for slot in saved if slot.is_parameter}
    nbytes = _bytes_by_storage(saved)
    return sum(nbytes[storage] for storage in nbytes if storage not in parameters)


def _bytes_by_storage(saved: Iterable[SavedTensor]) -> dict[int, int]:
    """Map the number of each storage to its bytes."""
    return {slot.storage: slot.nbytes or 0 for slot in saved if slot.storage is not None}


def _state(saved: SavedTensor) -> str:
    """Return the group of a saved tensor in `GraphMemory.states`."""
    if saved.name.startswith("checkpoint.cache"):
        return "cached"
    return "on ctx" if saved.is_on_ctx else saved.state


def _shares(keyed: Iterable[tuple[object, SavedTensor]]) -> tuple[MemoryShare, ...]:
    """Return the memory of each group of saved tensors with the same key, the largest first."""
    groups = defaultdict[object, list[SavedTensor]](list)
    for key, saved in keyed:
        if key is not None:
            groups[key].append(saved)
    shares = [_share(str(key), saved) for key, saved in groups.items()]
    shares.sort(key=lambda one: (-one.bytes_without_parameters, -one.storage_bytes, one.nodes[0]))
    return tuple(shares)


def _share(name: str, saved: Sequence[SavedTensor]) -> MemoryShare:
    """Return the memory that a group of saved tensors keeps alive."""
    storages = _bytes_by_storage(saved)
    return MemoryShare(
        name=name,
        nodes=tuple(dict.fromkeys(slot.node for slot in saved)),
        slots=len(saved),
        tensor_bytes=sum(map(_tensor_bytes, saved)),
        storages=len(storages),
        storage_bytes=sum(storages.values()),
        bytes_without_parameters=bytes_without_parameters(saved),
        hidden=sum(slot.nbytes is None and slot.state in {"live", "packed"} for slot in saved),
    )


def _tensor_bytes(saved: SavedTensor) -> int:
    """Return the bytes of a tensor by its shape; those of its storage if a size is unknown.

    A tensor that wraps others takes no bytes of its own.
    """
    if saved.storage is None and saved.nbytes == 0:
        return 0
    elements = element_count(saved.shape)
    if elements is None or saved.dtype is None:
        return saved.nbytes or 0
    return elements * saved.dtype.itemsize


def _largest_rows(group: str, shares: Sequence[MemoryShare]) -> Iterator[tuple[str, str]]:
    """Yield card rows for the three largest shares, then a row that counts the other shares.

    `group` is what the shares are grouped by; it is a part of the message keys.
    """
    for rank, share in enumerate(shares[:MOST_SHARES]):
        name = share.name or message("modules.outermost")
        if len(name) > WIDEST_NAME:
            name = f"...{name[3 - WIDEST_NAME :]}"
        heading = message(f"memory.{group}") if rank == 0 else ""
        yield heading, f"{size(share.bytes_without_parameters):>10}  {name}"
    if len(shares) > MOST_SHARES:
        yield "", message(f"memory.more-{group}", count=len(shares) - MOST_SHARES)


def _sentences(memory: GraphMemory) -> Iterator[str]:
    """Yield sentences about the memory: its size, tensors that hooks keep, and recomputation."""
    total, nodes = memory.total, count(memory.node_count, "node")
    yield message("memory.alive", nodes=nodes, bytes=size(total.storage_bytes))
    for state in memory.states:
        key = f"memory.states.{state.name.replace(' ', '-')}"
        if has_message(key):
            tensors = count(state.slots, "tensor")
            yield message(key, tensors=tensors, bytes=size(state.storage_bytes))
    if memory.recomputing:
        is_partial = any(state.name == "cached" for state in memory.states)
        key = "recomputed-partly" if is_partial else "recomputed"
        yield message(f"memory.{key}", nodes=count(len(memory.recomputing), "node"))
    if total.hidden:
        yield message("memory.hidden", tensors=count(total.hidden, "tensor"))
    if memory.hiding:
        yield message("memory.hiding", nodes=count(len(memory.hiding), "node"))
