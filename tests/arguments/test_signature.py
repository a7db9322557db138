"""Errors name the keyword of an extra positional argument."""

from typing import Any

import pytest
import torch

import leafgrad

x = torch.ones(2, 1, requires_grad=True)


CALLS: dict[str, tuple[tuple[Any, ...], str]] = {
    "describe_tensor": ((x, "x"), r"must get tensor by .* \(name=\), not 2"),
    "trace_graph": ((x.sin(), None), r"outputs by .* \(names=, recording="),
    "laplacian": ((torch.sin, x, 2), r"outputs and inputs by .* \(dims=, "),
    "higher_order_grad": ((torch.sin, x, 2, True), r"outputs and inputs and order .* not 4 arg"),
}


@pytest.mark.parametrize("name", CALLS)
def test_extra_positional_argument_is_refused_with_its_name(name: str) -> None:
    arguments, message = CALLS[name]
    with pytest.raises(TypeError, match=rf"^{name}\(\) .*{message}"):
        getattr(leafgrad, name)(*arguments)


@pytest.mark.parametrize("name", [*CALLS, "jacobian", "hessian", "diagnose", "record"])
def test_keyword_only_arguments_are_named_in_error(name: str) -> None:
    with pytest.raises(TypeError, match=r"\(\) must get .* and the rest by name \(\w+="):
        getattr(leafgrad, name)(*[None] * 9)
