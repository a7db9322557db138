"""Changes since the forward pass that autograd does not check.

A backward then computes with the new values, or raises an error about a checkpoint.
"""

from collections.abc import Iterator, Mapping, Sequence

from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._explain.conflict_words import PARAMETER, write_text
from leafgrad._explain.findings import place_of_node
from leafgrad._graph.nodes import TracedNode
from leafgrad._record.log import Log


def silent_errors(
    nodes: Sequence[TracedNode], live: Sequence[Node], log: Log, names: Mapping[int, str]
) -> Iterator[str]:
    """Yield a sentence for each write that makes gradients wrong without an error.

    Names are those of tensors, by the identity of their storage.
    """
    by_index = {node.index: node for node in nodes}
    told = set[int | None]()
    for saved in _autograd.read_saved(live, ()) if log.hidden_writes else ():
        number, write = log.hidden_writes.get(saved.written or 0, (0, None))
        made = _autograd.sequence_nr(live[saved.node]) or 0
        if write is None or number <= made or saved.written in told:
            continue
        told.add(saved.written)
        yield (
            f"{names.get(saved.written or 0, 'A tensor')}, saved by "
            f"{place_of_node(by_index[saved.node])}, was {write_text(write)} through .data. "
            "autograd does not count such a write: backward() will run, and compute a wrong "
            "gradient. Write only after backward(), or make a new tensor."
        )
    for block in _autograd.checkpointed_blocks(live) if log.last_writes else ():
        yield from _written_since(block, by_index[live.index(block.nodes[0])], log, names)


def _written_since(
    block: _autograd.Block, node: TracedNode, log: Log, names: Mapping[int, str]
) -> Iterator[str]:
    newest = max(_autograd.sequence_nr(one) or 0 for one in block.nodes)
    for tensor in block.read:
        storage = _autograd.storage_identity(tensor) or 0
        writes = (last.get(storage, (0, None)) for last in (log.last_writes, log.hidden_writes))
        number, write = max(writes, key=lambda last: last[0])
        if write is not None and number > newest + 1 and _autograd.is_parameter(tensor):
            yield (
                f"{names.get(storage, 'A parameter')} was {write_text(write)} after the "
                f"checkpointed block of {place_of_node(node)} ran. The block runs again in "
                "backward(), on the new values: its gradients will be wrong, without an error. "
                f"{PARAMETER}"
            )
            return


def doubts_about_blocks(
    nodes: Sequence[TracedNode], live: Sequence[Node]
) -> Iterator[tuple[TracedNode, str]]:
    """Yield for each checkpointed block its first node, and what cannot be seen of running again.

    That is where random numbers are drawn, or where a leaf has been frozen or is trained since.
    """
    by_index = {node.index: node for node in nodes}
    leaves = [leaf for leaf in map(_autograd.leaf_variable, live) if leaf is not None]
    for block in _autograd.checkpointed_blocks(live):
        node = by_index[live.index(block.nodes[0])]
        frozen = [one for one in leaves if not _autograd.plain(one, "requires_grad")]
        if any(one is other for one in block.read for other in frozen):
            yield node, FROZEN
        elif not block.restores_random_state:
            yield node, RANDOM
        else:
            yield node, ""


FROZEN = (
    "requires_grad of a tensor was switched off since the checkpointed block of {node} ran. The "
    "block runs again in backward(), which raises an error if it saves other tensors then. "
    "Switch requires_grad off only after backward()."
)
RANDOM = (
    "The checkpoint of {node} was called with preserve_rng_state=False. If its block draws random "
    "numbers, as dropout() does, backward() draws others, and gradients are wrong without an "
    "error. Leave that argument out."
)
