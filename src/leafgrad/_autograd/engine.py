"""One real backward, watched node by node."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, Node, _engine_run_backward
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    _pop_mode,
    _push_mode,
)
from torch.utils.weak import TensorWeakRef

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
    _let_node_run()
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
    _let_node_run()
    visit(node, (gradient,), ())


@contextmanager
def retained_grads_kept(known: Sequence[torch.Tensor]) -> Iterator[None]:
    """Put back the ``.grad`` of each result that retains it, wherever someone has it.

    A backward adds to them even where `torch.autograd.grad` started it, and no node shows which
    tensors these are. So they are looked for only where something was stored: among those that are
    known, and then among all, the newest first.
    """
    mode = _GradientStores()
    _push_mode(mode)
    try:
        yield
    finally:
        _pop_mode()
        with unobserved():
            mode.put_back(known)


class _GradientStores(TorchDispatchMode):
    """Sees what the hook of ``retain_grad()`` stores: a copy, or a sum with what was there before.

    PyTorch runs these hooks just before those of the node. `watched_nodes` switches the mode off
    there, so that it sees neither the node nor what that runs; PyTorch brings it back for the next
    node.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.stored: dict[int, tuple[TensorWeakRef, torch.Tensor | None]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _STORING:
            reference = TensorWeakRef(result)
            self.stored[id(result)] = reference, _STORING[func](*args)
        return result

    def put_back(self, known: Iterable[torch.Tensor]) -> None:
        """Let tensors that hold what was stored have again what they held before.

        What a hook of the user's copied or added up is gone by now, as a rule.
        """
        live: dict[int, torch.Tensor | None] = {}
        while self.stored:  # the last first, as it may hold an earlier one
            key, (result, before) = self.stored.popitem()
            if result() is not None:
                live[key] = before
        for tensors in chain([known], map(alive, range(len(gc.get_count())))):
            if not live:
                return
            for tensor in tensors:
                gradient = held_grad(tensor) if plain(tensor, "retains_grad") else None
                if id(gradient) in live and not is_invalid_view(tensor):
                    tensor.grad = live.pop(id(gradient))


_STORING: dict[Any, Callable[..., torch.Tensor | None]] = {
    torch.ops.aten.clone.default: lambda _: None,
    torch.ops.aten.add.Tensor: lambda before, _: before,
}


def _let_node_run() -> None:
    """Switch off what sees the hooks of ``retain_grad()``, for this node."""
    if isinstance(_get_current_dispatch_mode(), _GradientStores):
        _pop_mode()


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
