"""If the proof says that rows are independent, no derivative connects two rows."""

import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import pytest
import torch
from torch import Size, Tensor

from leafgrad import _autograd, trace_graph
from leafgrad._derivative.arguments import Axes
from leafgrad._derivative.row_independence import RowProof
from leafgrad._derivative.row_spans import Rows
from tests.derivative.row_programs import APART, MIXED, Program
from tests.derivative.taylor.oracle import rows
from tests.trace.operators.operators import operators

EFFORTS = pytest.mark.parametrize("effort", [1, pytest.param(4, marks=pytest.mark.sweep)])
LARGEST = 60  # The maximum number of elements of an input or a result.


# --- The proof and the derivatives of a program


class Verdict(NamedTuple):
    """What the proof says about a program, and what its derivatives show.

    Attributes:
        is_proven: Whether rows are proven to be independent.
        is_independent: Whether no derivative connects two rows.
        missed: The number of elements with a derivative in a row that the proof rules out.
    """

    is_proven: bool
    is_independent: bool
    missed: int


def proof_of(outputs: Tensor, x: Tensor) -> RowProof | None:
    """Return the proof that rows on the first axis of both are independent; None without a path."""
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
    """Prove a program at one point, and compare the proof with its derivatives.

    The derivatives are taken at this point and at others of the same shape.
    """
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
    """Return zeros, ties, or rows that repeat the first ones, in place of a point.

    `kind` selects one of the three.
    """
    if kind % 3 == 0:
        return point.where(torch.arange(point.numel()).reshape(point.shape) % 2 == 0, 0)
    if kind % 3 == 1:
        return torch.full_like(point, float(point.flatten()[0]) if point.numel() else 0.0)
    return point[torch.arange(len(point)) // 2]


# --- Operators


def applications(op: Any, most: int) -> Iterator[tuple[Callable[[Tensor], Any], Tensor]]:
    """Yield pairs of a function and its argument.

    The function applies an operator to a sample, in which the argument replaces one tensor.
    """
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
                            # With a copy, `as_strided` reads the same elements at all points.
                            tensor.detach()
                            .movedim(axis, 0)
                            .clone(memory_format=torch.contiguous_format),
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
                return results(apply(x))[result]  # noqa: B023 (called at once)

            here = special(point, number) if number % 2 else point
            others = [point, point + 0.1 * torch.rand_like(point)]
            try:
                outputs = program(here.clone().requires_grad_())
            except (RuntimeError, ValueError, IndexError, TypeError):
                here = point
                outputs = program(here.clone().requires_grad_())
            kinds.update(node.name for node in trace_graph(outputs).nodes)
            try:
                yield compare(program, here, others)
            except RuntimeError as error:
                if (
                    "not implemented" in str(error)
                    or "singular" in str(error)
                    or "converge" in str(error)
                    or "positive-definite" in str(error)
                    or "out=" in str(error)  # a backward that PyTorch cannot record
                ):
                    continue
                raise


# --- Random compositions


@cache
def tables(programs: str) -> list[Program]:
    """Return the programs whose result the next one can use as its input.

    The program "elements" is left out: its result depends on values, and a proof is valid only for
    the values of its graph.
    """
    known = APART if programs == "apart" else MIXED
    names = known.keys() - ({"elements"} if programs == "apart" else APART.keys())
    return [known[name] for name in sorted(names) if known[name](rows(5, 2)).shape == (5, 2)]


def composition(seed: int) -> tuple[Program, bool]:
    """Return a program of three to five operations, and whether one of them mixes rows."""
    choice = random.Random(seed)
    steps = [choice.choice(tables("apart")) for _ in range(choice.randint(3, 5))]
    is_mixed = choice.random() < 0.5
    if is_mixed:
        steps[choice.randrange(len(steps))] = choice.choice(tables("mixed"))

    def program(x: Tensor) -> Tensor:
        for step in steps:
            x = step(x)
        return x

    return program, is_mixed


@EFFORTS
def test_no_composition_that_mixes_rows_is_proven_independent(
    effort: int, capsys: pytest.CaptureFixture[str]
) -> None:
    counts: Counter[str] = Counter()
    for seed in range(60 * effort):
        program, is_mixed = composition(seed)
        generator = torch.Generator().manual_seed(seed)
        point = torch.rand(5, 2, dtype=torch.float64, generator=generator)
        here = special(point, seed) if seed % 2 else point
        found = compare(program, here, [point, 0.5 - point])
        assert found.missed == 0, seed
        assert not found.is_proven or found.is_independent, seed
        counts["compositions"] += 1
        counts["proven"] += found.is_proven
        counts["with a mixer"] += is_mixed
        counts["refused although no derivative joins rows"] += (
            found.is_independent and not found.is_proven
        )
    assert counts["proven"] > counts["compositions"] / 3
    with capsys.disabled():
        print(f"\n{dict(counts)}, mismatches 0")  # noqa: T201


# --- All operators

# Operators that accept only the values of their samples, or whose gradients are defined only up to
# a phase.
NOT_HERE = {
    "linalg.eig",
    "nn.functional.binary_cross_entropy",
    "nn.functional.linear_cross_entropy",
}


@pytest.mark.sweep
def test_no_operator_mixes_rows_that_were_proven_independent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts: Counter[str] = Counter()
    kinds: set[str] = set()
    for name, op in operators().items():
        if name in NOT_HERE or torch.float64 not in op.dtypes:
            continue
        for found in verdicts(op, 8, kinds):
            assert found.missed == 0, name
            assert not found.is_proven or found.is_independent, name
            counts["samples"] += 1
            counts["proven"] += found.is_proven
            counts["refused although no derivative joins rows"] += (
                found.is_independent and not found.is_proven
            )
    with capsys.disabled():
        print(f"\n{len(kinds)} kinds, {dict(counts)}, mismatches 0")  # noqa: T201
