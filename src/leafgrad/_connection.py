"""How outputs hang on inputs: the path through the graph between them, or why there is none."""

from collections.abc import Iterator

import torch
from torch import Tensor

from leafgrad import _autograd


def check_tensor(name: str, tensor: object) -> None:
    """Raise where `tensor` is nothing that has a derivative, or that a derivative is taken of."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a tensor, not of type {type(tensor).__name__}")
    if _autograd.is_wrapped(tensor):
        raise RuntimeError(
            f"{name} must be a plain tensor, not one inside torch.func "
            f"({_autograd.functorch_wrapper(tensor)}): call higher_order_grad outside of the "
            "transform, or nest torch.func.grad inside"
        )
    if tensor.is_meta:
        raise TypeError(f"{name} must hold data, which a tensor on the meta device does not")
    if not tensor.is_floating_point():
        raise TypeError(_not_real(name, tensor))
    if tensor.layout is not torch.strided:
        raise TypeError(f"{name} must be dense, not {tensor.layout}; convert it by to_dense()")
    lack = _autograd.lacking_memory(tensor)
    if lack is not None:
        raise RuntimeError(
            f"{name} must hold data, but {lack}: give it back its memory, which "
            "untyped_storage().resize_() took"
        )


def _not_real(name: str, tensor: Tensor) -> str:
    if tensor.is_complex():
        return (
            f"{name} must be real, not {tensor.dtype}; take real and imaginary part one at a time"
        )
    return f"{name} must be floating point, not {tensor.dtype}; convert it first"


def find_path(outputs: Tensor, inputs: Tensor, *, allow_unused: bool) -> _autograd.Path | None:
    """Find the nodes between, or give None where nothing leads to `inputs` and this is allowed."""
    if not (inputs.requires_grad and outputs.requires_grad):
        raise RuntimeError(_lacking(inputs))
    path = _autograd.path_between(outputs, inputs)
    if path is not None:
        return path
    _check_view(outputs, inputs)
    if not allow_unused:
        raise RuntimeError(
            "outputs must depend on inputs, but no path in its graph leads there: compute outputs "
            "from this very tensor (a copy, or a slice taken later, is another one), or pass "
            "allow_unused=True for zeros"
        )
    return None


def _lacking(inputs: Tensor) -> str:
    """Say why there is no graph, where inputs or else outputs does not require grad."""
    if not inputs.requires_grad:
        return (
            "inputs must require grad before outputs is computed from it, but does not: call "
            "inputs.requires_grad_() and compute outputs again, or pass a function as outputs"
        )
    return (
        "outputs must carry the graph that computed it from inputs, but requires no grad: it was "
        "computed in torch.no_grad() or torch.inference_mode(), or from other tensors, or was "
        "detached; compute it from inputs with gradients recorded"
    )


def _check_view(outputs: Tensor, inputs: Tensor) -> None:
    """Raise where `inputs` is a view of what `outputs` depends on: zeros would be misleading."""
    paths = ((source, _autograd.path_between(outputs, source)) for source in _sources(inputs))
    source = next((source for source, path in paths if path is not None), None)
    if source is None:
        return
    columns = _columns(inputs, source)
    if columns is None:
        raise RuntimeError(
            "inputs must be in the graph of outputs, but outputs was computed from the tensor that "
            "inputs is a view of: differentiate with respect to that tensor, or compute outputs "
            "from the view"
        )
    raise RuntimeError(
        "inputs must be in the graph of outputs, but outputs was computed from a tensor X of shape "
        f"{tuple(source.shape)}, of which inputs only shows {_named(columns)}: differentiate with "
        f"respect to X, with a multi-index of length {source.shape[-1]} that counts there"
    )


def _sources(view: Tensor) -> Iterator[Tensor]:
    """Yield the tensors with a graph that `view` may be a view of: its base, and leaves."""
    base = _autograd.base(view)
    if base is None:
        return
    yield base
    graph = () if view.grad_fn is None else _autograd.walk([view.grad_fn])
    for leaf in map(_autograd.leaf_variable, graph):
        if leaf is not None and _autograd.storage(leaf) == _autograd.storage(base):
            yield leaf


def _columns(view: Tensor, source: Tensor) -> range | None:
    """Tell which columns of `source` the view shows, None where it shows something else."""
    if source.dim() == 0:
        return None
    shown = view.unsqueeze(-1) if view.shape == source.shape[:-1] else view
    if shown.shape[:-1] != source.shape[:-1] or shown.stride()[:-1] != source.stride()[:-1]:
        return None
    width = shown.shape[-1]
    if width > 1 and shown.stride(-1) != source.stride(-1):
        return None
    first = (shown.storage_offset() - source.storage_offset()) // max(source.stride(-1), 1)
    return range(first, first + width)


def _named(columns: range) -> str:
    if len(columns) == 1:
        return f"column {columns[0]}"
    return f"columns {columns[0]} to {columns[-1]}"
