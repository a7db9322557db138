"""Fused layers: a chain of matrix products and activations as a single autograd function.

The input is the stack of coefficients ``[n, *rows, columns]`` of a series. Each layer maps the
stack to a new one:

    a product with a matrix ``[columns, others]``   [n, *rows, columns] -> [n, *rows, others]
    a function with a value ``[*rows, columns]``        [n, *rows, columns] -> [N, *rows, columns]

A single function for a whole network saves for backward only the stacks that are expensive to
recompute. Rows are independent, so the layers can run on one block of rows at a time. The blocks
are small enough for the cache of a core.
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

# A layer is an elementwise function, or None for a product with a matrix.
Layer = Sigmoidal | Composed | None
Layers = Sequence[Layer]

_FAR = 16.0  # A factor is near one if it is at most this and at least its inverse.
_WITH_ROWS = 3  # the smallest number of axes of ``[n, *rows, columns]`` if there are rows
# Bytes per thread: the size of a block that stays in the cache of a core, and the smallest block
# worth a separate operation (PyTorch gives each thread at least 32,768 numbers).
_NEAR = 1 << 20
_WORTHWHILE = 1 << 17


def is_near_one(number: float) -> bool:
    """Check whether a factor is so close to 1 that its low powers are unlikely to overflow.

    `number` is the factor.
    """
    return 1 / _FAR <= abs(number) <= _FAR


class FusedLayers:
    """A chain of layers and its input. The output is computed when `stack` is first read.

    Attributes:
        start: The input coefficients, ``[n, *rows, columns]``.
        layers: The layers, in the order of application.
        tensors: For a matrix product, the matrix. For a function, the value at order 0 of its
            result or argument.
        factor: A number that multiplies the coefficients after the last layer.
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
        """Return these layers followed by `layer`, whose matrix or value is `tensor`."""
        factor = self.factor
        if factor != 1 and isinstance(layer, Sigmoidal):
            return FusedLayers(self.stack, (layer,), (tensor,))
        if factor != 1 and isinstance(layer, Composed):
            layer, factor = layer._replace(inner=factor), 1
        return FusedLayers(self.start, (*self.layers, layer), (*self.tensors, tensor), factor)

    def multiplied(self, number: float) -> FusedLayers:
        """Return these layers with the output multiplied by `number`.

        The number is usually merged into the last layer or into `factor`. If its powers might
        overflow there, the output is computed and multiplied immediately.
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
        start, *rest = _autograd.pop_saved_tensors(ctx)
        tensors, made = rest[:count], rest[count:]
        del rest  # Without this, the saved stacks would not be freed after use.
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
    """The computation of the layers for the rows in a slice, or for all rows if it is None.

    The slice applies to axis 1 of coefficients and to axis 0 of values. An axis of size 1 is not
    sliced, because it is broadcast to all rows.
    """

    def __init__(
        self, layers: Layers, start: Tensor, tensors: Sequence[Tensor], rows: slice | None
    ) -> None:
        self.layers = layers
        self.slice = rows
        self.start = start
        self.whole = self.tensors = tensors
        self.made: list[Tensor | None] = []  # each layer's output, None if it is not saved
        if rows is not None:
            self.start = start if start.shape[1] == 1 else start[:, rows]
            self.tensors = [
                t[rows] if layer else t for layer, t in zip(layers, tensors, strict=True)
            ]

    def forward(self, *, keeps: bool) -> Tensor:
        """Return the coefficients ``[N, *rows, columns]`` after the last layer, for these rows.

        If `keeps` is true, store in `made` the stacks that backward reads and that are expensive to
        recompute. While a compiler traces the operations, store all of them: the compiler decides
        what to save.
        """
        x, is_traced = self.start, _autograd.is_intercepted()
        for number, (layer, tensor) in enumerate(zip(self.layers, self.tensors, strict=True)):
            if layer:
                x = layer.solve(tensor, x)
                is_kept = not layer.plan.is_much_larger
            else:
                x = x @ tensor
                is_kept = self._is_read_by_backward(number, x)
            if keeps:
                self.made.append(x if is_kept or is_traced else None)
        return x

    def _is_read_by_backward(self, number: int, product: Tensor) -> bool:
        """Check whether backward reads `product`, the output of the matrix product `number`."""
        if number + 1 == len(self.layers):
            return False
        layer, value = self.layers[number + 1], self.tensors[number + 1]
        if not layer or layer.reads_argument or layer.plan.is_much_larger:
            return True
        return product.shape[1:] != value.shape

    def backward(self, gradient: Tensor, needed: Sequence[bool], found: list[Any]) -> Any:
        """Return the gradient of `start` for these rows, None if it is not needed.

        The gradients of the tensors are added to `found`.

        Args:
            gradient: The gradient of the output for all rows, ``[N, *rows, columns]``.
            needed: Whether `start`, and then the tensor of each layer, needs a gradient.
            found: The gradient of each layer's tensor, None before the first block adds to it.
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
        """Return the input coefficients of layer `number`.

        Return None if they are the output of a matrix product that was not saved.
        """
        if number == 0:
            return self.start
        return self._output(number - 1)

    def _output(self, number: int) -> Any:
        """Return the output coefficients of layer `number`, recomputed if they were not saved.

        A matrix product is not recomputed: return None if its output was not saved.
        """
        layer = self.layers[number]
        if layer and self.made[number] is None:
            self.made[number] = layer.solve(self.tensors[number], self._input(number))
        return self.made[number]


def _plus_product(total: Tensor | None, x: Tensor, gradient: Tensor, matrix: Tensor) -> Tensor:
    """Return `total` plus the gradient of `matrix`, with the shape and strides of `matrix`.

    Args:
        total: ``[columns, others]``, modified in place, or None for zero.
        x: The left factor of the product, ``[n, *rows, columns]``.
        gradient: The gradient of the product, ``[n, *rows, others]``.
        matrix: The right factor. With its strides, autograd accumulates the gradient without a
            copy.
    """
    x, gradient = x.reshape(-1, x.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
    if matrix.stride(0) == 1:
        return _plus(None if total is None else total.t(), gradient.t(), x).t()
    return _plus(total, x.t(), gradient)


def _plus(total: Tensor | None, one: Tensor, two: Tensor) -> Tensor:
    """Return ``total + one @ two``, where `total` is modified in place, or None for zero."""
    return one @ two if total is None else total.addmm_(one, two)


def _states(layers: Layers, start: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return `start` and the recomputed output ``[n, *rows, columns]`` of each layer."""
    states = [start]
    for layer, tensor in zip(layers, tensors, strict=True):
        x = states[-1]
        states.append(FusedLayers(x).then(layer, tensor).stack if layer else x @ tensor)
    return states


def _record_backward(
    layers: Layers, states: Sequence[Tensor], tensors: Sequence[Tensor], gradient: Tensor
) -> list[Tensor]:
    """Return the gradients of the start and of each tensor, by differentiable operations.

    `states` contains the start and the output of each layer. `gradient` is that of the output,
    ``[N, *rows, columns]``. For the other shapes, see `FusedLayers`.
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
    """Return slices of the rows, so short that their coefficients fit into the cache of a core.

    `start` contains the coefficients before the first layer. Return ``[None]``, which means all
    rows at once, if slices do not help or are not possible: for few rows, on other devices than a
    CPU, while a compiler traces the operations, or if a value does not have the axes ``[*rows,
    columns]`` of the coefficients.
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
    """Return blocks of coefficients ``[n, rows of a block, ...]`` joined along the rows."""
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, 1)


FUNCTIONS: tuple[type[Function], ...] = (_Fused,)
