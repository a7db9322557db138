"""One test a fact about what is alive."""

from typing import Any

import torch

from leafgrad import _autograd
from tests.trace.test_trace_graph import Wrapped


def leaf(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, requires_grad=True)


def number(tensor: torch.Tensor) -> int:
    return _autograd.number_of(tensor)


def test_a_graph_lives_as_long_as_a_tensor_leads_to_it() -> None:
    x = leaf(2)
    y = x.sin().exp()
    nodes, living = _autograd.living_graph()
    assert y.grad_fn in nodes
    inner: Any = y.grad_fn
    assert {number(x), number(y), _autograd.sequence_nr(inner.next_functions[0][0])} <= living
    gone = number(y)
    del y, inner, nodes
    assert gone not in _autograd.living_graph()[1]


def test_a_graph_lives_in_a_gradient_in_the_base_of_a_view_and_in_a_wrapper() -> None:
    x = leaf(2)
    (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    x.grad = slope
    behind = number(slope)
    base = x * 2
    view, of_base = base[:1], number(base)
    del slope, base
    assert {behind, of_base, number(view)} <= _autograd.living_graph()[1]
    found = []

    def inside(row: torch.Tensor) -> torch.Tensor:
        y = row * 2
        found.append(_autograd.living_graph()[1])
        return y

    made = torch.func.vmap(inside)(leaf(2, 3))
    assert number(made) - 1 in found[0] or number(made) in found[0]


def test_a_view_that_was_written_into_is_not_asked_which_would_record_a_node() -> None:
    base = leaf(4) * 1
    view = base[:2]
    base.mul_(2)
    start = _autograd.next_sequence_nr()
    assert number(base) in _autograd.living_graph()[1]
    assert _autograd.next_sequence_nr() == start
    assert view.grad_fn is not None
    assert _autograd.next_sequence_nr() == start + 1


def test_a_backward_is_known_to_run_from_within_it() -> None:
    seen = []
    x = leaf(2)
    x.register_hook(lambda _: seen.append(_autograd.is_backward_running()))
    x.sum().backward()
    assert (seen, _autograd.is_backward_running()) == ([True], False)


def test_what_a_tensor_wraps_is_shown_if_it_tells() -> None:
    ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    wrapped = dict(_autograd.wrapped(ragged) or [])
    assert {"._values", "._offsets"} <= wrapped.keys()
    assert wrapped["._values"].shape == (5,)
    assert _autograd.wrapped(Wrapped.around(torch.ones(2))) == []
    others = [torch.ones(2), torch.nn.Parameter(torch.ones(2)), torch.eye(2).to_sparse()]
    with torch._subclasses.FakeTensorMode():
        others.append(torch.ones(2))
    assert [_autograd.wrapped(other) for other in others] == [None] * 4
