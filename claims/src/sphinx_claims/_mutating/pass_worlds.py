"""Worlds in which backward passes, and what keeps them away, are broken in one place.

Each function takes what PyTorch has and returns what the world has in its place; its name tells
what is wrong there.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge

from sphinx_claims._mutating.world import Function, World, collected, given, reading

PASS_WORLDS: list[World] = []
_world = collected(PASS_WORLDS)

_BACKWARD = "torch.autograd.backward"
_BOTH = (_BACKWARD, "torch.autograd.grad")
_ELEMENTARY = tuple(
    f"torch.{owner}{name}"
    for owner in ("", "Tensor.")
    for name in "cos exp log matmul mul pow sigmoid sin sqrt square tanh".split()
)
_OPERATORS = tuple(f"torch.Tensor.__{name}__" for name in "matmul mul pow rmul".split())


@_world(_BACKWARD)
def backward_does_nothing(_backward: Function) -> Function:
    return lambda *_, **__: None


@_world(_BACKWARD)
def backward_runs_twice(backward: Function) -> Function:
    first = _forcing(backward, retain_graph=lambda _: True)

    def twice(*arguments: Any, **options: Any) -> None:
        first(*arguments, **options)
        backward(*arguments, **options)

    return twice


@_world(_BACKWARD)
def backward_overwrites_what_was_accumulated(backward: Function) -> Function:
    def overwriting(tensors: Any, *arguments: Any, **options: Any) -> None:
        for leaf in _leaves(tensors):
            leaf.grad = None
        backward(tensors, *arguments, **options)

    return overwriting


@_world(_BACKWARD, when=lambda options: options.get("inputs") is not None)
def backward_fills_all_leaves_whatever_inputs_it_is_given(backward: Function) -> Function:
    return _forcing(backward, inputs=lambda _: None)


@_world(*_BOTH)
def no_graph_is_ever_freed(function: Function) -> Function:
    return _forcing(function, retain_graph=lambda _: True)


@_world(*_BOTH, when=lambda options: options.get("retain_graph"))
def every_graph_is_freed(function: Function) -> Function:
    return _forcing(function, retain_graph=lambda options: bool(options.get("create_graph")))


@_world(*_BOTH, when=lambda options: options.get("create_graph"))
def gradients_have_no_graph(function: Function) -> Function:
    return _forcing(
        function,
        retain_graph=lambda options: options.get("retain_graph") or options.get("create_graph"),
        create_graph=lambda _: False,
    )


@_world("torch.autograd.grad")
def derivatives_are_off_by_one_percent(grad: Function) -> Function:
    def wrong(*arguments: Any, **options: Any) -> Any:
        gradients = grad(*arguments, **options)
        return tuple(None if gradient is None else gradient * 1.01 for gradient in gradients)

    return wrong


@_world("torch.autograd.grad")
def autograd_grad_accumulates_as_backward_does(grad: Function) -> Function:
    def accumulating(outputs: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
        gradients = grad(outputs, inputs, *arguments, **options)
        given = [inputs] if isinstance(inputs, torch.Tensor) else inputs
        for tensor, gradient in zip(given, gradients, strict=True):
            if isinstance(tensor, torch.Tensor) and tensor.is_leaf and gradient is not None:
                old = tensor.grad
                tensor.grad = gradient.detach() if old is None else old + gradient.detach()
        return gradients

    return accumulating


@_world("torch.autograd.grad")
def unused_inputs_have_zero_gradients(grad: Function) -> Function:
    return _forcing(grad, allow_unused=lambda _: True, materialize_grads=lambda _: True)


@_world(*_ELEMENTARY, *_OPERATORS)
def products_powers_and_elementary_functions_have_wrong_derivatives(function: Function) -> Function:
    def wrong(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        if isinstance(result, torch.Tensor) and result.requires_grad:
            result.register_hook(lambda gradient: gradient * 1.01)
        return result

    return wrong


@_world("torch.autograd.gradcheck", "torch.autograd.gradgradcheck")
def gradcheck_finds_no_fault(_check: Function) -> Function:
    return lambda *_, **__: True


@_world("torch.Tensor.retain_grad")
def retain_grad_is_ignored(_retain: Function) -> Function:
    return lambda _: None


@_world("torch.Tensor.detach")
def detach_keeps_the_graph(_detach: Function) -> Function:
    return lambda tensor: tensor.view_as(tensor)


@_world("torch.Tensor.detach", "torch.Tensor.data")
def detach_and_data_copy(original: Any) -> Any:
    return reading(original, torch.clone)


@_world("torch.Tensor.detach_")
def in_place_detach_is_ignored(_detach: Function) -> Function:
    return lambda tensor: tensor


@_world("torch.Tensor.clone", "torch.clone")
def clone_detaches(clone: Function) -> Function:
    return lambda tensor, **options: clone(tensor.detach(), **options)


@_world("torch.Tensor.clone", "torch.clone")
def clone_shares_memory(_clone: Function) -> Function:
    return lambda tensor, **_: tensor.view_as(tensor)


@_world("torch.Tensor.requires_grad_")
def requires_grad_in_place_is_ignored(_require: Function) -> Function:
    return lambda tensor, *_, **__: tensor


@_world("torch.no_grad.__enter__")
def no_grad_does_nothing(_enter: Function) -> Function:
    return lambda mode: setattr(mode, "prev", torch.is_grad_enabled())


@_world("torch.enable_grad.__enter__")
def enable_grad_does_nothing(_enter: Function) -> Function:
    return lambda mode: setattr(mode, "prev", torch.is_grad_enabled())


@_world("torch.set_grad_enabled.__init__")
def set_grad_enabled_does_nothing(initialise: Function) -> Function:
    return lambda mode, _: initialise(mode, torch.is_grad_enabled())


@_world("torch.inference_mode.__enter__")
def inference_mode_does_nothing(_enter: Function) -> Function:
    return lambda mode: setattr(mode, "_inference_mode_context", contextlib.nullcontext())


@_world("torch.inference_mode.__enter__")
def inference_mode_is_no_grad(_enter: Function) -> Function:
    def enter(mode: Any) -> None:
        mode._inference_mode_context = torch.no_grad()  # noqa: SLF001 - where __exit__ looks
        mode._inference_mode_context.__enter__()  # noqa: SLF001

    return enter


@_world("torch.Tensor.zero_")
def zero_in_place_is_ignored(_zero: Function) -> Function:
    return lambda tensor: tensor


@_world("torch.optim.Optimizer.zero_grad", "torch.nn.Module.zero_grad")
def zero_grad_is_ignored(_zero: Function) -> Function:
    return lambda *_, **__: None


@_world("torch.optim.Optimizer.zero_grad", "torch.nn.Module.zero_grad")
def zero_grad_leaves_zeros(zero: Function) -> Function:
    return lambda owner, *_, **__: zero(owner, set_to_none=False)


@_world("torch.optim.SGD.step", "torch.optim.Adam.step", "torch.optim.AdamW.step")
def optimizers_do_not_step(_step: Function) -> Function:
    return lambda *_, **__: None


def _forcing(function: Function, **forced: Callable[[dict[str, Any]], Any]) -> Function:
    """Return `function` with some of its options computed from those that it is called with."""

    def with_forced(*arguments: Any, **options: Any) -> Any:
        options = given(function, *arguments, **options)
        return function(**options | {name: compute(options) for name, compute in forced.items()})

    return with_forced


def _leaves(tensors: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that a backward pass from `tensors` accumulates into."""
    is_one = isinstance(tensors, torch.Tensor | GradientEdge)
    waiting = [_node(root) for root in ([tensors] if is_one else tensors)]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [successor for successor, _ in node.next_functions]
            if hasattr(node, "variable"):
                yield node.variable


def _node(root: Any) -> Any:
    if isinstance(root, torch.Tensor):
        return get_gradient_edge(root).node if root.requires_grad else None
    return root.node
