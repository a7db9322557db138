"""Check the derivatives of each of PyTorch's operators, and count the outcomes.

Each sample input of an operator is shifted along two directions at once. The derivatives of the
outputs with respect to the two shifts are compared with those of nested reverse mode. If input and
output have the same number of rows, each row is also shifted separately. Operators whose output
rows depend on other input rows are rightly refused there: "rows meet" is not a fault.

An operator counts by the worst outcome of its cases.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db

from leafgrad import higher_order_grad

SAMPLES = 4  # sample inputs per operator
CHANNELS = 3  # channels per output: each takes a separate reverse pass
ORDERS = [(1, 0), (2, 0), (1, 1), (0, 3)]
TWICE = {"logcumsumexp"}  # nested reverse mode returns NaN from the third derivative on
ROWS_MEET, LEFT_OUT = "rows meet", "left out"
# These are in the order that `worst` uses. The first two say nothing about the operator.
# "rule alone": our rule has an answer and nested reverse mode has none.
OUTCOMES = (LEFT_OUT, ROWS_MEET, "rule", "rule alone", "fallback", "refused", "differs")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A sample input of an operator, shifted by `points` along two directions."""

    operator: Any
    sample: Any
    points: Tensor

    def outputs(self) -> list[Tensor]:
        """Return the operator's float64 outputs for the shifted input."""
        moved = self.moved(self.sample.input)
        with torch.random.fork_rng():
            torch.default_generator.manual_seed(0)  # This is faster than `torch.manual_seed`.
            results = self.operator(moved, *self.sample.args, **self.sample.kwargs)
        results = results if isinstance(results, list | tuple) else [results]
        return [result for result in results if _is_plain(result)]

    def moved(self, tensor: Any) -> Any:
        """Return the tensor, or each tensor of a list, shifted by `points` along two directions."""
        if not isinstance(tensor, Tensor):
            return [self.moved(item) for item in tensor]
        number = torch.arange(tensor.numel(), dtype=tensor.dtype).reshape(tensor.shape)
        directions = (number * 1.3).sin(), (number * 0.7 + 1).cos()
        rows = self.points.reshape(*self.points.shape[:-1], *[1] * (tensor.dim() - 1), 2)
        shifts = rows.unbind(-1) if self.points.dim() > 1 else self.points.unbind(-1)
        return tensor.detach() + sum(s * d for s, d in zip(shifts, directions, strict=True))


def _is_plain(result: Any) -> bool:
    is_tensor = isinstance(result, Tensor) and result.dtype == torch.float64
    return is_tensor and result.layout is torch.strided and not result.is_nested


def cases(operator: Any, samples: int) -> Iterator[Case]:
    """Yield the cases of the first samples: shifted as a whole, and row by row where possible."""
    for sample in islice(operator.sample_inputs("cpu", torch.float64), samples):
        yield Case(operator=operator, sample=sample, points=torch.zeros(2, dtype=torch.float64))
        if isinstance(sample.input, Tensor) and sample.input.dim() and sample.input.shape[0] > 1:
            points = torch.zeros(sample.input.shape[0], 2, dtype=torch.float64)
            yield Case(operator=operator, sample=sample, points=points)


def outcome(case: Case) -> str:
    """Return the worst outcome of a case's outputs."""
    points = case.points.requires_grad_()
    return worst(_outcome(number, case, points) for number in range(_count(case)))


def worst(outcomes: Iterable[str]) -> str:
    """Return the outcome that comes last in `OUTCOMES`; LEFT_OUT if there are none."""
    return max(outcomes, key=OUTCOMES.index, default=LEFT_OUT)


def _count(case: Case) -> int:
    try:
        return len(case.outputs())
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return 0


def _outcome(number: int, case: Case, points: Tensor) -> str:
    output = case.outputs()[number]
    batch = points.shape[:-1]
    if not output.requires_grad or output.shape[: len(batch)] != batch or not output.numel():
        return LEFT_OUT
    ours, theirs = (
        _derivatives(case.outputs()[number].reshape(*batch, -1)[..., :CHANNELS], points, method)
        for method in ("taylor", "reverse")
    )
    match ours, theirs:
        case tuple(), tuple() if case.operator.name in TWICE and _is_nan(theirs):
            return "rule alone"
        case tuple(), tuple():
            return "rule" if all(map(_is_close, ours, theirs)) else "differs"
        case tuple(), str():
            return "rule alone"
        case str(), tuple():
            return "fallback"
    return ROWS_MEET if "each row of outputs must depend" in theirs else "refused"


def _derivatives(output: Tensor, points: Tensor, method: Any) -> tuple[Tensor, ...] | str:
    """Return the derivatives of the orders in `ORDERS`, or the error message."""
    try:
        return higher_order_grad(
            output, points, ORDERS, method=method, create_graph=False, allow_unused=True
        )
    except (RuntimeError, NotImplementedError) as error:
        return str(error)


def _is_nan(found: Iterable[Tensor]) -> bool:
    return any(bool(each.isnan().any()) for each in found)


def _is_close(one: Tensor, two: Tensor) -> bool:
    scale = 1 + two[two.isfinite()].abs().amax() if two.isfinite().any() else 1
    return torch.allclose(one / scale, two / scale, rtol=1e-10, atol=1e-10, equal_nan=True)


def operators() -> list[Any]:
    """Return PyTorch's operators that support autograd and float64."""
    return [
        operator
        for operator in op_db
        if operator.supports_autograd and torch.float64 in operator.dtypes
    ]


def sweep(samples: int) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the name of each operator, and the number of its cases by outcome."""
    for operator in operators():
        found = Counter(map(outcome, cases(operator, samples)))
        yield f"{operator.name} {operator.variant_test_name}".strip(), found


def main() -> None:
    """Print the outcomes of each operator, and the number of operators and cases by outcome."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=SAMPLES, help="of each operator")
    operators_by, cases_by = Counter[str](), Counter[str]()
    for name, found in sweep(parser.parse_args().samples):
        operators_by[kind := worst(found)] += 1
        cases_by += found
        print(f"{kind:10} {name:50} {dict(found)}", flush=True)
    for what, counts in (("operators", operators_by), ("cases", cases_by)):
        print(f"{what}:", ", ".join(f"{kind} {counts[kind]}" for kind in OUTCOMES[::-1]))


if __name__ == "__main__":
    main()
