"""One real backward, watched node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch.autograd.graph import Node, _engine_run_backward

from leafgrad._autograd.elements import lacking_memory
from leafgrad._autograd.formula import is_compiled, sent_through
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
def watched_nodes(graph: Mapping[Node, Successors], visit: Visit) -> Iterator[None]:
    """Call `visit` for each node that a backward takes, in the engine's order.

    It gets the node, the gradients that arrived and, of a node that leads on, those that it passed
    on, one an edge. A leaf is taken when its gradient is complete. PyTorch reads what a node saved
    even where the memory is gone, which kills the process, so just before that this raises.
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
    """Raise where the memory of what the node saved is gone when its backward is about to run."""
    for slot in saved_slots(node):
        if slot.tensor is None or slot.state != "live":
            continue
        lack = lacking_memory(slot.tensor)
        if lack is not None:
            key, name = "errors.grad-outputs.saved-memory", node_name(node)
            raise RuntimeError(message(key, node=name, name=slot.name, lack=lack))


def is_memory_missing(nodes: Sequence[Node]) -> bool:
    """Return whether the memory of anything that these nodes saved is gone."""
    slots = (slot for node in nodes for slot in saved_slots(node) if slot.state == "live")
    return any(slot.tensor is not None and lacking_memory(slot.tensor) for slot in slots)


def _visit_leaf(visit: Visit, node: Node, gradient: torch.Tensor) -> None:
    visit(node, (), (gradient,))


@contextmanager
def retained_grads_kept() -> Iterator[None]:
    """Put back the ``.grad`` of each result that retains it, wherever someone has it.

    A backward adds to them even where `torch.autograd.grad` started it, and no node shows which
    tensors these are.
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
    """Return what `torch.autograd.grad` gives for ones, None where nothing arrives; free nothing.

    Without its checks of what it is given, which take as long as the pass through several layers.
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
def donated_buffers_kept(nodes: Iterable[Node]) -> Iterator[None]:
    """Let compiled code run backward, and then write back what it had saved, behind the versions.

    A gradient that it hands on may lie in that memory, so it is to be read before the end.
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
    """Return the memory of what nodes saved, each once."""
    slots = (slot for node in nodes for slot in saved_slots(node))
    kept = [slot.tensor for slot in slots if slot.state == "live" and slot.tensor is not None]
    found = {storage_identity(tensor): tensor for tensor in kept}
    found.pop(None, None)
    return [tensor.untyped_storage() for tensor in found.values() if not lacking_memory(tensor)]


def unseen_gradient(
    outputs: torch.Tensor, inputs: Sequence[torch.Tensor], path: Path, weight: torch.Tensor
) -> torch.Tensor | None:
    """Return what arrives at the start of a path for a gradient of `outputs`; free nothing.

    The path leads to the tensors `inputs`. None if nothing arrives.

    PyTorch's engine calls hooks before and after a node, so here each node is called by itself, in
    the engine's stead: in the first node of a pass that ends there. So nodes know as in any pass
    which gradients are asked for, and a checkpoint runs its function once.
    """
    found: list[torch.Tensor | None] = []

    def send_back() -> None:
        found.append(_sent_back(path, weight))
        raise _Ended

    with unobserved():
        with torch.enable_grad():
            end = CallInBackward.apply(outputs, send_back)  # type: ignore[no-untyped-call]
        # Where anomalies are looked for, PyTorch warns of the end of the pass.
        with torch.autograd.set_detect_anomaly(False), suppress(_Ended):
            torch.autograd.grad(end, inputs, retain_graph=True, allow_unused=True)
    return found[0]


class _Ended(Exception):  # noqa: N818 (not an error)
    """Ends a pass before it comes to what somebody else made."""


def _sent_back(path: Path, weight: torch.Tensor) -> torch.Tensor | None:
    """Send a gradient along the path, node by node."""
    waiting: dict[Edge, torch.Tensor] = {path.end: weight}
    for node in reversed(path.nodes):
        outputs = forward_outputs(node)
        arrived = [waiting.pop((node, number), None) for number in range(len(outputs))]
        if all(gradient is None for gradient in arrived):
            continue
        if forward_class(node) is not None:  # a custom function gets zeros in place of None
            pairs = zip(outputs, arrived, strict=True)
            arrived = [_zeros(output) if given is None else given for output, given in pairs]
        passed = zip(path.nodes[node], sent_through(node, *arrived), strict=True)
        for (after, number), gradient in passed:
            if after is None or gradient is None:
                continue
            edge = after, number
            if after in path.nodes or edge == path.start:
                fitted = _fitted(gradient, forward_outputs(after)[number])
                waiting[edge] = waiting[edge] + fitted if edge in waiting else fitted
    return waiting.get(path.start)


def _zeros(output: ForwardOutput) -> torch.Tensor | None:
    shape, dtype, device = output
    return None if shape is None else torch.zeros(shape, dtype=dtype, device=device)  # type: ignore[arg-type]


def _fitted(gradient: torch.Tensor, output: ForwardOutput) -> torch.Tensor:
    """Add up along axes that were broadcast, and cast, as the engine does between two nodes."""
    shape, dtype, device = output
    if shape is not None and tuple(gradient.shape) != shape:
        gradient = gradient.sum_to_size(shape)  # type: ignore[arg-type]
    if gradient.is_complex() and not dtype.is_complex:
        gradient = gradient.real
    return gradient.to(device, dtype)
