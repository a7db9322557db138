"""Which rows each element depends on, by all its derivatives and by the proof."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Size, Tensor

from leafgrad import _autograd
from leafgrad._derivative.arguments import Axes
from leafgrad._derivative.row_independence import RowProof
from leafgrad._derivative.row_spans import Rows


class Verdict(NamedTuple):
    """What the proof says of a program, and what its derivatives say.

    Attributes:
        is_proven: Whether rows are proven to be independent.
        is_independent: Whether no derivative joins two rows.
        missed: How many elements have a derivative in a row that the proof rules out.
    """

    is_proven: bool
    is_independent: bool
    missed: int


def proof_of(outputs: Tensor, x: Tensor) -> RowProof | None:
    """Return the proof that rows on the first axis of both are independent, if a path leads."""
    path = _autograd.path_between(outputs, x)
    axes = Axes(batch=x.shape[:1], row=Size(x.shape[1:]), is_elementwise=False)
    return None if path is None else RowProof(outputs, x, axes, path, order=2)


def dependence(outputs: Tensor, x: Tensor) -> Tensor:
    """Return whether a row of x has a derivative in each element: ``(rows, *outputs.shape)``."""
    parts = [outputs]
    if outputs.is_complex():
        parts = [*torch.view_as_real(outputs.resolve_conj()).unbind(-1)]
    found = torch.zeros(len(x), outputs.numel(), dtype=torch.bool)
    for part in parts:
        for place, element in enumerate(part.flatten()):
            if element.requires_grad:
                (slope,) = torch.autograd.grad(element, x, retain_graph=True, allow_unused=True)
                if slope is not None:
                    slope = slope.abs().nan_to_num(0, 1, 1).reshape(len(x), -1)
                    found[:, place] |= (slope > 0).any(1)
    return found.reshape(len(x), *outputs.shape)


def compare(program: Callable[[Tensor], Tensor], here: Tensor, points: Sequence[Tensor]) -> Verdict:
    """Prove a program at one point, and differentiate it at others, of the same shape."""
    x = here.detach().requires_grad_()
    outputs = program(x)
    proof = proof_of(outputs, x)
    found = torch.zeros(len(x), *outputs.shape, dtype=torch.bool)
    for point in (here, *points):
        leaf = point.detach().requires_grad_()
        there = program(leaf)
        if there.shape == outputs.shape and there.requires_grad:
            found |= dependence(there, leaf)
    number = torch.arange(len(x))
    numbers = number.reshape(-1, *[1] * outputs.dim())
    if proof is None:
        return Verdict(True, not found.any(), int(found.sum()))
    spans: Any = proof._rows
    span = spans and spans.get(proof.path.end)
    outside = torch.zeros_like(found)
    if span is not None:
        above, below = Rows(span, tuple(outputs.shape)).whole()
        outside = (numbers > above - 1) | (numbers < len(x) - below)
    elif spans is not None:
        outside = torch.ones_like(found)
    has_rows = outputs.shape[:1] == x.shape[:1]
    own = (numbers == number.reshape(-1, *[1] * (outputs.dim() - 1))) if has_rows else None
    is_independent = own is not None and not (found & ~own).any()
    is_proven = has_rows and proof.holds
    return Verdict(is_proven, is_independent, int((found & outside).sum()))


def special(point: Tensor, kind: int) -> Tensor:
    """Return zeros, ties, or rows that repeat the first ones, in place of a point."""
    if kind % 3 == 0:
        return point.where(torch.arange(point.numel()).reshape(point.shape) % 2 == 0, 0)
    if kind % 3 == 1:
        return torch.full_like(point, float(point.flatten()[0]) if point.numel() else 0.0)
    return point[torch.arange(len(point)) // 2]
