"""What is passed by position and has a name is told that name."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest
import torch

import leafgrad
from leafgrad import describe_tensor, higher_order_grad, laplacian, trace_graph

x = torch.ones(2, 1, requires_grad=True)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda tell: tell(x, "x"), r"^describe_tensor\(\) must get tensor by .* \(name=\), not 2"),
        (
            lambda tell: tell(x.sin(), None),
            r"^trace_graph\(\) .* outputs by .* \(names=, recording=",
        ),
        (
            lambda tell: tell(torch.sin, x, 2),
            r"^laplacian\(\) .* outputs and inputs by .* \(dims=, ",
        ),
        (
            lambda tell: tell(torch.sin, x, 2, True),
            r"^higher_order_grad\(\) .* outputs and inputs and order by .* not 4 arguments by pos",
        ),
    ],
    ids=["describe_tensor", "trace_graph", "laplacian", "higher_order_grad"],
)
def test_a_name_that_was_left_out_is_told(
    call: Callable[[Any], object], told: str, request: pytest.FixtureRequest
) -> None:
    function = request.node.callspec.id
    with pytest.raises(TypeError, match=told):
        call(getattr(leafgrad, function))


FUNCTIONS = [describe_tensor, trace_graph, laplacian, higher_order_grad]
FUNCTIONS += [
    leafgrad.jacobian,
    leafgrad.hessian,
    leafgrad.preflight,
    leafgrad.diagnose,
    leafgrad.record,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_function_with_such_arguments_tells_them(function: Callable[..., object]) -> None:
    kinds = {parameter.kind.name for parameter in signature(function).parameters.values()}
    assert "KEYWORD_ONLY" in kinds
    with pytest.raises(
        TypeError, match=r"\(\) must get .* by position and the rest by name \(\w+="
    ):
        function(*[None] * 9)
