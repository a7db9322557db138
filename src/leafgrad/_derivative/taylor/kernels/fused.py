"""Layers: products with matrices and sigmoidal functions, one after the other, as one function."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from leafgrad import _autograd
from leafgrad._derivative.taylor.kernels.contraction import summed_to
from leafgrad._derivative.taylor.kernels.sigmoidal import Sigmoidal

Link = Sigmoidal | None  # a function with a value at order 0, or else the product with a matrix
Links = Sequence[Link]
Cut = slice | None  # some of the rows, or all

_WITH_ROWS = 3  # axes of coefficients whose second counts rows
# In bytes, per thread: what stays near a core while it is worked on, and what is worth an operation
# (PyTorch gives no thread less than 32,768 numbers).
_NEAR = 1 << 20
_WORTHWHILE = 1 << 17


class Chain:
    """Coefficients that come from others link by link, and are computed when they are asked for.

    So all links are one function, which keeps little for its backward, and which goes along part
    of the rows after part where those of all would not stay near a core.
    """

    def __init__(
        self, start: Tensor, links: tuple[Link, ...] = (), tensors: tuple[Tensor, ...] = ()
    ) -> None:
        self.start = start
        self.links = links
        self.tensors = tensors  # the value or the matrix of each link

    def then(self, link: Link, tensor: Tensor) -> Chain:
        """Give the chain with one link more."""
        return Chain(self.start, (*self.links, link), (*self.tensors, tensor))

    @cached_property
    def stack(self) -> Tensor:
        """The coefficients."""
        if torch.is_grad_enabled() and any(self.links):
            result: Tensor = _autograd.applied(_Linked, self.links, self.start, *self.tensors)
            return result
        cuts = _cuts(self.links, self.start, self.tensors)
        parts = [_Part(self.links, self.start, self.tensors, cut) for cut in cuts]
        return _joined([part.forward(keeps=False) for part in parts])


class _Linked(Function):
    @staticmethod
    def forward(ctx: Any, links: Links, start: Tensor, *tensors: Tensor) -> Tensor:
        cuts = _cuts(links, start, tensors)
        parts = [_Part(links, start, tensors, cut) for cut in cuts]
        out = _joined([part.forward(keeps=True) for part in parts])
        ctx.save_for_backward(start, *tensors, *[x for part in parts for x in part.made])
        ctx.links, ctx.cuts = links, cuts
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        links, count = ctx.links, len(ctx.links)
        start, *rest = _autograd.taken(ctx)
        tensors, made = rest[:count], rest[count:]
        del rest  # so that what the links made is freed once it has been used
        if torch.is_grad_enabled() or _autograd.is_batch(gradients[0]):
            return None, *_recorded(links, start, tensors, gradients[0])
        needed = ctx.needs_input_grad[1:]
        found: list[Tensor | None] = [None] * count
        to_start: list[Any] = []
        for cut in ctx.cuts:
            part = _Part(links, start, tensors, cut)
            part.made, made = made[:count], made[count:]
            to_start.append(part.backward(gradients[0], needed, found))
        if needed[0] and len(to_start) > 1:
            to_start = [sum(to_start) if start.shape[1] == 1 else torch.cat(to_start, 1)]
        return None, to_start[0], *found


class _Part:
    """A chain for some of the rows, or for all."""

    def __init__(self, links: Links, start: Tensor, tensors: Sequence[Tensor], cut: Cut) -> None:
        self.links = links
        self.cut = cut
        self.start = start
        self.whole = self.tensors = tensors
        self.made: list[Tensor | None] = []  # by the links, None where it is not kept
        if cut is not None:
            self.start = start if start.shape[1] == 1 else start[:, cut]
            self.tensors = [t[cut] if link else t for link, t in zip(links, tensors, strict=True)]

    def forward(self, *, keeps: bool) -> Tensor:
        """Compute the coefficients, and keep what backward is not to do without."""
        x = self.start
        for number, (link, tensor) in enumerate(zip(self.links, self.tensors, strict=True)):
            if link:
                x = link.solved(tensor, x)
                is_kept = not link.plan.makes_much_of_little
            else:
                x = x @ tensor
                is_kept = self._is_read_by_backward(number, x)
            if keeps:
                self.made.append(x if is_kept else None)
        return x

    def _is_read_by_backward(self, number: int, product: Tensor) -> bool:
        """Say whether backward asks for a product, as that of the next link may do."""
        if number + 1 == len(self.links):
            return False
        link, value = self.links[number + 1], self.tensors[number + 1]
        return not link or link.plan.makes_much_of_little or product.shape[1:] != value.shape

    def backward(self, gradient: Tensor, needed: Sequence[bool], found: list[Any]) -> Any:
        """Add what is `found` for the tensors of the links, and give what arrives at the start."""
        g: Any = gradient if self.cut is None else gradient[:, self.cut]
        for number in reversed(range(len(self.links))):
            link, tensor = self.links[number], self.tensors[number]
            x = self._input(number)
            if link:
                if found[number] is None:
                    found[number] = torch.empty_like(self.whole[number])
                to_value = found[number] if self.cut is None else found[number][self.cut]
                g = link.vjp(tensor, self._output(number), g, to_value)
                g = g if x is None else summed_to(g, x.shape)
            else:
                if needed[number + 1]:
                    found[number] = _plus_product(found[number], x, g, tensor)
                g = g @ tensor.t() if number or needed[0] else None
            self.made[number] = None
        return g

    def _input(self, number: int) -> Any:
        """Give what went into a link, None where it was not kept."""
        if number == 0:
            return self.start
        return self._output(number - 1)

    def _output(self, number: int) -> Any:
        """Give what a link made, anew where that takes little."""
        link = self.links[number]
        if link and self.made[number] is None:
            self.made[number] = link.solved(self.tensors[number], self._input(number))
        return self.made[number]


def _plus_product(total: Tensor | None, x: Tensor, gradient: Tensor, matrix: Tensor) -> Tensor:
    """Add up the gradient of a matrix, laid out as the matrix is, to be added to others like it."""
    x, gradient = x.reshape(-1, x.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
    if matrix.stride(0) == 1:
        return _plus(None if total is None else total.t(), gradient.t(), x).t()
    return _plus(total, x.t(), gradient)


def _plus(total: Tensor | None, one: Tensor, two: Tensor) -> Tensor:
    return one @ two if total is None else total.addmm_(one, two)


def _recorded(
    links: Links, start: Tensor, tensors: Sequence[Tensor], gradient: Tensor
) -> list[Tensor]:
    """Give the gradients by operations that record themselves."""
    states = [start]
    for link, tensor in zip(links, tensors, strict=True):
        x = states[-1]
        states.append(Chain(x).then(link, tensor).stack if link else x @ tensor)
    found = []
    for link, tensor, (x, out) in reversed([*zip(links, tensors, pairwise(states), strict=True)]):
        if link:
            to_tensor, to_x = link.vjp_recorded(tensor, out, gradient)
            gradient = summed_to(to_x, x.shape)
        else:
            to_tensor = _plus_product(None, x, gradient, tensor)
            gradient = gradient @ tensor.t()
        found.append(to_tensor)
    return [gradient, *reversed(found)]


def _cuts(links: Links, start: Tensor, tensors: Sequence[Tensor]) -> list[Cut]:
    """Cut the rows, on a CPU, where the coefficients of all would not stay near a core."""
    bent = [(link.plan.size, value) for link, value in zip(links, tensors, strict=True) if link]
    if not bent or start.dim() < _WITH_ROWS or not start.is_cpu:
        return [None]
    size, value = max(bent, key=lambda pair: pair[0] * pair[1].numel())
    length = max(_NEAR // size, _WORTHWHILE) * torch.get_num_threads()
    count = -(-value.numel() * value.element_size() // length)
    if count <= 1:
        return [None]
    rows = start.shape[1] if start.shape[1] > 1 else len(value)
    if any(v.dim() + 1 != start.dim() or len(v) != rows for _, v in bent):
        return [None]
    step = -(-rows // count)
    return [slice(first, first + step) for first in range(0, rows, step)]


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


FUNCTIONS: tuple[type[Function], ...] = (_Linked,)
