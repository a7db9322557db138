"""One real backward, watched node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, Node, _engine_run_backward

from leafgrad._autograd.elements import lacking_memory
from leafgrad._autograd.node import Successors, leaf_variable, node_name
from leafgrad._autograd.saved import saved_slots
from leafgrad._autograd.tensor import alive, held_grad, is_invalid_view, plain, unobserved
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
                handles.callback(node.register_hook(partial(_hook, visit, node)).remove)
            elif plain(leaf, "requires_grad"):
                with unobserved():
                    handle: Any = leaf.register_hook(partial(_leaf_hook, visit, node))
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


def _hook(visit: Visit, node: Node, passed: Gradients, arrived: Gradients) -> None:
    visit(node, arrived, passed)


def _leaf_hook(visit: Visit, node: Node, gradient: torch.Tensor) -> None:
    visit(node, (gradient,), ())


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


def gradients_of(
    outputs: Sequence[torch.Tensor | GradientEdge],
    weights: Sequence[torch.Tensor],
    ends: Sequence[tuple[Node, int]],
) -> Gradients:
    """Run one backward that goes as far as `ends`, fills no leaf's ``.grad`` and frees nothing."""
    return torch.autograd.grad(
        outputs,  # type: ignore[arg-type]
        [GradientEdge(*end) for end in ends],
        weights,
        retain_graph=True,
        allow_unused=True,
    )
