"""Layers as one function: products with matrices and activations, one after the other.

Coefficients ``[n, *rows, columns]`` of a series start, and each layer makes others of them:

    a product with a matrix ``[columns, others]``   [n, *rows, columns] -> [n, *rows, others]
    a function with a value ``[*rows, columns]``        [n, *rows, columns] -> [N, *rows, columns]

As one function, a whole network of layers keeps for its backward what no layer can compute again
cheaply, and nothing else. And as each row goes its own way, the layers can be run for one block of
rows after the other, so small that what is worked on stays in the cache of a core.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from leafgrad import _autograd
from leafgrad._derivative.taylor.kernels.composed import Composed
from leafgrad._derivative.taylor.kernels.contraction import sum_to_shape
from leafgrad._derivative.taylor.kernels.sigmoidal import Sigmoidal

# A function with a value at order 0, of its result or its argument, or the product with a matrix.
Layer = Sigmoidal | Composed | None
Layers = Sequence[Layer]

_FAR = 16.0  # from one
_WITH_ROWS = 3  # axes of coefficients whose second counts rows
# In bytes, per thread: what stays in the cache of a core, and what is worth an operation of its own
# (PyTorch gives no thread less than 32,768 numbers).
_NEAR = 1 << 20
_WORTHWHILE = 1 << 17


def is_near_one(number: float) -> bool:
    """Return whether powers of a number stay within the range of what they are multiplied by."""
    return 1 / _FAR <= abs(number) <= _FAR


class FusedLayers:
    """Coefficients that come from others layer by layer, and are computed when they are read.

    Attributes:
        start: The coefficients that go in, ``[n, *rows, columns]``.
        layers: What makes others of them.
        tensors: For each layer, the value at order 0 of its function, or its matrix.
        factor: What the coefficients are multiplied by after the last layer.
    """

    def __init__(
        self,
        start: Tensor,
        layers: tuple[Layer, ...] = (),
        tensors: tuple[Tensor, ...] = (),
        factor: float = 1,
    ) -> None:
        self.start = start
        self.layers = layers
        self.tensors = tensors
        self.factor = factor

    def then(self, layer: Layer, tensor: Tensor) -> FusedLayers:
        """Return these layers and one more, with its value or matrix."""
        factor = self.factor
        if factor != 1 and isinstance(layer, Sigmoidal):
            return FusedLayers(self.stack, (layer,), (tensor,))
        if factor != 1 and isinstance(layer, Composed):
            layer, factor = layer._replace(inner=factor), 1
        return FusedLayers(self.start, (*self.layers, layer), (*self.tensors, tensor), factor)

    def multiplied(self, number: float) -> FusedLayers:
        """Return these layers with coefficients that are multiplied by a number.

        At once, where powers of that might leave the range where those of coefficients do not.
        """
        last = self.layers[-1] if self.layers else None
        factor = number * (last.outer if isinstance(last, Composed) else self.factor)
        if not is_near_one(factor):
            return FusedLayers(self.stack * number)
        if isinstance(last, Composed):
            layers = (*self.layers[:-1], last._replace(outer=factor))
            return FusedLayers(self.start, layers, self.tensors)
        return FusedLayers(self.start, self.layers, self.tensors, factor)

    @cached_property
    def stack(self) -> Tensor:
        """The coefficients after the last layer, ``[N, *rows, columns]``, times the factor."""
        made = self._compute()
        return made if self.factor == 1 else made * self.factor

    def _compute(self) -> Tensor:
        if torch.is_grad_enabled() and any(self.layers):
            result: Tensor = _autograd.applied(_Fused, self.layers, self.start, *self.tensors)
            return result
        slices = _row_slices(self.layers, self.start, self.tensors)
        blocks = [_RowBlock(self.layers, self.start, self.tensors, rows) for rows in slices]
        return _join_rows([block.forward(keeps=False) for block in blocks])


class _Fused(Function):
    @staticmethod
    def forward(ctx: Any, layers: Layers, start: Tensor, *tensors: Tensor) -> Tensor:
        slices = _row_slices(layers, start, tensors)
        blocks = [_RowBlock(layers, start, tensors, rows) for rows in slices]
        out = _join_rows([block.forward(keeps=True) for block in blocks])
        ctx.save_for_backward(start, *tensors, *[x for block in blocks for x in block.made])
        ctx.layers, ctx.slices = layers, slices
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        layers, count = ctx.layers, len(ctx.layers)
        start, *rest = _autograd.taken(ctx)
        tensors, made = rest[:count], rest[count:]
        del rest  # so that what the layers made is freed once it has been used
        is_traced = _autograd.is_intercepted() and not torch.is_grad_enabled()
        if is_traced and len(ctx.slices) == 1 and None not in made:
            return None, *_record_backward(layers, [start, *made], tensors, gradients[0])
        if is_traced or torch.is_grad_enabled() or _autograd.is_batch(gradients[0]):
            states = _states(layers, start, tensors)
            return None, *_record_backward(layers, states, tensors, gradients[0])
        needed = ctx.needs_input_grad[1:]
        found: list[Tensor | None] = [None] * count
        to_start: list[Any] = []
        for rows in ctx.slices:
            block = _RowBlock(layers, start, tensors, rows)
            block.made, made = made[:count], made[count:]
            to_start.append(block.backward(gradients[0], needed, found))
        if needed[0] and len(to_start) > 1:
            to_start = [sum(to_start) if start.shape[1] == 1 else torch.cat(to_start, 1)]
        return None, to_start[0], *found


class _RowBlock:
    """The layers for a slice of the rows, or for all where it is None.

    Rows are sliced along axis 1 of coefficients, and along axis 0 of values; an axis of size 1,
    which all rows share, is not.
    """

    def __init__(
        self, layers: Layers, start: Tensor, tensors: Sequence[Tensor], rows: slice | None
    ) -> None:
        self.layers = layers
        self.slice = rows
        self.start = start
        self.whole = self.tensors = tensors
        self.made: list[Tensor | None] = []  # by the layers, None where it is not kept
        if rows is not None:
            self.start = start if start.shape[1] == 1 else start[:, rows]
            self.tensors = [
                t[rows] if layer else t for layer, t in zip(layers, tensors, strict=True)
            ]

    def forward(self, *, keeps: bool) -> Tensor:
        """Return the coefficients ``[N, *rows, columns]`` of these rows.

        Where `keeps`, what backward reads and cannot compute again cheaply stays in `made`; all
        stays for whoever traces the operations, and chooses.
        """
        x, is_traced = self.start, _autograd.is_intercepted()
        for number, (layer, tensor) in enumerate(zip(self.layers, self.tensors, strict=True)):
            if layer:
                x = layer.solve(tensor, x)
                is_kept = not layer.plan.makes_much_of_little
            else:
                x = x @ tensor
                is_kept = self._is_read_by_backward(number, x)
            if keeps:
                self.made.append(x if is_kept or is_traced else None)
        return x

    def _is_read_by_backward(self, number: int, product: Tensor) -> bool:
        """Return whether backward reads a product ``[n, *rows, columns]``: the next layer's may."""
        if number + 1 == len(self.layers):
            return False
        layer, value = self.layers[number + 1], self.tensors[number + 1]
        if not layer or layer.reads_argument or layer.plan.makes_much_of_little:
            return True
        return product.shape[1:] != value.shape

    def backward(self, gradient: Tensor, needed: Sequence[bool], found: list[Any]) -> Any:
        """Return the gradient of the start for these rows, and add to what is `found` of others.

        Args:
            gradient: That of the last coefficients of all rows, ``[N, *rows, columns]``.
            needed: Whether a gradient is needed of the start, and of the tensor of each layer.
            found: The gradient of each layer's tensor, None until the first block comes to it.
        """
        g: Any = gradient if self.slice is None else gradient[:, self.slice]
        for number in reversed(range(len(self.layers))):
            layer, tensor = self.layers[number], self.tensors[number]
            x = self._input(number)
            if layer:
                if found[number] is None:
                    found[number] = torch.empty_like(self.whole[number])
                to_value = found[number] if self.slice is None else found[number][self.slice]
                g = layer.vjp(
                    tensor, x if layer.reads_argument else self._output(number), g, to_value
                )
                g = g if x is None else sum_to_shape(g, x.shape)
            else:
                if needed[number + 1]:
                    found[number] = _plus_product(found[number], x, g, tensor)
                g = g @ tensor.t() if number or needed[0] else None
            self.made[number] = None
        return g

    def _input(self, number: int) -> Any:
        """Return the coefficients that went into a layer, None where they were not kept."""
        if number == 0:
            return self.start
        return self._output(number - 1)

    def _output(self, number: int) -> Any:
        """Return the coefficients that a layer made, computed once more where that takes little."""
        layer = self.layers[number]
        if layer and self.made[number] is None:
            self.made[number] = layer.solve(self.tensors[number], self._input(number))
        return self.made[number]


def _plus_product(total: Tensor | None, x: Tensor, gradient: Tensor, matrix: Tensor) -> Tensor:
    """Return `total` plus the gradient of a matrix ``[columns, others]``, with its strides.

    Args:
        total: ``[columns, others]``, which is written into, or None for zero.
        x: What was multiplied, ``[n, *rows, columns]``.
        gradient: That of the product, ``[n, *rows, others]``.
        matrix: The matrix. In its strides, the gradient is added to others without a copy.
    """
    x, gradient = x.reshape(-1, x.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
    if matrix.stride(0) == 1:
        return _plus(None if total is None else total.t(), gradient.t(), x).t()
    return _plus(total, x.t(), gradient)


def _plus(total: Tensor | None, one: Tensor, two: Tensor) -> Tensor:
    """Return ``total + one @ two``, of shapes ``[a, c]``, ``[a, b]`` and ``[b, c]``."""
    return one @ two if total is None else total.addmm_(one, two)


def _states(layers: Layers, start: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the start and what each layer makes, all ``[n, *rows, columns]``, computed anew."""
    states = [start]
    for layer, tensor in zip(layers, tensors, strict=True):
        x = states[-1]
        states.append(FusedLayers(x).then(layer, tensor).stack if layer else x @ tensor)
    return states


def _record_backward(
    layers: Layers, states: Sequence[Tensor], tensors: Sequence[Tensor], gradient: Tensor
) -> list[Tensor]:
    """Return the gradients of the start and of each tensor, by operations that record themselves.

    The states are the start and what each layer made of it; they and the tensors have the shapes
    that `FusedLayers` says, the gradient ``[N, *rows, columns]``.
    """
    found = []
    for layer, tensor, (x, out) in reversed([*zip(layers, tensors, pairwise(states), strict=True)]):
        if layer:
            kept = x if layer.reads_argument else out
            to_tensor, to_x = layer.differentiable_vjp(tensor, kept, gradient)
            gradient = sum_to_shape(to_x, x.shape)
        else:
            to_tensor = _plus_product(None, x, gradient, tensor)
            gradient = gradient @ tensor.t()
        found.append(to_tensor)
    return [gradient, *reversed(found)]


def _row_slices(layers: Layers, start: Tensor, tensors: Sequence[Tensor]) -> list[slice | None]:
    """Return slices of the rows so small that their coefficients stay in a cache, [None] for all.

    That is on a CPU alone, and not for whoever traces the operations, where each value has the axes
    ``[*rows, columns]`` of the coefficients.
    """
    functions = [
        (layer.plan.size, value) for layer, value in zip(layers, tensors, strict=True) if layer
    ]
    is_whole = not functions or _autograd.is_intercepted()
    if is_whole or start.dim() < _WITH_ROWS or not start.is_cpu:
        return [None]
    size, value = max(functions, key=lambda pair: pair[0] * pair[1].numel())
    length = max(_NEAR // size, _WORTHWHILE) * torch.get_num_threads()
    count = -(-value.numel() * value.element_size() // length)
    if count <= 1:
        return [None]
    rows = start.shape[1] if start.shape[1] > 1 else len(value)
    if any(v.dim() + 1 != start.dim() or len(v) != rows for _, v in functions):
        return [None]
    step = -(-rows // count)
    return [slice(first, first + step) for first in range(0, rows, step)]


def _join_rows(blocks: list[Tensor]) -> Tensor:
    """Join coefficients ``[n, rows of a block, ...]`` along the rows."""
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, 1)


FUNCTIONS: tuple[type[Function], ...] = (_Fused,)
