"""Worlds in which tensors are made, changed or read wrong in one place.

Each function takes what PyTorch has and returns what the world has in its place; its name tells
what is wrong there.
"""

import inspect
import warnings
from collections import OrderedDict
from typing import Any

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.utils.hooks import RemovableHandle

from sphinx_claims._mutating.world import Function, World, collected, reading

TENSOR_WORLDS: list[World] = []
_world = collected(TENSOR_WORLDS)

_FACTORIES = tuple(
    f"torch.{name}"
    for name in "arange empty eye full linspace ones rand randn tensor zeros".split()
)
_IN_PLACE = tuple(
    f"torch.Tensor.{name}"
    for name in (
        "__iadd__ __imul__ __isub__ __itruediv__ __setitem__ add_ addcmul_ clamp_ copy_ cos_ div_"
        " exp_ fill_ mul_ neg_ normal_ pow_ relu_ sigmoid_ sin_ sub_ tanh_ uniform_ zero_"
    ).split()
)
_VIEWS = tuple(
    f"torch.Tensor.{name}"
    for name in (
        "__getitem__ diagonal expand flatten narrow permute reshape select squeeze t transpose"
        " unsqueeze view view_as"
    ).split()
)


@_world(*_FACTORIES, when=lambda options: options.get("requires_grad"))
def new_tensors_ignore_requires_grad(make: Function) -> Function:
    return lambda *arguments, **options: make(*arguments, **{**options, "requires_grad": False})


@_world(*_FACTORIES, when=lambda options: not options.get("requires_grad"))
def new_tensors_require_grad(make: Function) -> Function:
    def requiring(*arguments: Any, **options: Any) -> torch.Tensor:
        tensor: torch.Tensor = make(*arguments, **options)
        return tensor.requires_grad_(tensor.is_floating_point() or tensor.is_complex())

    return requiring


@_world("torch.nn.Parameter.__new__")
def parameters_do_not_require_grad(new: Function) -> Function:
    return lambda kind, data=None, *_, **__: new(kind, data, requires_grad=False)


@_world(*_IN_PLACE)
def changes_in_place_do_not_count(change: Function) -> Function:
    def uncounted(tensor: Any, *arguments: Any, **options: Any) -> Any:
        if tensor.is_inference():
            return change(tensor, *arguments, **options)
        with _unsafe_preserve_version_counter(tensor):
            return change(tensor, *arguments, **options)

    return uncounted


@_world(*_IN_PLACE)
def changes_in_place_are_not_recorded(change: Function) -> Function:
    return torch.no_grad()(change)


@_world(*_VIEWS)
def views_are_copies(view: Function) -> Function:
    return lambda *arguments, **options: view(*arguments, **options).clone()


@_world("torch.Tensor.register_hook", "torch.Tensor.register_post_accumulate_grad_hook")
def hooks_are_not_called(_register: Function) -> Function:
    return lambda *_: RemovableHandle(OrderedDict())


@_world("torch.Tensor.register_hook")
def what_hooks_return_is_ignored(register: Function) -> Function:
    return lambda tensor, hook: register(tensor, lambda gradient: (hook(gradient), None)[1])


@_world(
    "torch.autograd.graph.saved_tensors_hooks.__enter__",
    "torch.autograd.graph.saved_tensors_hooks.__exit__",
)
def saved_tensors_hooks_are_not_called(_switch: Function) -> Function:
    return lambda *_: None


@_world("torch.utils.checkpoint.checkpoint")
def checkpoint_recomputes_nothing(checkpoint: Function) -> Function:
    def run(function: Function, *arguments: Any, **options: Any) -> Any:
        known = inspect.signature(checkpoint).parameters
        return function(*arguments, **{key: options[key] for key in options.keys() - known})

    return run


@_world("torch.Tensor.is_leaf", "torch.Tensor.is_inference")
def is_leaf_and_is_inference_read_wrong(original: Any) -> Any:
    return reading(original, lambda truth: not truth)


@_world("torch.Tensor.requires_grad", "torch.Tensor.retains_grad")
def requires_grad_and_retains_grad_read_wrong(original: Any) -> Any:
    return reading(original, lambda truth: not truth)


@_world("torch.Tensor.grad_fn", "torch.Tensor._base")
def grad_fn_and_base_read_none(original: Any) -> Any:
    return reading(original, lambda _: None)


@_world("torch.Tensor.grad_fn")
def grad_fn_reads_the_node_after_it(original: Any) -> Any:
    def after(node: Any) -> Any:
        return node.next_functions[0][0] if node and node.next_functions else None

    return reading(original, after)


@_world("torch.Tensor.grad")
def grad_reads_none(original: Any) -> Any:
    return reading(original, lambda _: None)


@_world("torch.Tensor.grad")
def grad_reads_a_copy(original: Any) -> Any:
    return reading(original, lambda gradient: None if gradient is None else gradient.clone())


@_world("torch.Tensor.grad")
def reading_grad_never_warns(original: Any) -> property:
    def quiet(tensor: torch.Tensor) -> Any:
        with warnings.catch_warnings(action="ignore"):
            return original.__get__(tensor)

    return property(quiet, original.__set__, original.__delete__)


@_world("torch.Tensor._version", "torch.Tensor.output_nr")
def version_and_output_nr_read_one_more(original: Any) -> Any:
    return reading(original, lambda number: number + 1)
