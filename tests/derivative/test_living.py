"""Calls that request parts of one derivative share it. This changes only the time they take."""

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from leafgrad import higher_order_grad
from leafgrad._derivative import living
from leafgrad._derivative.taylor import Taylor
from tests.tensors import Cube

ORDERS = [(1, 0), (0, 1), (2, 0), (1, 1)]


@pytest.fixture(autouse=True)
def _nothing_lives() -> Iterator[None]:
    living._living.clear()
    yield
    gc.collect()
    assert not living._living


class Model:
    """A network with two columns and three channels that counts the backward passes through it."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3)).double()
        self.x = torch.rand(5, 2, dtype=torch.float64, requires_grad=True)
        self.passes: list[Tensor] = []

    def outputs(self) -> Tensor:
        hidden = self.network[1](self.network[0](self.x))
        hidden.register_hook(self.passes.append)
        result: Tensor = self.network[2](hidden)
        return result

    def exact(self, order: tuple[int, int], channel: int = 0) -> Tensor:
        """Return the derivative of this order of a channel, computed in a new graph."""
        derivative = self.network(self.x)[:, channel]
        for column, count in enumerate(order):
            for _ in range(count):
                (slopes,) = torch.autograd.grad(derivative.sum(), self.x, create_graph=True)
                derivative = slopes[:, column]
        result: Tensor = derivative.detach()
        return result


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that collects the orders of each request to Taylor mode."""
    asked: list[Any] = []
    derivatives = Taylor.derivatives

    def note(taylor: Taylor, orders: Any) -> Any:
        asked.append(list(orders))
        return derivatives(taylor, orders)

    monkeypatch.setattr(Taylor, "derivatives", note)
    return asked


Part = Callable[[Tensor], Tensor]
PARTS: dict[str, Part] = {
    "a column": lambda y: y[:, 0:1],
    "a channel": lambda y: y[:, 0],
    "by select": lambda y: y.select(1, 0),
}


@pytest.mark.parametrize(
    "part", [*PARTS.values(), lambda y: y[:, 0:1, None]], ids=[*PARTS, "a column of matrices"]
)
def test_second_column_of_channel_needs_no_new_backward_pass(model: Model, part: Part) -> None:
    y = model.outputs()
    found = [higher_order_grad(part(y), model.x, order) for order in [(1, 0), (0, 1), (1, 0)]]
    assert len(model.passes) == 1
    for order, derivative in zip([(1, 0), (0, 1), (1, 0)], found, strict=True):
        assert derivative.shape == part(y).shape
        assert derivative._base is None
        torch.testing.assert_close(derivative.reshape(5), model.exact(order))


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_channels_of_one_order_share_taylor_pass(
    model: Model, part: Part, walks: list[Any]
) -> None:
    y = model.outputs()
    found = [higher_order_grad(part(y), model.x, order) for order in [(2, 0), (1, 1)]]
    others = higher_order_grad(y[:, 1:], model.x, [(1, 1), (2, 0), (0, 2)])
    assert walks == [[(2, 0)], [(1, 1)], [(0, 2)]]
    for order, derivative in zip([(2, 0), (1, 1)], found, strict=True):
        assert derivative.shape == part(y).shape
        torch.testing.assert_close(derivative.reshape(5), model.exact(order))
    for order, derivative in zip([(1, 1), (2, 0), (0, 2)], others, strict=True):
        expected = torch.stack([model.exact(order, channel) for channel in (1, 2)], 1)
        torch.testing.assert_close(derivative, expected)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_write_into_result_does_not_change_other_results(
    model: Model, order: tuple[int, int]
) -> None:
    y = model.outputs()
    one, two, other = (
        higher_order_grad(y[:, channel : channel + 1], model.x, order) for channel in (0, 0, 1)
    )
    product = (two * other).sum()
    one.mul_(3)
    torch.testing.assert_close(two[:, 0], model.exact(order))
    torch.testing.assert_close(higher_order_grad(y[:, 0], model.x, order), model.exact(order))
    (product + one.sum()).backward()
    assert model.network[0].weight.grad is not None


def test_gradients_of_shared_derivatives_match_single_call(model: Model) -> None:
    y = model.outputs()
    weights = list(model.network.parameters())
    line_by_line = [higher_order_grad(y[:, 0:1], model.x, order) for order in ORDERS]
    at_once = higher_order_grad(model.network(model.x)[:, 0:1], model.x, ORDERS)
    for found in zip(
        *(
            torch.autograd.grad(sum(d.square().sum() for d in each), weights, allow_unused=True)  # type: ignore[arg-type]
            for each in (line_by_line, at_once)
        ),
        strict=True,
    ):
        if found[0] is not None:
            torch.testing.assert_close(*found)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_cache_keeps_no_tensor_alive(model: Model, order: tuple[int, int]) -> None:
    y = model.outputs()
    one, other = (higher_order_grad(y[:, :1], model.x, order) for _ in range(2))
    whole = [ref(known.derivative) for known in living._living.values()]
    assert [each() is not None for each in whole] == [True]
    del one
    assert len(living._living) == 1
    del other
    assert [each() for each in whole] == [None]
    derivative = higher_order_grad(y[:, :1], model.x, order)
    source = ref(y)
    del y
    assert source() is None
    assert not living._living
    assert derivative.requires_grad


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_write_into_data_of_result_does_not_change_later_results(
    model: Model, order: tuple[int, int]
) -> None:
    y = model.outputs()
    one = higher_order_grad(y[:, :1], model.x, order)
    one.data.zero_()
    two = higher_order_grad(y[:, :1], model.x, order)
    torch.testing.assert_close(two[:, 0], model.exact(order))


def test_new_derivative_replaces_freed_one_in_cache() -> None:
    x, w = (torch.rand(*shape, requires_grad=True) for shape in ((3, 2), (2, 1)))
    u = x @ w
    first = higher_order_grad(u, x, (1, 0))
    first.sum().backward()
    second = higher_order_grad(u, x, (0, 1))
    (kept,) = living._living.values()
    del first
    assert [*living._living.values()] == [kept]
    assert second.requires_grad
    del kept


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_parameter_changed_in_place_raises_error_of_pytorch(
    model: Model, order: tuple[int, int]
) -> None:
    y = model.outputs()
    first = higher_order_grad(y[:, 0:1], model.x, order)
    with torch.no_grad():
        model.network[2].get_parameter("weight").add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        higher_order_grad(y[:, 0:1], model.x, order)
    assert first.isfinite().all()


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_freed_graph_raises_error_of_pytorch(model: Model, order: tuple[int, int]) -> None:
    y = model.outputs()
    first = higher_order_grad(y[:, 0:1], model.x, order)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        higher_order_grad(y[:, 0:1], model.x, order)
    assert first.isfinite().all()


def test_derivative_with_freed_graph_is_computed_again() -> None:
    x, w = (torch.rand(*shape, requires_grad=True) for shape in ((3, 2), (2, 1)))
    u = x @ w
    first = higher_order_grad(u, x, (1, 0))
    first.sum().backward()
    second = higher_order_grad(u, x, (0, 1))
    second.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [[3.0], [3.0]]


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_outputs_changed_in_place_are_differentiated_again(
    model: Model, order: tuple[int, int]
) -> None:
    y = model.outputs()
    first = higher_order_grad(y[:, 0:1], model.x, order)
    y.mul_(2)
    second = higher_order_grad(y[:, 0:1], model.x, order)
    torch.testing.assert_close(second, 2 * first)


def test_cache_distinguishes_inputs_channels_and_outputs(model: Model) -> None:
    y = model.outputs()
    middle = model.x * 1
    z = model.network(middle)
    first = higher_order_grad(z[:, 0:1], middle, (1, 0))
    second = higher_order_grad(z[:, 0:1], model.x, (1, 0))
    third = higher_order_grad(z[:, 1:2], model.x, (1, 0))
    fourth = higher_order_grad(y[:, 2:3], model.x, (1, 0))
    torch.testing.assert_close(first, second)
    torch.testing.assert_close(third[:, 0], model.exact((1, 0), 1))
    torch.testing.assert_close(fourth[:, 0], model.exact((1, 0), 2))


@pytest.mark.parametrize(
    "options", [{"create_graph": False}, {"method": "reverse"}, {"method": "taylor"}], ids=str
)
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_call_with_other_options_does_not_use_the_cache(
    model: Model, options: dict[str, Any], order: tuple[int, int], walks: list[Any]
) -> None:
    y = model.outputs()
    kept = higher_order_grad(y[:, 0:1], model.x, order)
    before = len(model.passes) + len(walks)
    other = higher_order_grad(y[:, 0:1], model.x, order, **options)
    assert len(model.passes) + len(walks) > before
    assert other.requires_grad == options.get("create_graph", True)
    torch.testing.assert_close(kept, other)


def test_results_under_no_grad_have_a_graph(model: Model) -> None:
    u = model.outputs()[:, 0]
    with torch.no_grad():
        found = [higher_order_grad(u, model.x, order) for order in [(1, 0), (0, 1), (2, 0)]]
    assert all(each.requires_grad for each in found)


def test_derivatives_of_checkpoint_are_right_with_cache(model: Model) -> None:
    y = checkpoint(model.network, model.x, use_reentrant=False)
    for order in [(1, 0), (0, 1), (2, 0), (2, 0)]:
        derivative = higher_order_grad(y[:, 0], model.x, order)
        torch.testing.assert_close(derivative, model.exact(order))


def test_cache_is_not_used_under_modes(model: Model) -> None:
    class Nothing(TorchDispatchMode):
        def __torch_dispatch__(
            self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            del types
            return operator(*args, **(kwargs or {}))

    plain = model.outputs()
    with Nothing():  # type: ignore[no-untyped-call]
        others = [higher_order_grad(plain[:, 0:1], model.x, order) for order in ORDERS]
    assert not living._living
    for other, order in zip(others, ORDERS, strict=True):
        torch.testing.assert_close(other[:, 0], model.exact(order))


def test_channel_is_differentiated_although_another_channel_cannot_be(model: Model) -> None:
    cubes: Any = Cube.apply(model.x)  # type: ignore[no-untyped-call]
    y = torch.cat([model.outputs(), cubes], 1)
    ours = higher_order_grad(y[:, 3:4], model.x, (2, 0))
    torch.testing.assert_close(ours, 6 * model.x[:, :1])


def test_outputs_that_are_slices_of_inputs_or_viewed_oddly_are_accepted(model: Model) -> None:
    assert higher_order_grad(model.x[:, 0:1], model.x, (2, 0)).tolist() == [[0.0]] * 5
    strange = model.outputs().view(15)[:5]
    assert higher_order_grad(strange * model.x[:, 0], model.x, (0, 0)).shape == (5,)


def test_threads_get_equal_derivatives(model: Model) -> None:
    y = model.outputs()
    found: list[Tensor] = []

    def work() -> None:
        for order in ORDERS * 3:
            derivative = higher_order_grad(y[:, 0], model.x, order)
            if not torch.allclose(derivative, model.exact(order)):
                found.append(derivative)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not found
