"""What the table says of rows is what gradients that are NaN in one place show of each operator."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._derivative.arguments import Axes
from leafgrad._derivative.row_independence import check_row_independence
from leafgrad._derivative.taylor.row_wise import keep_rows_apart
from leafgrad._derivative.taylor.rules import RULES
from tests.derivative.taylor.oracle import rows
from tests.derivative.taylor.test_rules import (
    CASES,
    ELSEWHERE,
    OF_A_POINT,
    WRITTEN_OUT,
    parameter,
)


def nodes(name: str) -> Iterator[Node]:
    """Yield the nodes of that name in all cases of its rule."""
    written_out = [pair[0] for pair in WRITTEN_OUT.get(name, [])]
    of_rows, of_a_point = CASES.get(name, []) + written_out, OF_A_POINT.get(name, [])
    for functions, shape in ((of_rows, (3, 2)), (of_a_point, (2,))):
        for function in functions:
            x = rows(*shape)
            path = _autograd.path_between(function(x, parameter()), x)
            assert path is not None
            yield from (node for node in path.nodes if _autograd.node_name(node) == name)


def arrivals(node: Node) -> Iterator[tuple[Tensor, list[Tensor | None]]]:
    """Yield where one place of the result sends NaN, and where this arrives at each input."""
    first, *others = _autograd.output_types(node)
    result = torch.ones(tuple(first.shape), dtype=first.dtype)
    rest = [torch.zeros(tuple(other.shape), dtype=other.dtype) for other in others]
    call: Any = node
    # Of a row of inputs that is infinite, any gradient is NaN.
    usual = [each is not None and each.isnan() for each in as_tuple(call(result, *rest))]
    for place in torch.ones_like(result).nonzero().tolist():
        sent = result.clone()
        sent[tuple(place)] = torch.nan
        arrived = as_tuple(call(sent, *rest))
        pairs = zip(arrived, usual, strict=True)
        yield sent.isnan(), [None if one is None else one.isnan() > two for one, two in pairs]


def as_tuple(arrived: Any) -> tuple[Any, ...]:
    return arrived if isinstance(arrived, tuple) else (arrived,)


def keeps_elements_apart(node: Node) -> bool:
    """Return whether NaN stays at its own place in gradients as large as the result."""
    return all(
        each is None or (each.shape == sent.shape and not (each & ~sent).any())
        for sent, arrived in arrivals(node)
        for each in arrived
    )


def keeps_rows_apart(node: Node, number: int) -> bool:
    """Return whether NaN stays in its own row in the gradient of one input."""
    for sent, arrived in arrivals(node):
        each = arrived[number]
        if each is None:
            continue
        row = sent.flatten(1).any(1)
        if len(each) != len(row) or each[~row].any():
            return False
    return True


@pytest.mark.parametrize("name", sorted(set(RULES) - ELSEWHERE))
def test_a_kind_is_row_wise_without_a_matrix_where_it_keeps_elements_apart(name: str) -> None:
    rule = RULES[name]
    assert (rule.rowwise and not rule.shared) == all(map(keeps_elements_apart, nodes(name)))


# Products whose factors all have gradients.
PRODUCTS: dict[str, Callable[[], Tensor]] = {
    "MmBackward0": lambda: torch.mm(rows(3, 2), rows(2, 4)),
    "AddmmBackward0": lambda: torch.addmm(rows(3, 4), rows(3, 2), rows(2, 4)),
}


@pytest.mark.parametrize("name", [name for name in RULES if RULES[name].shared])
def test_what_rows_share_is_what_hears_of_all_rows(name: str) -> None:
    node = PRODUCTS[name]().grad_fn
    assert node is not None
    assert _autograd.node_name(node) == name
    assert RULES[name].rowwise
    numbers = range(len(node.next_functions))
    heard = [number for number in numbers if not keeps_rows_apart(node, number)]
    assert heard == [*RULES[name].shared]


# Whose cases have kinds on the way that are not row-wise.
NEVER_ALONE = {"AddBackward1", "Atan2Backward0", "TrilBackward0", "TriuBackward0"}


@pytest.mark.parametrize("name", sorted(name for name in CASES if RULES[name].rowwise))
@pytest.mark.parametrize("batch", [(3,), (3, 2)], ids=["rows", "elements"])
def test_what_the_table_proves_the_probe_of_rows_confirms(
    name: str, batch: tuple[int, ...]
) -> None:
    axes = Axes(torch.Size(batch), torch.Size((3, 2)[len(batch) :]), is_elementwise=len(batch) > 1)
    proven = 0
    for function in CASES[name]:
        x = rows(3, 2)
        outputs = function(x, parameter())
        path = _autograd.path_between(outputs, x)
        assert path is not None
        if keep_rows_apart(path, 2, len(batch)):
            check_row_independence(outputs, x, axes, path)  # raises where rows meet
            proven += 1
    assert proven or name in NEVER_ALONE or (batch == (3, 2) and RULES[name].shared)


ACTIVATIONS = [
    *(nn.LeakyReLU, nn.Hardswish, nn.CELU, nn.ReLU6, nn.SELU, nn.Softshrink, nn.Hardsigmoid),
    *(nn.PReLU, nn.Tanh, nn.GELU),
]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_network_of_layers_is_proven_by_its_kinds(activation: type[nn.Module]) -> None:
    network = nn.Sequential(nn.Linear(2, 4), activation(), nn.Linear(4, 1))
    x = torch.rand(5, 2, requires_grad=True)
    path = _autograd.path_between(network(x), x)
    assert path is not None
    assert keep_rows_apart(path, 2, 1)
