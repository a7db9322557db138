"""Changes since the forward pass that autograd does not check.

A backward then computes with the new values, or raises an error about a checkpoint.
"""

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._explain.conflict_words import PARAMETER, write_text
from leafgrad._explain.findings import place_of_node
from leafgrad._explain.groups import names_in_words
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
    for saved in _autograd.read_saved(live, ()):
        number, write = log.last_write(saved.written, is_hidden=True)
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
    for tensor, saver in _data_replaced(live, log):
        name = names.get(_autograd.storage_identity(tensor) or 0, "A tensor")
        yield REPLACED.format(name=name, node=place_of_node(by_index[saver]))
    for block in _autograd.checkpointed_blocks(live):
        node = by_index[live.index(block.nodes[0])]
        newest = max(_autograd.sequence_nr(one) or 0 for one in block.nodes)
        written: dict[str, list[str]] = {}
        for storage in dict.fromkeys(map(_autograd.storage_identity, _leaves_of(block))):
            number, write = log.last_write(storage)
            if write is not None and number > newest:
                name = names.get(storage or 0, "a leaf")
                written.setdefault(write_text(write), []).append(name)
        for text, those in written.items():
            yield RECOMPUTED.format(
                name=names_in_words(those), write=text, node=place_of_node(node), cure=PARAMETER
            )


def _data_replaced(live: Sequence[Node], log: Log) -> Iterator[tuple[Tensor, int]]:
    """Yield the leaves whose data was replaced since a node saved them, and the node."""
    replaced = {id(leaf): (leaf, number) for leaf, number in log.replaced_leaves()}
    for place, node in enumerate(live) if replaced else ():
        made = _autograd.sequence_nr(node) or 0
        for slot in _autograd.saved_slots(node):
            leaf, number = replaced.get(id(slot.tensor), (None, 0))
            if leaf is not None and number > made:
                del replaced[id(leaf)]
                yield leaf, place


def _leaves_of(block: _autograd.Block) -> Iterator[Tensor]:
    """Yield the leaves that the nodes of a block lead to at once or by ``t()``."""
    for node in block.nodes:
        for after, _ in _autograd.next_functions(node):
            ahead = [] if after is None else [after, *(one for one, _ in _steps(after))]
            found = map(_autograd.leaf_variable, ahead)
            yield from (leaf for leaf in found if leaf is not None)


def _steps(node: Node) -> list[_autograd.Edge]:
    edges = _autograd.next_functions(node)
    return [(one, number) for one, number in edges if one is not None] if len(edges) == 1 else []


def doubts_about_blocks(
    nodes: Sequence[TracedNode], live: Sequence[Node], log: Log
) -> Iterator[tuple[TracedNode, str]]:
    """Yield for each checkpointed block a node, and what may differ when it runs again.

    That is where random numbers are drawn, or where requires_grad of a leaf was changed since.
    """
    by_index = {node.index: node for node in nodes}
    late = {number for call in log.flow.late_uses() for number in range(*call[:2])}
    for block in _autograd.checkpointed_blocks(live):
        node = by_index[live.index(block.nodes[0])]
        is_frozen = any(not _autograd.plain(one, "requires_grad") for one in _leaves_of(block))
        is_late = not late.isdisjoint(map(_autograd.sequence_nr, block.nodes))
        random = "" if block.restores_random_state else RANDOM
        yield node, SWITCHED if is_frozen or is_late else random


REPLACED = (
    "{name}, saved by {node}: its .data was replaced since. autograd does not count "
    "such a write: backward() will run, and compute a wrong gradient. Write only after backward()."
)
RECOMPUTED = (
    "{name}: {write} after the checkpointed block of {node} ran. The block runs again in "
    "backward(), on the new values: its gradients will be wrong, without an error. {cure}"
)
SWITCHED = (
    "requires_grad of a tensor was switched since the checkpointed block of {node} ran. The block "
    "runs again in backward(), which may raise an error, as it saves other tensors then. Switch "
    "requires_grad only after backward()."
)
RANDOM = (
    "The checkpoint of {node} was called with preserve_rng_state=False. If its block draws random "
    "numbers, as dropout() does, backward() draws others, and gradients are wrong without an "
    "error. Leave that argument out."
)
