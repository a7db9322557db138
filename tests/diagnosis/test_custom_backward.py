"""Reading the source of a custom backward: the gradients it returns and their number."""

import linecache
from typing import Any

import pytest
import torch

from leafgrad import diagnose
from leafgrad._diagnosis.gradient_flow import GradientKind, parse_backward

NONE, SOME, UNKNOWN = GradientKind.NONE, GradientKind.SOME, GradientKind.UNKNOWN
Handed = GradientKind | int


class Custom(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * b


class Nothing(Custom):
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        ctx.gradient = gradient


class Literal(Custom):
    @staticmethod
    def backward(_: Any, gradient: Any) -> Any:
        return gradient, None


class Computed(Custom):
    @staticmethod
    def backward(_: Any, gradient: Any) -> Any:
        to_a = gradient * 2
        return to_a, -gradient


class Rest(Custom):
    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return None, *gradients


class Single(Custom):
    @staticmethod
    def backward(_: Any, gradient: Any) -> Any:
        def inner() -> Any:
            return None

        return gradient * inner()


READ: dict[type, tuple[Handed, Handed]] = {
    Nothing: (UNKNOWN, UNKNOWN),
    Literal: (0, NONE),
    Computed: (UNKNOWN, SOME),
    Rest: (NONE, 0),
    Single: (UNKNOWN, UNKNOWN),
}


@pytest.mark.parametrize("function", READ, ids=lambda function: function.__name__)
def test_gradients_that_backward_returns_are_read_from_its_source(function: Any) -> None:
    read = parse_backward(function)
    assert tuple(read.gradient_of_input(number, 2) for number in (0, 1)) == READ[function]


def test_backward_that_is_not_a_function_is_read_as_unknown() -> None:
    class Callable(Custom):
        backward = print  # type: ignore[assignment]

    read = parse_backward(Callable)
    assert (read.returned, read.source, read.runs_another) == (None, None, False)


class Storing(Custom):
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        ctx.parameter.grad = gradient
        return gradient, None


class Running(Custom):
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return run_within(ctx, gradient), None


def run_within(ctx: Any, gradient: Any) -> Any:
    run_within.__doc__ = str(run_within)
    torch.autograd.backward(ctx.inner, gradient)


@pytest.mark.parametrize(
    ("function", "runs_another"), [(Storing, True), (Running, True), (Literal, False)]
)
def test_nested_backward_and_stored_gradients_are_recognized(
    function: Any, *, runs_another: bool
) -> None:
    assert parse_backward(function).runs_another == runs_another


def backward_with(body: str) -> type[torch.autograd.Function]:
    """Return a custom function of two inputs whose backward has this body."""
    name = f"<backward {body!r}>"
    lines = ["def backward(ctx, gradient):", *(f"    {line}" for line in body.splitlines())]
    source = "\n".join(lines) + "\n"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    made: dict[str, Any] = {}
    exec(compile(source, name, "exec"), {"torch": torch}, made)
    return type("Made", (Custom,), {"backward": staticmethod(made["backward"])})


COUNTED = {
    "return 2 * gradient": 1,
    "return gradient * 2": 1,
    "return gradient": 1,
    "return -gradient": None,
    "return gradient - 1": None,
    "return gradient.sum(0).clone(), None": 2,
    "return (gradient,)": 1,
    "pass": 1,
    "return None": 1,
    "return gradient.split(1)": None,
    "return ctx.run(gradient)": None,
    "return gradient + (None,)": None,
    "return 2 * (gradient,)": None,
    "return (gradient, *ctx.more)": None,
    "gradient = ctx.run()\nreturn gradient": None,
    "if ctx.flag:\n    return gradient\nreturn gradient, None": None,
    "return clone(gradient)": None,
}


@pytest.mark.parametrize("body", COUNTED)
def test_returned_gradients_are_counted_if_the_source_shows_them(body: str) -> None:
    assert parse_backward(backward_with(body)).counted == COUNTED[body]


@pytest.mark.parametrize("body", [body for body, counted in COUNTED.items() if counted == 1])
def test_a_backward_with_too_few_gradients_is_reported_and_fails(body: str) -> None:
    custom: Any = backward_with(body)
    a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    y = custom.apply(a, b)
    assert "custom-backward-count" in diagnose(y, {"b": b}).codes
    with pytest.raises(RuntimeError, match=r"incorrect number of gradients \(expected 2, got 1\)"):
        y.backward()


def test_operator_whose_registered_backward_returns_none_is_reported() -> None:
    def backward(_: Any, gradient: torch.Tensor) -> Any:
        return gradient, None

    schema = "(Tensor a, Tensor b) -> Tensor"
    name = "leafgrad_tests::returns_none"
    product = torch.library.custom_op(name, torch.mul, mutates_args=(), schema=schema)
    product.register_autograd(backward)
    a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    assert diagnose(product(a, b), {"a": a, "b": b}).about("b").codes == ("custom-backward",)
