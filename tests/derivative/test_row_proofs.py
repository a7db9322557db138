"""What the proof says of rows is never less than what derivatives show."""

import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leafgrad import hessian, higher_order_grad, jacobian, laplacian, trace_graph
from tests.derivative.row_matrices import Verdict, compare, special
from tests.trace.operators.operators import operators

EFFORTS = pytest.mark.parametrize("effort", [1, pytest.param(4, marks=pytest.mark.sweep)])
LARGEST = 60  # most elements of an input or a result


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
                            # Copied so that `as_strided` reads the same elements at all points.
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


def call(function: Any, x: Tensor) -> Tensor:
    result: Tensor = function.apply(x)
    return result


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

COLUMNS = 3
# Each maps (rows, 3) to (rows, 3) with its own random numbers.
APART: list[Callable[[Tensor, random.Random], Tensor]] = [
    lambda x, _: x.sin() * x,
    lambda x, _: (x * x).exp(),
    lambda x, _: x @ torch.linspace(-1, 1, 9, dtype=x.dtype).view(3, 3),
    lambda x, _: x.softmax(1),
    lambda x, _: x - x.mean(1, keepdim=True),
    lambda x, _: x.cumsum(1).tanh(),
    lambda x, _: x.sort(1).values,
    lambda x, _: x.roll(1, 1),
    lambda x, _: x.flip(1) * x,
    lambda x, _: torch.cat([x[:, 1:], x[:, :1]], 1),
    lambda x, _: x.t().exp().t(),
    lambda x, _: x.flatten().sin().view(-1, 3),
    lambda x, _: x.unsqueeze(1).expand(-1, 2, -1).prod(1),
    lambda x, _: torch.where(x > 0, x, x.square()),
    lambda x, _: x.flip(0).cos().flip(0),
    lambda x, _: torch.cat([x[:2].sin(), x[2:].cos()]),
    lambda x, _: torch.stack([row.exp() for row in x.unbind(0)]),
    lambda x, r: _there_and_back(x, r.sample(range(len(x)), len(x))),
    lambda x, _: _written(x),
    lambda x, _: nn.functional.layer_norm(x, (3,)),
    lambda x, _: torch.einsum("ni,nj->nij", x, x.cos()).diagonal(0, 1, 2),
    lambda x, _: torch.linalg.solve(torch.eye(3, dtype=x.dtype) * 4 + x[:, :, None] * 0.1, x),
    lambda x, _: nn.functional.conv1d(
        x.unsqueeze(1), torch.ones(1, 1, 3, dtype=x.dtype), padding=1
    )[:, 0],
    lambda x, _: x.gather(1, x.argsort(1)) * x.amax(1, keepdim=True),
    lambda x, _: call(Doubled, x),
    lambda x, _: x.view(-1, 1, 3).repeat(1, 2, 1).reshape(-1, 6)[:, ::2],
    lambda x, _: x.renorm(2, 0, 1.0),
]
# Each mixes or moves rows.
MIXERS: list[Callable[[Tensor, random.Random], Tensor]] = [
    lambda x, r: x + 0.5 * x.roll(r.randrange(1, len(x)), 0),
    lambda x, _: x.flip(0),
    lambda x, _: x - x.mean(0),
    lambda x, _: x * x.prod(0).tanh(),
    lambda x, _: x.cumprod(0),
    lambda x, _: x.softmax(0),
    lambda x, _: x.logcumsumexp(0),
    lambda x, _: x.sort(0).values,
    lambda x, r: x[[r.randrange(len(x)) for _ in x]],
    lambda x, _: x.t().reshape(-1, 3),
    lambda x, _: torch.ones(len(x), len(x), dtype=x.dtype).triu() @ x,
    lambda x, _: x.tanh() @ (x.t() @ x).tanh(),
    lambda x, _: nn.functional.batch_norm(x, None, None, training=True),
    lambda x, _: torch.cat([x[1:], x[:1]]),
    lambda x, _: x.index_add(0, torch.arange(len(x)).flip(0), x * x),
    lambda x, _: x.clone().index_put((torch.tensor([0]),), x[1:2].sin()),
    lambda x, _: _written(x, 1),
    lambda x, _: x + torch.where(x.sum(0) > 0, x[:1], x[1:2]),
    lambda x, r: x.scatter(0, torch.randint(len(x), (1, 3), generator=_generator(r)), x[-1:]),
    lambda x, _: call(Doubled, x) + call(Joined, x),
]


def _generator(r: random.Random) -> torch.Generator:
    return torch.Generator().manual_seed(r.randrange(1000))


def _there_and_back(x: Tensor, order: list[int]) -> Tensor:
    there = torch.tensor(order)
    return x[there].sin()[there.argsort()]


def _written(x: Tensor, shift: int = 0) -> Tensor:
    result = torch.zeros_like(x)
    result[:, 0] = x[:, 1]
    result[:, 1:] += x[:, 1:].roll(shift, 0)
    result[:, 1] *= x[:, 2]
    return result


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x.sum(1, keepdim=True)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return g * x.sum(1, keepdim=True) + (g * x).sum(1, keepdim=True)


class Hidden(torch.autograd.Function):
    """Hides a part of its backward that is zero where all gradients are equal."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_: Any, g: Tensor) -> Tensor:
        return g + g.detach() - g.detach().roll(-1, 0)


class Infinite(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.log()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return g / ctx.saved_tensors[0]


class Joined(Doubled):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x.sum(0)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return g * x.sum(0) + (g * x).sum(0)


def composition(seed: int) -> tuple[Callable[[Tensor], Tensor], bool]:
    """Return a program of three to five operations, and whether one of them joins rows."""
    choice = random.Random(seed)
    steps = [choice.choice(APART) for _ in range(choice.randint(3, 5))]
    is_mixed = choice.random() < 0.5
    if is_mixed:
        steps[choice.randrange(len(steps))] = choice.choice(MIXERS)

    def program(x: Tensor) -> Tensor:
        numbers = random.Random(seed)
        for step in steps:
            x = step(x, numbers)
        return x

    return program, is_mixed


@EFFORTS
def test_no_composition_that_mixes_rows_is_proven_independent(
    effort: int, capsys: pytest.CaptureFixture[str]
) -> None:
    counts: Counter[str] = Counter()
    for seed in range(60 * effort):
        program, is_mixed = composition(seed)
        point = torch.rand(
            5, COLUMNS, dtype=torch.float64, generator=_generator(random.Random(seed))
        )
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

# Operators that refuse other values than their samples, or have gradients up to a phase.
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


# --- Wrong results that were found

POINTS = torch.tensor([[0.0], [0.0], [0.7], [1.3]], dtype=torch.float64)
ANSWERED_WRONGLY: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "two rows further": (lambda x: x.exp() + x.roll(2, 0), torch.tensor([[0.0], [1], [2], [12]])),
    "the same row in the middle": (lambda x: x.flip(0).cos(), torch.zeros(3, 1)),
    "differences": (lambda x: (x - x.roll(2, 0)) ** 2, torch.full((4, 1), 0.5)),
    "a product with two zeros": (lambda x: x + x.prod(), torch.tensor([[0.0], [0], [2]])),
    "a running product": (lambda x: x.cumprod(0), POINTS),
    "a running sum of exponentials": (
        lambda x: (torch.eye(4).roll(1, 0) - torch.eye(4)).double() @ x.logcumsumexp(0),
        POINTS,
    ),
    "0 divided by 0": (lambda x: x.sin() + torch.sinc(x.sum(0)), torch.tensor([[0.5], [-0.5]])),
    "a hidden part of a backward": (Hidden.apply, torch.tensor([[0.0], [0.5], [1]])),
    "infinity, which shows nothing": (Infinite.apply, torch.tensor([[0.0], [0.5], [1]])),
    "systems with vectors, turned": (
        lambda x: torch.linalg.solve(torch.eye(3) + torch.ones(1, 3, 3), x.t()).t(),
        torch.tensor([[0.0], [2], [0]]),
    ),
    "a mask of it": (
        lambda x: x + torch.where(x.sum(0) == 0, torch.ones(()), x.sum(0).sin()),
        torch.tensor([[0.5], [-0.5]]),
    ),
}
CALLS: dict[str, Callable[..., Any]] = {
    "first": lambda u, x, **k: higher_order_grad(u, x, (1,), **k),
    "second": lambda u, x, **k: higher_order_grad(u, x, (2,), **k),
    "laplacian": laplacian,
    "jacobian": jacobian,
    "hessian": hessian,
}


@pytest.mark.parametrize("method", ["auto", "taylor", "reverse"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ANSWERED_WRONGLY)
def test_mixed_rows_are_refused_by_each_function_and_method(
    name: str, call: str, method: str
) -> None:
    program, points = ANSWERED_WRONGLY[name]
    x = points.clone().requires_grad_()
    message = "row of inputs only, but|may carry something|the rows of outputs are not|has no rule"
    with pytest.raises(RuntimeError, match=message):
        CALLS[call](program(x), x, method=method)


@pytest.mark.parametrize("distance", [1, 2, 16, 63])
def test_promise_broken_by_one_of_many_rows_is_found(distance: int) -> None:
    x = torch.rand(65, 2, requires_grad=True)
    order = torch.arange(65)
    order[0], order[distance] = distance, 0
    with pytest.raises(RuntimeError, match=r"rows must be independent where.*inputs\[0\] reaches"):
        jacobian(x[order].sin(), x, rows="independent")
    with pytest.raises(
        ValueError,
        match='rows must be "proven" or "independent", not "yes"'.replace('"yes"', "'yes'"),
    ):
        jacobian(x, x, rows="yes")  # type: ignore[arg-type]
