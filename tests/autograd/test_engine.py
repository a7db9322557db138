"""One watched backward: what PyTorch's hooks on nodes tell, and what stays behind."""

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


def test_a_backward_adds_to_retained_gradients_and_they_are_put_back() -> None:
    x = leaf(3.0)
    y = x.exp()
    y.retain_grad()
    z = y * 2.0
    torch.autograd.grad(z, x, retain_graph=True)
    before = y.grad
    assert before == 2.0
    assert z.grad_fn is not None
    with _autograd.retained_grads_kept(_autograd.walk([z.grad_fn])):
        torch.autograd.grad(z, x, retain_graph=True)
        assert y.grad == 4.0
    assert y.grad is before
    assert before == 2.0


def test_retained_gradients_are_put_back_after_an_error_too() -> None:
    y = leaf(3.0).exp()
    y.retain_grad()
    kept = _autograd.retained_grads_kept([y.grad_fn])
    kept.__enter__()
    y.grad = torch.tensor(1.0)
    assert not kept.__exit__(ArithmeticError, ArithmeticError(), None)
    assert y.grad is None


def test_retained_gradients_of_other_graphs_are_nobodys_business() -> None:
    y, other = leaf(3.0).exp(), leaf(3.0).exp()
    other.retain_grad()
    with _autograd.retained_grads_kept([y.grad_fn]):
        other.backward()
    assert other.grad == 1.0


def test_a_view_that_pytorch_refuses_retains_nothing_that_could_be_put_back() -> None:
    x = torch.ones(2, requires_grad=True).exp()
    one, _ = x.unbind()
    one.retain_grad()
    x.mul_(2.0)
    with _autograd.retained_grads_kept([x.grad_fn]):
        pass


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
