"""Sample inputs of PyTorch's operators."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

MOST_SAMPLES = 12  # per operator; most have fewer

# Operators that record no graph on CPUs, so there is nothing to compare.
LEFT_OUT = {
    "nn.functional.batch_norm without_cudnn": "it is for GPUs: the table has no data type of CPUs",
    "nn.functional.one_hot": "it takes integers alone, which have no gradient",
    "torch.ops.aten._efficient_attention_forward": "it is for GPUs: CPUs have no kernel for it",
    "torch.ops.aten._flash_attention_forward": "it is for GPUs: CPUs have no kernel for it",
}


@cache
def operators() -> dict[str, Any]:
    """Return PyTorch's table of operators, whose import takes as long as PyTorch's own."""
    from torch.testing._internal.common_methods_invocations import op_db  # noqa: PLC0415

    return {
        f"{operator.name} {operator.variant_test_name}".strip(): operator
        for operator in op_db
        if operator.supports_autograd
    }


# `torch.manual_seed` also prepares the seeds of other devices. For this it stores the call stack as
# text, which takes as long as a trace.
seeded = torch.default_generator.manual_seed

# For each operator, the table searches the call stack twice for a test case of PyTorch. There is
# none here, and the search would take twice as long as all traces.
SEARCHES = [
    f"torch.testing._internal.{module}.extract_test_fn"
    for module in ("common_utils", "opinfo.core")
]


class Sample:
    """An operator with one of its sample inputs; each call computes exactly the same."""

    def __init__(self, operator: Any, sample: Any) -> None:
        self.operator = operator
        self.input, self.args, self.kwargs = sample.input, sample.args, sample.kwargs

    def __repr__(self) -> str:
        return f"{self.operator.name}({self.input}, {self.args}, {self.kwargs})"

    def inputs(self) -> list[Tensor]:
        return tensors_in((self.input, self.args, self.kwargs))

    def outputs(self) -> list[Tensor]:
        """Return the outputs of the operator that have a graph."""
        with torch.random.fork_rng(), warnings.catch_warnings(action="ignore"):
            seeded(0)
            outcome = self.operator(self.input, *self.args, **self.kwargs)
        return [output for output in tensors_in(outcome) if output.requires_grad]

    def gradients(self, outputs: list[Tensor]) -> list[Tensor | None] | str:
        """Return the gradients of outputs, or the error of PyTorch."""
        inputs = [tensor for tensor in self.inputs() if tensor.requires_grad]
        try:
            with warnings.catch_warnings(action="ignore"):
                ones = [torch.ones_like(output) for output in outputs]
                return [*torch.autograd.grad(outputs, inputs, ones, allow_unused=True)]
        except RuntimeError as error:
            return str(error)


def tensors_in(nest: Any) -> list[Tensor]:
    return [item for item in tree_leaves(nest) if isinstance(item, Tensor)]


@contextmanager
def quiet_table() -> Iterator[None]:
    """Silence the warnings, changes and searches of the table."""
    with (
        torch.random.fork_rng(),
        warnings.catch_warnings(action="ignore"),
        patch("torch.manual_seed", seeded),
        patch(SEARCHES[0], lambda: None, create=True),
        patch(SEARCHES[1], lambda: None, create=True),
    ):
        yield


def samples_of(operator: Any) -> Iterator[Sample]:
    """Yield an operator's first sample inputs, in double precision where it has that."""
    wanted = torch.float64, torch.complex128, *operator.dtypes
    dtype = next((dtype for dtype in wanted if dtype in operator.dtypes), None)
    if dtype is None:
        return
    with quiet_table():
        seeded(0)
        samples = operator.sample_inputs("cpu", dtype, requires_grad=True)
        for sample in [*islice(samples, MOST_SAMPLES)]:
            yield Sample(operator, sample)
