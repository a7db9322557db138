"""One watched backward: what PyTorch's hooks on nodes tell, and what stays behind."""

from typing import Any

import pytest
import torch
from torch.autograd.graph import Node

from leafgrad import _autograd


def leaf(value: float) -> torch.Tensor:
    return torch.tensor(value, requires_grad=True)


def numbers(gradients: _autograd.Gradients) -> list[float | None]:
    return [None if gradient is None else gradient.item() for gradient in gradients]


class Seen:
    """What a watched backward told."""

    def __init__(self, root: torch.Tensor) -> None:
        node = root.grad_fn
        assert node is not None
        self.graph = _autograd.walk([node])
        self.told: list[tuple[str, list[float | None], list[float | None]]] = []
        ends = [(node, 0) for node, after in self.graph.items() if not after]
        with _autograd.watched_nodes(self.graph, self.note):
            self.arrived = _autograd.gradients_of([root], [torch.ones_like(root)], ends)

    def note(self, node: Node, arrived: _autograd.Gradients, passed: _autograd.Gradients) -> None:
        self.told.append((_autograd.node_name(node), numbers(arrived), numbers(passed)))


def test_a_hook_on_each_node_sees_what_arrives_and_what_goes_on_edge_by_edge() -> None:
    x = leaf(3.0)
    assert Seen(x * x * 2.0).told == [
        ("MulBackward0", [1.0], [2.0, None]),
        ("MulBackward0", [2.0], [6.0, 6.0]),
        ("AccumulateGrad", [12.0], []),
    ]


def test_a_leaf_is_told_of_as_soon_as_its_gradient_is_complete() -> None:
    x, y = leaf(3.0), leaf(5.0)
    told = Seen(x.exp() + (y * 2.0)).told
    assert [name for name, _, _ in told] == [
        "AddBackward0",
        "MulBackward0",
        "AccumulateGrad",
        "ExpBackward0",
        "AccumulateGrad",
    ]


def test_a_leaf_that_needs_no_gradient_any_more_is_passed_over() -> None:
    x = leaf(3.0)
    y = x.exp()
    x.requires_grad = False
    assert [name for name, _, _ in Seen(y).told] == ["ExpBackward0"]


def test_a_watched_backward_fills_no_grad_and_frees_nothing() -> None:
    x = leaf(3.0)
    y = x.exp()
    assert [gradient == x.exp() for gradient in Seen(y).arrived] == [True]
    assert x.grad is None
    y.backward()


def test_no_hook_of_ours_is_called_once_the_watch_is_over() -> None:
    x = leaf(3.0)
    y = x * x
    seen = Seen(y)
    told = [*seen.told]
    y.backward()
    assert seen.told == told


def retained() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x = leaf(3.0)
    y = x.exp()
    y.retain_grad()
    return x, y, y * 2.0


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("is_filled", [False, True])
def test_a_backward_adds_to_retained_gradients_and_they_are_put_back(
    *, is_known: bool, is_filled: bool
) -> None:
    x, y, z = retained()
    if is_filled:
        z.backward(retain_graph=True)
    before = y.grad
    with _autograd.retained_grads_kept([y] if is_known else []):
        torch.autograd.grad(z, x, retain_graph=True)
        assert y.grad == (4.0 if is_filled else 2.0)
    assert y.grad is before
    assert not is_filled or before == 2.0


def test_retained_gradients_are_put_back_after_an_error_too() -> None:
    x, y, z = retained()
    x.register_hook(lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError), _autograd.retained_grads_kept([]):
        torch.autograd.grad(z, x)
    assert y.grad is None


def test_no_operation_of_a_watched_node_is_seen_by_what_sees_retained_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[object] = []

    def dispatch(_: object, func: Any, __: object, args: Any = (), kwargs: Any = None) -> Any:
        seen.append(func)
        return func(*args, **(kwargs or {}))

    monkeypatch.setattr(_autograd.engine._GradientStores, "__torch_dispatch__", dispatch)
    _, _, z = retained()
    root = z * z + z
    with _autograd.retained_grads_kept([]):
        Seen(root)
    assert torch.ops.aten.clone.default in seen
    assert torch.ops.aten.mul.Tensor not in seen


@pytest.mark.parametrize("retains", [False, True])
def test_tensors_are_looked_for_only_where_a_gradient_was_stored(
    monkeypatch: pytest.MonkeyPatch, *, retains: bool
) -> None:
    looks: list[int] = []

    def alive(generation: int) -> list[torch.Tensor]:
        looks.append(generation)
        return []

    monkeypatch.setattr(_autograd.engine, "alive", alive)
    x = leaf(3.0)
    y = x * 2.0
    y.register_hook(lambda gradient: gradient.clone() + gradient)
    if retains:
        y.retain_grad()
    with _autograd.retained_grads_kept([]):
        torch.autograd.grad(y.exp(), x)
    assert bool(looks) == retains


def test_a_view_that_pytorch_refuses_retains_nothing_that_could_be_put_back() -> None:
    x = torch.ones(2, requires_grad=True).exp()
    one, _ = x.unbind()
    one.retain_grad()
    x.mul_(2.0)
    with _autograd.retained_grads_kept([one]):
        torch.autograd.grad(x.sum(), x)


class Subclass(torch.Tensor):
    """What `torch.autograd.grad` makes gradients of, where inputs are."""


@pytest.mark.parametrize("kind", [torch.Tensor, Subclass])
@pytest.mark.parametrize("create_graph", [False, True])
def test_one_pass_gives_what_grad_gives_and_frees_nothing(
    kind: type[torch.Tensor], *, create_graph: bool
) -> None:
    x = torch.tensor([2.0, 3.0]).as_subclass(kind).requires_grad_()
    outputs = x**3
    found = _autograd.gradient_of_all(outputs, x, create_graph=create_graph)
    assert found is not None
    assert type(found) is kind
    assert found.tolist() == [12.0, 27.0]
    assert found.requires_grad == create_graph
    outputs.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [12.0, 27.0]


def test_one_pass_gives_nothing_where_nothing_arrives() -> None:
    x, y = leaf(2.0), leaf(3.0)
    assert _autograd.gradient_of_all(x * 2, y, create_graph=False) is None


def test_a_backward_is_known_to_run_from_within_it() -> None:
    seen = []
    x = leaf(2.0)
    x.register_hook(lambda _: seen.append(_autograd.is_backward_running()))
    x.sum().backward()
    assert (seen, _autograd.is_backward_running()) == ([True], False)
