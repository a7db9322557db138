"""What the proof says of rows is never less than what derivatives show."""

import os
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db

from leafgrad import _autograd
from tests.derivative.row_matrices import Verdict, compare, special

EFFORT = int(os.environ.get("LEAFGRAD_ROW_EFFORT", "1"))
LARGEST = 60  # elements of an input, and of a result


def applications(op: Any, most: int) -> Iterator[tuple[Callable[[Tensor], Any], Tensor]]:
    """Yield functions of one tensor that apply an operator to a sample, and that tensor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = op.sample_inputs("cpu", torch.float64, requires_grad=True)
        for number, sample in enumerate(samples):
            if number == most:
                return
            given = [sample.input, *sample.args]
            flat, spec = torch.utils._pytree.tree_flatten((given, sample.kwargs))
            for place, tensor in enumerate(flat):
                is_real = isinstance(tensor, Tensor) and tensor.dtype == torch.float64
                if not is_real or not tensor.requires_grad or not 1 < tensor.numel() <= LARGEST:
                    continue
                if tensor.layout is not torch.strided:
                    continue
                for axis in range(tensor.dim()):
                    if tensor.shape[axis] > 1:
                        yield (
                            _applied(op, flat, spec, place, axis),
                            tensor.detach().movedim(axis, 0).contiguous(),
                        )


def _applied(op: Any, flat: list[Any], spec: Any, place: int, axis: int) -> Callable[[Tensor], Any]:
    def apply(x: Tensor) -> Any:
        given = [*flat]
        given[place] = x.movedim(0, axis)
        (first, *others), named = torch.utils._pytree.tree_unflatten(given, spec)
        torch.manual_seed(0)
        return op(first, *others, **named)

    return apply


def results(found: Any) -> list[Tensor]:
    found = found if isinstance(found, (tuple, list)) else [found]
    return [
        each
        for each in found
        if isinstance(each, Tensor)
        and each.requires_grad
        and each.numel() <= LARGEST
        and each.layout is torch.strided
    ]


def verdicts(op: Any, most: int, kinds: set[str]) -> Iterator[Verdict]:
    for number, (apply, point) in enumerate(applications(op, most)):
        try:
            count = len(results(apply(point.clone().requires_grad_())))
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
            continue
        for result in range(count):

            def program(x: Tensor, result: int = result) -> Tensor:
                return results(apply(x))[result]

            here = special(point, number) if number % 2 else point
            others = [point, point + 0.1 * torch.rand_like(point)]
            try:
                outputs = program(here.clone().requires_grad_())
            except (RuntimeError, ValueError, IndexError, TypeError):
                here = point
                outputs = program(here.clone().requires_grad_())
            kinds.update(
                map(
                    _autograd.node_name,
                    _autograd.walk([outputs.grad_fn] if outputs.grad_fn else []),
                )
            )
            try:
                yield compare(program, here, others)
            except RuntimeError as error:
                if (
                    "not implemented" in str(error)
                    or "singular" in str(error)
                    or "converge" in str(error)
                    or "positive-definite" in str(error)
                ):
                    continue
                raise
