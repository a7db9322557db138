"""PyTorch's table of operators as functions of points, to compare Taylor and reverse mode."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from leafgrad import higher_order_grad, laplacian, trace_graph
from tests.derivative.taylor.oracle import gradients, mixed, weights
from tests.trace.operators.operators import operators, quiet_table, seeded, tensors_in

SAMPLES = 2  # samples per operator
ORDERS = [(2, 0), (1, 1), (0, 3)]
CANNOT_CALL = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)
# Samples with entries up to 1e4 leave too few digits to compare.
ILL_CONDITIONED = {"matrix_exp", "linalg.matrix_exp"}


class Outcome(NamedTuple):
    """The kinds of nodes in a case, and how much the two methods differ; None if one refuses."""

    kinds: frozenset[str]
    difference: float | None


def call(operator: Any, sample: Any, moving: str, x: Tensor, w: Tensor) -> list[Tensor]:
    """Apply an operator to a sample, some of whose tensors depend on the points x.

    `moving` says which: ``"all"``, ``"first"`` or all others. They are moved by ``w x + x**2``, so
    that no series has only degree 1. Each row of a tensor depends on the same row of x ``(rows,
    2)``. With a single point ``(2,)``, the whole tensor depends on it. At x = 0 the sample is as in
    the table, within the operator's domain.
    """
    count = 0

    def move(tensor: Tensor) -> Tensor:
        nonlocal count
        count += 1
        fixed, batch = tensor.detach(), x.shape[:-1]
        is_chosen = moving == "all" or (moving == "first") == (count == 1)
        is_real = tensor.dtype == torch.float64 and tensor.layout is torch.strided
        if not (
            is_chosen and is_real and tensor.requires_grad and fixed.shape[: len(batch)] == batch
        ):
            return fixed
        number = torch.arange(fixed.numel(), dtype=fixed.dtype).reshape(fixed.shape)
        steps = (w * x + x * x).reshape(*batch, *[1] * (fixed.dim() - len(batch)), 2)
        one, two = (1.3 * number + count).sin(), (0.7 * number + 1 + count).cos()
        return fixed + steps[..., 0] * one + steps[..., 1] * two

    args, options = tree_map_only(Tensor, move, ((sample.input, *sample.args), sample.kwargs))
    with torch.random.fork_rng():
        seeded(0)
        results = tensors_in(operator.op(*args, **options))
    return [y for y in results if y.dtype == torch.float64 and y.layout is torch.strided]


def cases(operator: Any, samples: int) -> Iterator[Any]:
    """Yield points and a function of points and weight, for each choice of tensors that move."""
    for sample in islice(operator.sample_inputs("cpu", torch.float64, requires_grad=True), samples):
        tensors = tensors_in((sample.input, sample.args, sample.kwargs))
        ways = (
            ["first", "all", "others"] if sum(t.requires_grad for t in tensors) > 1 else ["first"]
        )
        shapes = {(), *(t.shape[:1] for t in tensors[:1] if t.shape[:1] > (1,))}
        for moving in ways:
            for batch in shapes:
                x = torch.zeros(*batch, 2, dtype=torch.float64, requires_grad=True)
                yield partial(call, operator, sample, moving), x


def outcomes(
    name: str, *, orders: Sequence[tuple[int, int]] = ORDERS, samples: int = SAMPLES
) -> Iterator[Outcome]:
    """Compare derivatives and their gradients by both methods, for samples of an operator.

    `orders` are the orders of the derivatives.
    """
    operator = operators()[name]
    if torch.float64 not in operator.dtypes or name in ILL_CONDITIONED:
        return
    with quiet_table():
        for function, x in cases(operator, samples):
            w = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
            try:
                results = function(x, w)
            except CANNOT_CALL:
                continue
            for result in results:
                if result.requires_grad and result.numel() and has_rows_of(result, x):
                    y = mixed(result) if x.dim() > 1 else result.flatten() @ weights(result.numel())
                    kinds = {node.name for node in trace_graph(y).nodes}
                    yield Outcome(frozenset(kinds), difference(y, x, w, orders))


def has_rows_of(result: Tensor, x: Tensor) -> bool:
    return result.shape[: x.dim() - 1] == x.shape[:-1]


def difference(
    outputs: Tensor, x: Tensor, w: Tensor, orders: Sequence[tuple[int, int]]
) -> float | None:
    """Return how much derivatives and their gradients differ between Taylor and reverse mode.

    Gradients are with respect to `x` and the weight `w`. Return None if one of the methods cannot
    compute the derivatives `orders`.
    """
    try:
        ours = [*higher_order_grad(outputs, x, [*orders], method="taylor")]
        ours.append(laplacian(outputs, x, method="taylor"))
    except (RuntimeError, NotImplementedError):
        return None
    try:
        found = higher_order_grad(outputs, x, [*orders, (2, 0), (0, 2)], method="reverse")
        theirs = [*found[:-2], found[-2] + found[-1]]
        pairs = [*zip(ours, theirs, strict=True)]
        pairs += zip(
            gradients(ours, [w, x], create_graph=False),
            gradients(theirs, [w, x], create_graph=False),
            strict=True,
        )
    except (RuntimeError, NotImplementedError) as error:
        return torch.inf if "of outputs must depend" in str(error) else None
    return max(map(distance, pairs))


def distance(pair: tuple[Tensor, Tensor]) -> float:
    """Return the distance of two tensors, relative to the largest entry of the second.

    Entries that are not finite in the second do not count.
    """
    one, two = (each.detach()[pair[1].isfinite()] for each in pair)
    distance = (one - two).abs().amax() / (1 + two.abs().amax()) if two.numel() else two.sum()
    return distance.nan_to_num(torch.inf).item()
