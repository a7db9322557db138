"""What a graph keeps alive, as a card."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from leafgrad._display.card import Card
from leafgrad._display.units import count, size

if TYPE_CHECKING:
    from leafgrad._graph.memory import GraphMemory, MemoryShare

MOST_SHARES = 3
WIDEST_NAME = 36


def card(memory: "GraphMemory") -> Card:
    """Put the sums and the largest shares into rows."""
    total = memory.total
    rows = (
        ("tensors saved", f"{total.slots}, together {size(total.tensor_bytes)}"),
        ("memory", f"{size(total.storage_bytes)} in {count(len(memory.storages), 'storage')}"),
        ("without parameters", size(total.bytes_without_parameters)),
        *_largest("module", memory.modules),
        *_largest("line", memory.sources),
        *_largest("kind", memory.kinds),
    )
    title = f"kept for backward: {size(total.bytes_without_parameters)} without parameters"
    return Card(title=title, rows=rows, sentences=tuple(_sentences(memory)))


def _largest(group: str, shares: "tuple[MemoryShare, ...]") -> Iterator[tuple[str, str]]:
    for rank, share in enumerate(shares[:MOST_SHARES]):
        yield f"largest {group}s" * (rank == 0), _shown(share)
    if len(shares) > MOST_SHARES:
        yield "", f"and {count(len(shares) - MOST_SHARES, group)} more"


def _shown(share: "MemoryShare") -> str:
    name = share.name or "the outermost"
    name = name if len(name) <= WIDEST_NAME else f"...{name[3 - WIDEST_NAME :]}"
    return f"{size(share.bytes_without_parameters):>10}  {name}"


def _sentences(memory: "GraphMemory") -> Iterator[str]:
    total = memory.total
    kept = f"{size(total.storage_bytes)} that they keep for backward"
    yield (
        f"As long as one of the outputs lives, so do {count(memory.node_count, 'node')} and the "
        f"{kept}. Where only a value is needed, keep output.detach() or output.item() instead."
    )
    for state in memory.states:
        if state.name in STATES:
            yield STATES[state.name].format(
                slots=count(state.slots, "tensor"), bytes=size(state.storage_bytes)
            )
    if memory.recomputing:
        nodes = count(len(memory.recomputing), "node")
        most = "up to " * any(state.name == "cached" for state in memory.states)
        yield f"For {most}{nodes}, backward computes again what checkpoint() did not keep."
    if total.hidden:
        yield f"{count(total.hidden, 'tensor')} of these do not show what memory they keep."
    if memory.hiding:
        hiding = count(len(memory.hiding), "node")
        yield f"Of {hiding}, PyTorch does not show what is kept, which comes on top."


STATES = {
    "freed": "{slots} were freed already, as a backward does that does not retain the graph.",
    "packed": "{slots} were packed by a hook, into {bytes} where that can be seen.",
    "offloaded": "{slots} were moved to the CPU by save_on_cpu() and keep {bytes} there.",
    "cached": "{slots} ({bytes}) are cached by selective checkpointing, not computed again.",
    "on ctx": (
        "{slots} ({bytes}) stand on the ctx of a custom function, where no backward frees them: "
        "ctx.save_for_backward() keeps tensors that are freed."
    ),
}
