"""Run backward passes that leave the graph and every ``.grad`` unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch.autograd.graph import Node, _engine_run_backward

from leafgrad._autograd.elements import lacking_memory
from leafgrad._autograd.formula import call_backward, is_compiled
from leafgrad._autograd.forward import CallInBackward
from leafgrad._autograd.node import (
    ForwardOutput,
    Successors,
    forward_class,
    forward_outputs,
    leaf_variable,
    node_name,
)
from leafgrad._autograd.path import Path
from leafgrad._autograd.saved import saved_slots
from leafgrad._autograd.tensor import (
    alive,
    held_grad,
    is_invalid_view,
    plain,
    storage_identity,
    unobserved,
)
from leafgrad._autograd.traversal import Edge
from leafgrad._messages import message

Gradients = tuple[torch.Tensor | None, ...]
Visit = Callable[[Node, Gradients, Gradients], None]


@contextmanager
def watch_nodes(graph: Mapping[Node, Successors], visit: Visit) -> Iterator[None]:
    """Call `visit` for each node that a backward pass runs, in the order of the engine.

    `visit` gets the node, the gradients that it passed on (one for each edge) and the gradients
    that arrived. A leaf passes nothing on; it is visited when its gradient is complete.

    If the memory of a saved tensor was freed, an error is raised before its node runs. PyTorch
    would read that memory, which kills the process.
    """
    with ExitStack() as handles:
        for node in graph:
            leaf = leaf_variable(node)
            if leaf is None:
                handles.callback(node.register_prehook(partial(_check_memory, node)).remove)
                handles.callback(node.register_hook(partial(visit, node)).remove)
            elif plain(leaf, "requires_grad"):
                with unobserved():
                    handle: Any = leaf.register_hook(partial(_visit_leaf, visit, node))
                handles.callback(handle.remove)
        yield


def _check_memory(node: Node, _: Gradients) -> None:
    """Raise an error if the memory of a tensor that the node saved was freed."""
    for slot in saved_slots(node):
        if slot.tensor is None or slot.state != "live":
            continue
        lack = lacking_memory(slot.tensor)
        if lack is not None:
            key, name = "errors.grad-outputs.saved-memory", node_name(node)
            raise RuntimeError(message(key, node=name, name=slot.name, lack=lack))


def is_memory_missing(nodes: Sequence[Node]) -> bool:
    """Return whether the memory of any tensor that the nodes saved was freed."""
    slots = (slot for node in nodes for slot in saved_slots(node) if slot.state == "live")
    return any(slot.tensor is not None and lacking_memory(slot.tensor) for slot in slots)


def _visit_leaf(visit: Visit, node: Node, gradient: torch.Tensor) -> None:
    """Call `visit` with the gradient that arrived at a leaf."""
    visit(node, (), (gradient,))


@contextmanager
def preserve_retained_grads() -> Iterator[None]:
    """Restore the ``.grad`` of all tensors with ``retain_grad()`` after a backward pass.

    Even `torch.autograd.grad` adds to these. No node shows which tensors retain their gradient, so
    all living tensors are searched.
    """
    with unobserved():
        retaining = [one for one in alive() if plain(one, "retains_grad")]
        before = [(one, held_grad(one)) for one in retaining if not is_invalid_view(one)]
    try:
        yield
    finally:
        with unobserved():
            for tensor, gradient in before:
                if held_grad(tensor) is not gradient:
                    tensor.grad = gradient


def gradients_of_all(
    outputs: torch.Tensor, inputs: Sequence[torch.Tensor], *, create_graph: bool
) -> Gradients:
    """Return the gradients of the sum of `outputs` with respect to `inputs`, and keep the graph.

    The result is None for an input that `outputs` do not depend on. Unlike `torch.autograd.grad`,
    this does not check its arguments, which would take as long as the pass through several layers.
    """
    ones = torch.ones_like(outputs)
    if torch.overrides.has_torch_function((outputs, *inputs)):
        return torch.autograd.grad(
            outputs, inputs, ones, retain_graph=True, create_graph=create_graph, allow_unused=True
        )
    found: Gradients = _engine_run_backward(
        (outputs,),
        (ones,),
        keep_graph=True,
        create_graph=create_graph,
        inputs=tuple(inputs),
        allow_unreachable=True,
        accumulate_grad=False,
    )
    return found


@contextmanager
def preserve_donated_buffers(nodes: Iterable[Node]) -> Iterator[None]:
    """Allow compiled nodes to run backward, then restore the tensors that they had saved.

    Inductor reuses the memory of saved tensors for gradients and therefore refuses to keep the
    graph. The versions of the tensors do not change. Read the gradients before the context ends,
    because they may lie in that memory.
    """
    compiled = [node for node in nodes if is_compiled(node)]
    if not compiled:
        yield
        return
    with unobserved():
        storages = _storages(compiled)
        before = [(storage, storage.clone()) for storage in storages]
    try:
        with torch._functorch.config.patch(donated_buffer=False):
            yield
    finally:
        with unobserved():
            for storage, numbers in before:
                storage.copy_(numbers)


def _storages(nodes: Iterable[Node]) -> list[torch.UntypedStorage]:
    """Return the storages of the tensors that the nodes saved, each once."""
    slots = (slot for node in nodes for slot in saved_slots(node))
    kept = [slot.tensor for slot in slots if slot.state == "live" and slot.tensor is not None]
    found = {storage_identity(tensor): tensor for tensor in kept}
    found.pop(None, None)
    return [tensor.untyped_storage() for tensor in found.values() if not lacking_memory(tensor)]


def unseen_gradient(
    outputs: torch.Tensor, inputs: Sequence[torch.Tensor], path: Path, weight: torch.Tensor
) -> torch.Tensor | None:
    """Return the gradient of `inputs`, computed from that of `outputs` without calling any hook.

    Return None if no gradient arrives. The graph is kept.

    PyTorch's engine calls hooks before and after a node. Therefore each node is called directly,
    from within the first node of a real backward pass that stops there. Inside a real pass, nodes
    know which gradients are needed, and a checkpoint recomputes its block only once.

    Args:
        outputs: The tensor that the backward pass starts from.
        inputs: The tensors whose gradients count as needed.
        path: The nodes on the way from `outputs` to the inputs. The gradient at `path.start`, where
            that of the inputs arrives, is returned.
        weight: The gradient of `outputs`, which arrives at `path.end`.
    """
    found: list[torch.Tensor | None] = []

    def send_back() -> None:
        found.append(_sent_back(path, weight))
        raise _Ended

    with unobserved():
        with torch.enable_grad():
            end = CallInBackward.apply(outputs, send_back)  # type: ignore[no-untyped-call]
        # With anomaly detection, PyTorch would warn about the exception.
        with torch.autograd.set_detect_anomaly(False), suppress(_Ended):
            torch.autograd.grad(end, inputs, retain_graph=True, allow_unused=True)
    return found[0]


class _Ended(Exception):  # noqa: N818 (not an error)
    """Raised inside leafgrad's own backward pass, to end it before it runs the user's nodes."""


def _sent_back(path: Path, weight: torch.Tensor) -> torch.Tensor | None:
    """Return the gradient that arrives at `path.start`, given the gradient `weight` at `path.end`.

    The path starts at the inputs and ends at the outputs. Return None if no gradient arrives there.
    """
    waiting: dict[Edge, torch.Tensor] = {path.end: weight}
    for node in reversed(path.nodes):
        outputs = forward_outputs(node)
        arrived = [waiting.pop((node, number), None) for number in range(len(outputs))]
        if all(gradient is None for gradient in arrived):
            continue
        if forward_class(node) is not None:  # its backward expects zeros instead of None
            pairs = zip(outputs, arrived, strict=True)
            arrived = [_zeros(output) if given is None else given for output, given in pairs]
        passed = zip(path.nodes[node], call_backward(node, *arrived), strict=True)
        for (after, number), gradient in passed:
            if after is None or gradient is None:
                continue
            edge = after, number
            if after in path.nodes or edge == path.start:
                fitted = _fitted(gradient, forward_outputs(after)[number])
                waiting[edge] = waiting[edge] + fitted if edge in waiting else fitted
    return waiting.get(path.start)


def _zeros(output: ForwardOutput) -> torch.Tensor | None:
    """Return a zero gradient for an output of a node, None if its shape is unknown."""
    shape, dtype, device = output
    return None if shape is None else torch.zeros(shape, dtype=dtype, device=device)  # type: ignore[arg-type]


def _fitted(gradient: torch.Tensor, output: ForwardOutput) -> torch.Tensor:
    """Sum and cast a gradient to the shape, dtype and device of the output that it belongs to.

    The engine does the same between two nodes, for example after broadcasting.
    """
    shape, dtype, device = output
    if shape is not None and tuple(gradient.shape) != shape:
        gradient = gradient.sum_to_size(shape)  # type: ignore[arg-type]
    if gradient.is_complex() and not dtype.is_complex:
        gradient = gradient.real
    return gradient.to(device, dtype)
