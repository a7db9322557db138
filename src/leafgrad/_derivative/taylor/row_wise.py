"""Proof, from the kinds of nodes and from shapes, that rows are independent.

No coefficient is computed, and no saved tensor read but by the few rules that ask for one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.taylor import batch_axes
from leafgrad._derivative.taylor.algebra import powers
from leafgrad._derivative.taylor.batch_axes import Axes
from leafgrad._derivative.taylor.dtypes import wider
from leafgrad._derivative.taylor.propagate import check_results, results_of, step_at
from leafgrad._derivative.taylor.rules import RULES
from leafgrad._derivative.taylor.series import Series
from leafgrad._derivative.taylor.step import Rule
from leafgrad._derivative.taylor.unsupported import Unsupported

Known = tuple[Axes, tuple[int, ...]]  # the axes of a tensor, and its shape


def keep_rows_apart(path: _autograd.Path, ndim: int, batch: int) -> bool:
    """Return whether the path to inputs with `ndim` axes, of which `batch` count rows, shows it.

    As long as nothing adds axes in front, the first axes of all that is computed count rows. No
    row-wise kind takes an axis away, so that it is seen at the end whether one was added.
    """
    known: set[object] = {path.start}
    for node, edges in path.nodes.items():
        rule = RULES.get(_autograd.node_name(node))
        if rule is None or not rule.rowwise:
            return False
        if rule.shared and (batch != 1 or any(edges[number] in known for number in rule.shared)):
            return False
        known.add((node, 0))
    node, number = path.end
    return len(_autograd.output_types(node)[number].shape) == ndim


def axes_at_end(path: _autograd.Path, inputs: Tensor, batch: int) -> Axes:
    """Return where the rows of inputs lie at the end of a path, or raise `Unsupported`.

    The first `batch` axes of inputs, ``[*batch, columns]``, count rows. Kinds that are row-wise pass axes on; the rules of
    others are run on series without a coefficient.
    """
    shape = tuple(inputs.shape)
    known: dict[object, Known] = {path.start: (batch_axes.rows_of(shape, batch), shape)}
    read = {edge for edges in path.nodes.values() for edge in edges}
    for node, edges in path.nodes.items():
        given = [known.get(edge) for edge in edges]
        rule = RULES.get(_autograd.node_name(node))
        made = _autograd.output_types(node)[0]
        if rule is None or not made.dtype.is_floating_point:
            raise Unsupported("a kind has no rule")
        if rule.rowwise and (passed := _passed_on(rule, node, given)):
            known[node, 0] = passed
        else:
            step = step_at(node, edges, wider(made.dtype, torch.float32))
            empty = [each and _without_coefficients(*each, step.dtype, made.device) for each in given]
            results = results_of(rule, step, empty)
            if len(results) < len(step.results):
                check_results(step, len(results), read, path.end)
            found = ((number, series) for number, series in enumerate(results) if series)
            known.update({(node, number): (series.axes, series.shape) for number, series in found})
    return known[path.end][0]


def _passed_on(rule: Rule, node: Node, inputs: Sequence[Known | None]) -> Known | None:
    """Return what a row-wise kind makes, None where its rule is to tell."""
    shape = tuple(_autograd.output_types(node)[0].shape)
    given = [each for each in inputs if each is not None]
    if not rule.shared:
        axes = [batch_axes.aligned(each, len(shape)) for each, _ in given]
        return batch_axes.merged(axes), shape
    ((axes, before), *others) = given
    if others or len(before) != len(shape) or any(inputs[place] for place in rule.shared):
        return None
    batch_axes.free(axes, [-1])
    return (*axes[:-1], ()), shape


def _without_coefficients(
    axes: Axes, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> Series:
    """Return a series of this shape without any coefficient, ``[0, 1, ..., 1]``."""
    empty = torch.empty((0, *[1] * len(shape)), dtype=dtype, device=device)
    return Series(algebra=powers(1), indices=(), source=empty, shape=shape, axes=axes)
