"""One test a fact about the numbers of nodes."""

import threading
from typing import Any

import torch

from leafgrad import _autograd


def leaf(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, requires_grad=True)


def recorded(tensor: torch.Tensor) -> Any:
    """Give the node of a result."""
    assert tensor.grad_fn is not None
    return tensor.grad_fn


def test_nodes_are_numbered_as_they_are_made_and_asking_takes_no_number() -> None:
    x = leaf(2)
    number = _autograd.next_sequence_nr()
    assert _autograd.next_sequence_nr() == number
    first, second = x.sin(), x.cos()
    assert _autograd.sequence_nr(recorded(first)) == number
    assert _autograd.sequence_nr(recorded(second)) == number + 1


def test_many_nodes_give_the_numbers_that_each_of_them_gives() -> None:
    nodes, wiring = _autograd.survey([recorded(leaf(2).sin().cos())])
    numbers = _autograd.sequence_nrs(wiring.sequence_nrs)
    assert numbers == [*map(_autograd.sequence_nr, nodes)]
    assert numbers[-1] is None


def test_a_leaf_has_no_number() -> None:
    assert _autograd.sequence_nr(torch.autograd.graph.get_gradient_edge(leaf(2)).node) is None


def test_each_thread_counts_for_itself() -> None:
    leaf(2).sin()
    numbers: list[int] = []
    thread = threading.Thread(target=lambda: numbers.append(_autograd.next_sequence_nr()))
    thread.start()
    thread.join()
    assert numbers == [0]


class Doubled(torch.autograd.Function):
    seen: int

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        Doubled.seen = _autograd.next_sequence_nr()
        return 2 * x

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return 2 * gradients[0]


def test_a_custom_function_has_its_number_before_its_forward_runs() -> None:
    function: Any = Doubled
    result = function.apply(leaf(2))
    node = recorded(result)
    assert _autograd.sequence_nr(node) == Doubled.seen - 1 == _autograd.next_sequence_nr() - 1
