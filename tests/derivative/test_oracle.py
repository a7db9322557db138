"""higher_order_grad equals nested torch.func.grad, row by row and channel by channel, or refuses.

The oracle knows nothing of rows that are summed: it moves one row, holds the others still and
looks at one channel of that row of the result, so it is right for any function of the batch.
"""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from leafgrad import higher_order_grad

pytestmark = pytest.mark.sweep

Function = Callable[[Tensor], Tensor]
MultiIndex = tuple[int, ...]


def oracle(function: Function, points: Tensor, order: MultiIndex) -> Tensor:
    """Differentiate each row and channel of `function` with respect to its own row of `points`.

    `order` is the multi-index.
    """
    points = points.detach()
    outputs = function(points)
    entries = product(range(len(points)), range(outputs.shape[1]))
    derivatives = [partial(function, points, *entry, order).detach() for entry in entries]
    return torch.stack(derivatives).reshape(outputs.shape)


def partial(
    function: Function, points: Tensor, row: int, channel: int, order: MultiIndex
) -> Tensor:
    def value(moved: Tensor) -> Tensor:
        batch = torch.cat([points[:row], moved.unsqueeze(0), points[row + 1 :]])
        return function(batch)[row, channel]

    derivative: Function = value
    for column, count in enumerate(order):
        for _ in range(count):
            derivative = in_column(torch.func.grad(derivative), column)
    return derivative(points[row])


def in_column(gradient: Function, column: int) -> Function:
    return lambda moved: gradient(moved)[column]


def assert_equal_to_oracle(
    derivative: Tensor, function: Function, points: Tensor, order: MultiIndex
) -> None:
    expected = oracle(function, points, order)
    torch.testing.assert_close(derivative.detach(), expected, rtol=1e-9, atol=1e-9)


def spread(rows: int, columns: int) -> Tensor:
    """Return distinct points in [0.5, 1.5], ``(rows, columns)``, that require grad."""
    number = torch.arange(rows * columns, dtype=torch.float64)
    return ((number * 1.7).sin() / 2 + 1).reshape(rows, columns).requires_grad_()


# --- Random programs


def written_into_a_view(hidden: Tensor, x: Tensor) -> Tensor:
    copy = hidden.clone()
    copy[:, 0] = x[:, 1].cos()
    copy[:, -1:].mul_(x[:, :1])
    return copy


STEPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "tanh": lambda h, _: h.tanh(),
    "sin": lambda h, _: (2 * h).sin(),
    "bell": lambda h, _: (-h.square()).exp(),
    "reciprocal": lambda h, _: 1 / (2 + h.square()),
    "root": lambda h, _: (1 + h.square()).sqrt(),
    "relu": lambda h, _: h.relu(),
    "softmax": lambda h, _: h.softmax(dim=1),
    "group norm": lambda h, _: torch.nn.functional.group_norm(h, 1, eps=0.1),
    "running sum": lambda h, _: h.cumsum(dim=1),
    "reversed features": lambda h, _: h.flip(1),
    "sorted features": lambda h, _: h.sort(dim=1).values,
    "largest feature": lambda h, _: h - h.amax(dim=1, keepdim=True),
    "product with inputs": lambda h, x: h * x[:, :1],
    "inputs beside it": lambda h, x: torch.cat([h, x], dim=1),
    "residual": lambda h, _: h + h.tanh(),
    "linear": lambda h, _: h @ torch.linspace(-1, 1, 2 * h.shape[1]).to(h).view(-1, 2),
    "constant per row": lambda h, _: h * torch.linspace(1, 2, len(h)).to(h).unsqueeze(1),
    "branch": lambda h, _: torch.where(h > 0.3, h.sin(), h),
    "unbound and stacked": lambda h, _: torch.stack([part**2 / 2 for part in h.unbind(1)], dim=1),
    "three axes": lambda h, _: (h.unsqueeze(2) * h.unsqueeze(1)).mean(1).tanh(),
    "written in place": lambda h, _: (h * 1).index_fill_(1, torch.tensor([0]), 0.5).mul_(2),
    "written into a view": written_into_a_view,
    "nothing left": lambda h, _: h * 0,
    "transposed": lambda h, _: h.t().contiguous().atan().t(),
}
MIXERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "centred": lambda h, _: h - h.mean(dim=0),
    "scaled": lambda h, _: h / (1 + h.square().sum(dim=0)),
    "normalised": lambda h, _: (h - h.mean(dim=0)) / (0.1 + h.var(dim=0, correction=0)).sqrt(),
    "other way round": lambda h, x: h * x.flip(0)[:, :1],
    "one further": lambda h, _: h.roll(1, 0),
    "sorted rows": lambda h, _: h.sort(dim=0).values,
    "first row": lambda h, _: h * h[:1],
    "two swapped": lambda h, _: torch.cat([h[1:2], h[:1], h[2:]]),
    "running sum of rows": lambda h, _: h.cumsum(dim=0),
    "largest row": lambda h, _: h - h.amax(dim=0),
    "masked mean": lambda h, _: h + h.mean(dim=0) * 0,
}


def program(steps: list[Callable[[Tensor, Tensor], Tensor]]) -> Function:
    def run(x: Tensor) -> Tensor:
        hidden = x
        for step in steps:
            hidden = step(hidden, x)
        return torch.cat([hidden[:, :2], x[:, :1] * hidden[:, -1:]], dim=1)

    return run


ORDERS = [order for order in product(range(4), repeat=2) if 0 < sum(order) <= 3]


@settings(max_examples=150)
@given(
    names=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5),
    rows=st.integers(1, 4),
    orders=st.lists(st.sampled_from(ORDERS), min_size=1, max_size=2),
)
def test_row_wise_program_matches_oracle(
    names: list[str], rows: int, orders: list[MultiIndex]
) -> None:
    function, points = program([STEPS[name] for name in names]), spread(rows, 2)
    derivatives = higher_order_grad(function(points), points, orders)
    for order, derivative in zip(orders, derivatives, strict=True):
        assert_equal_to_oracle(derivative, function, points, order)


@settings(max_examples=200)
@given(
    before=st.lists(st.sampled_from(sorted(STEPS)), max_size=3),
    mixer=st.sampled_from(sorted(MIXERS)),
    after=st.lists(st.sampled_from(sorted(STEPS)), max_size=3),
    rows=st.integers(2, 4),
    order=st.sampled_from(ORDERS),
)
def test_program_that_mixes_rows_is_refused_or_matches_oracle(
    before: list[str], mixer: str, after: list[str], rows: int, order: MultiIndex
) -> None:
    steps = [*(STEPS[name] for name in before), MIXERS[mixer], *(STEPS[name] for name in after)]
    function, points = program(steps), spread(rows, 2)
    derivative = derivative_unless_rows_mix(function(points), points, order)
    if derivative is not None:
        assert_equal_to_oracle(derivative, function, points, order)


def derivative_unless_rows_mix(outputs: Tensor, points: Tensor, order: MultiIndex) -> Tensor | None:
    try:
        return higher_order_grad(outputs, points, order)
    except RuntimeError as refusal:
        if not str(refusal).startswith("each row of outputs must depend"):
            raise
        return None
