"""Reading live nodes, one after the other, into values."""

import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import torch
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._log import Log
from leafgrad._traced import CustomFunction, SavedTensor, TracedEdge, TracedNode


class Reader:
    """Copies the nodes of a graph, with an eye on what they share."""

    def __init__(
        self,
        graph: dict[Node, _autograd.Successors],
        tensors: Sequence[tuple[str | None, torch.Tensor]],
        log: Log,
    ) -> None:
        """Take a graph, the tensors at hand that may belong to it, with their names if any, a log.

        The log is empty where nothing was recorded.
        """
        self.graph = graph
        self.log = log
        self.numbers = {node: _autograd.sequence_nr(node) for node in graph}
        ordered = sorted(number for number in self.numbers.values() if number is not None)
        self.created = {number: place for place, number in enumerate(ordered)}
        self.orders = log.passes.orders(graph) if log.spans else {}
        self.index = {node: number for number, node in enumerate(graph)}
        self.storages = defaultdict[int, int](count().__next__)
        leaves = [leaf for node in graph if (leaf := _autograd.leaf_variable(node)) is not None]
        self.parameters = set(_parameter_storages([*leaves, *(tensor for _, tensor in tensors)]))
        self.tensors = defaultdict[Node | int, list[tuple[str | None, torch.Tensor]]](list)
        for name, tensor in tensors:
            node = _autograd.plain(tensor, "grad_fn")
            self.tensors[id(tensor) if node is None else node].append((name, tensor))

    def nodes(self) -> tuple[TracedNode, ...]:
        """Copy every node, in the order of the graph."""
        return tuple(self._node(node) for node in self.graph)

    def _node(self, node: Node) -> TracedNode:
        leaf = _autograd.leaf_variable(node)
        outputs = _autograd.forward_outputs(node)
        tensors = self.tensors.get(node if leaf is None else id(leaf), [])
        at_hand = [tensor for _, tensor in tensors] + ([] if leaf is None else [leaf])
        return TracedNode(
            index=self.index[node],
            name=_autograd.node_name(node),
            shapes=tuple(output.shape for output in outputs),
            dtype=outputs[0].dtype,
            device=outputs[0].device,
            edges=tuple(self._edges(node)),
            saved=tuple(self._saved(node)),
            tensor_names=tuple(name for name, _ in tensors if name is not None),
            is_leaf=leaf is not None,
            retains_grad=_retains_grad(at_hand),
            custom_function=_custom_function(node),
            derivative_order=self.orders.get(node),
            **self._origin(self.numbers[node]),
        )

    def _origin(self, number: int | None) -> dict[str, Any]:
        """Tell when the node was made and, if that was recorded, where."""
        if number is None:
            return {}
        return {
            "created": self.created[number],
            "module": self.log.module_of(number),
            "source": self.log.source_of(number),
        }

    def _edges(self, node: Node) -> Iterator[TracedEdge]:
        for output_nr, (successor, input_nr) in enumerate(self.graph[node]):
            yield TracedEdge(
                source=self.index[node],
                target=None if successor is None else self.index[successor],
                input_nr=input_nr,
                output_nr=output_nr,
            )

    def _saved(self, node: Node) -> Iterator[SavedTensor]:
        for slot in _autograd.saved_slots(node):
            if slot.tensor is None:
                yield SavedTensor(node=self.index[node], name=slot.name, state=slot.state)
            else:
                yield self._kept(self.index[node], slot, slot.tensor)

    def _kept(self, index: int, slot: _autograd.Slot, tensor: torch.Tensor) -> SavedTensor:
        identity, nbytes = _autograd.storage(tensor) or (None, None)
        shared = identity in self.parameters
        shown = slot.state != "packed"
        versions = slot.saved_version, slot.current_version
        return SavedTensor(
            node=index,
            name=slot.name,
            state=slot.state,
            shape=_autograd.shape(tensor) if shown else None,
            dtype=_autograd.plain(tensor, "dtype") if shown else None,
            device=_autograd.plain(tensor, "device"),
            nbytes=nbytes,
            storage=None if identity is None else self.storages[identity],
            is_parameter=shared or _autograd.is_parameter_or_view(tensor),
            saved_version=slot.saved_version,
            current_version=slot.current_version,
            writes=self.log.writes_between(identity, *versions),
        )


def _parameter_storages(tensors: Iterable[torch.Tensor]) -> Iterator[int]:
    """Identify the storages that belong to parameters."""
    for tensor in tensors:
        if _autograd.is_parameter(tensor) and (memory := _autograd.storage(tensor)):
            yield memory[0]


def _retains_grad(tensors: list[torch.Tensor]) -> bool | None:
    """Tell whether one of a node's tensors retains its gradient, None where none is at hand."""
    return any(_autograd.plain(tensor, "retains_grad") for tensor in tensors) if tensors else None


def _custom_function(node: Node) -> CustomFunction | None:
    function = _autograd.forward_class(node)
    if function is None:
        return None
    code = getattr(inspect.unwrap(function.forward), "__code__", None)
    return CustomFunction(
        name=f"{function.__module__}.{function.__qualname__}",
        file=code.co_filename if code else None,
        line=code.co_firstlineno if code else None,
    )
