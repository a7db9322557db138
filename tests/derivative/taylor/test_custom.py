"""User-defined Taylor rules: which functions can have one, what it must return, and its check."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from leafgrad import Jet, Series, check_taylor_rule, higher_order_grad, taylor_rule
from tests.derivative.refusals import words
from tests.messages import message


class Snake(torch.autograd.Function):
    """The function ``x + sin(a x)**2 / a``, whose backward can be differentiated once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, a: Tensor) -> Tensor:
        ctx.save_for_backward(x, a)
        return x + torch.sin(a * x) ** 2 / a

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, a = ctx.saved_tensors
        return (1 + torch.sin(2 * a * x)) * gradients[0], None


class Two(torch.autograd.Function):
    """Return ``factor sin(x)`` and the sign of x, which has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x)
        ctx.factor = factor
        sign = x.sign()
        ctx.mark_non_differentiable(sign)
        return factor * x.sin(), sign

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return ctx.factor * ctx.saved_tensors[0].cos() * gradients[0], None


def points() -> tuple[Tensor, Tensor]:
    x = torch.linspace(-1, 1, 5, dtype=torch.float64).unsqueeze(1)
    return x.requires_grad_(), torch.tensor(1.5, dtype=torch.float64, requires_grad=True)


def jets(ctx: Any, *given: Series | None) -> list[Jet]:
    return [Jet(value, one) for value, one in zip(ctx.saved_tensors, given, strict=True)]


def right(ctx: Any, *given: Series | None) -> Jet:
    x, a = jets(ctx, *given)
    return x + (a * x).sin() ** 2 / a


def cosine(ctx: Any, *given: Series | None) -> Jet:
    x, a = jets(ctx, *given)
    return x + (a * x).cos() ** 2 / a


def without_a(ctx: Any, x: Series | None, _: Series | None) -> Jet:
    return right(ctx, x, None)


def without_a_term(ctx: Any, *given: Series | None) -> Jet:
    """Return a wrong result: the coefficient of order 3 is a tenth too small."""
    jet = right(ctx, *given)
    if jet.series is None or len(jet.series.indices) <= 2:
        return jet
    stack = jet.series.stack.clone()
    stack[2] = 0.9 * stack[2]
    return Jet(jet.value, jet.series.changed(stack))


def detached(ctx: Any, *given: Series | None) -> Jet:
    x, a = (Jet(jet.value.detach(), jet.series) for jet in jets(ctx, *given))
    return x + (a * x).sin() ** 2 / a


def giving(change: Callable[[Jet, Any], Any]) -> Any:
    """Return the right rule with a change of its jet and series."""

    def rule(ctx: Any, *given: Series | None) -> Any:
        jet = right(ctx, *given)
        return change(jet, jet.series)

    return rule


# --- Functions that can have a rule


@pytest.mark.parametrize(
    ("what", "value", "cure"),
    [
        ("cube", "'cube' of type str", "class-wrap"),
        (torch.lgamma, "the function lgamma", "class-wrap"),
        (nn.Tanh, "the class Tanh", "class-wrap"),
        (torch.autograd.Function, "the class Function", "class-wrap"),
        (right, "the function right", "class-decorate"),
    ],
)
def test_rule_needs_a_function_class(what: Any, value: str, cure: str) -> None:
    pattern = words("rule.class", value=value, help=message(f"derivative.rule.{cure}"))
    with pytest.raises(TypeError, match=pattern):
        taylor_rule(what)
    with pytest.raises(TypeError, match=pattern):
        check_taylor_rule(what, *points())


def test_instance_of_function_cannot_have_a_rule() -> None:
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        instance: Any = Snake()  # type: ignore[no-untyped-call]
    cure = message("derivative.rule.class-instance")
    with pytest.raises(TypeError, match=words("rule.class", help=cure)):
        taylor_rule(instance)


def test_rule_must_be_callable() -> None:
    with pytest.raises(TypeError, match=words("rule.not-callable", function="Snake", value=5)):
        taylor_rule(Snake)(5)  # type: ignore[type-var]


def test_operator_of_torch_library_cannot_have_a_rule() -> None:
    @torch.library.custom_op("leafgrad_custom::square", mutates_args=())
    def square(x: Tensor) -> Tensor:
        return x * x

    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        result: Tensor = 2 * ctx.saved_tensors[0] * gradient
        return result

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        del output
        ctx.save_for_backward(*inputs)

    square.register_autograd(backward, setup_context=setup)

    class Applied(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            result: Tensor = square(x)
            return result

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return backward(ctx, gradients[0])

    x, _ = points()
    with pytest.raises(RuntimeError, match=words("rule-of-torch")):
        higher_order_grad(square(x), x, 2, method="taylor")
    taylor_rule(Applied)(lambda ctx, series: Jet(ctx.saved_tensors[0], series) ** 2)
    outputs: Any = Applied.apply(x)  # type: ignore[no-untyped-call]
    assert higher_order_grad(outputs, x, 2, method="taylor").eq(2).all()


# --- Results of rules


@pytest.mark.parametrize(
    ("value", "series", "pattern"),
    [
        (1, None, words("jet.value", type="int")),
        (torch.ones(2), 2, words("jet.series", type="int")),
        (torch.ones(2), torch.ones(2), words("jet.series", type="Tensor")),
    ],
)
def test_jet_refuses_arguments_of_other_types(value: Any, series: Any, pattern: str) -> None:
    with pytest.raises(TypeError, match=pattern):
        Jet(value, series)


@pytest.mark.parametrize(
    ("rule", "error", "pattern"),
    [
        (giving(lambda *_: None), TypeError, words("rule.none", function="Snake")),
        (giving(lambda jet, _: jet.value), TypeError, words("rule.tensor", type="Tensor")),
        (giving(lambda jet, _: [jet.value]), TypeError, words("rule.tensor")),
        (giving(lambda *_: [5]), TypeError, words("rule.type", type="int") + "$"),
        (giving(lambda jet, _: [jet] * 2), ValueError, words("rule.count", wanted=1, count=2)),
        (giving(lambda *_: []), ValueError, words("rule.count", count=0)),
        (
            giving(lambda jet, series: Jet(jet.value.flatten(), series)),
            ValueError,
            words("rule.value-shape", wanted=(5, 1), shape=(5,)),
        ),
        (giving(lambda _, s: s.viewed((5,))), ValueError, words("rule.series-shape", shape=(5,))),
        (
            giving(lambda _, series: series.viewed((1, 5, 1))),
            ValueError,
            words("rule.series-shape", shape=(1, 5, 1)),
        ),
        (
            giving(lambda _, series: series.changed(series.stack.float())),
            ValueError,
            words("rule.dtype", dtype="torch.float32"),
        ),
        (
            giving(lambda _, series: series.changed(series.stack + 0j)),
            ValueError,
            words("rule.dtype", dtype="torch.complex128"),
        ),
    ],
)
@pytest.mark.parametrize("method", ["auto", "taylor"])
def test_invalid_result_of_rule_is_refused(
    rule: Any, error: type, pattern: str, method: Any
) -> None:
    taylor_rule(Snake)(rule)
    x, a = points()
    outputs: Any = Snake.apply(x, a)  # type: ignore[no-untyped-call]
    with pytest.raises(error, match=pattern):
        higher_order_grad(outputs, x, 2, method=method)


def test_series_of_another_call_is_refused() -> None:
    kept: list[Jet] = []

    @taylor_rule(Snake)
    def old(ctx: Any, *given: Series | None) -> Jet:
        kept.append(right(ctx, *given))
        return kept[0]

    x, a = points()
    outputs: Any = Snake.apply(x, a)  # type: ignore[no-untyped-call]
    with pytest.raises(ValueError, match=words("rule.another-call")):
        higher_order_grad(outputs, x, 2)


@pytest.mark.parametrize(
    "rule",
    [lambda ctx, *_: Jet(ctx.saved_tensors[0], None), lambda *_: [None]],
    ids=["a jet", "None in a list"],
)
def test_rule_can_return_zero(rule: Any) -> None:
    taylor_rule(Snake)(rule)
    x, a = points()
    outputs: Any = Snake.apply(x, a)  # type: ignore[no-untyped-call]
    assert higher_order_grad(outputs + x**2, x, 2, method="taylor").eq(2).all()


# --- Checking a rule


BOTH = "inputs[0] and inputs[1]"


@pytest.mark.parametrize("order", [1, 6])
def test_correct_rule_passes_check(order: int) -> None:
    taylor_rule(Snake)(right)
    x, a = points()
    check_taylor_rule(Snake, x, a, order=order)
    with torch.inference_mode():
        check_taylor_rule(Snake, x, a, order=order)
    assert (x.grad, a.grad) == (None, None)


def test_correct_rule_for_several_outputs_passes_check() -> None:
    @taylor_rule(Two)
    def two(ctx: Any, x: Series) -> list[Jet | None]:
        return [Jet(ctx.saved_tensors[0], x).sin() * ctx.factor, None]

    check_taylor_rule(Two, points()[0], 2.0)


def test_check_accepts_none_for_constant_output() -> None:
    class Kept(Two):
        @staticmethod
        def forward(ctx: Any, x: Tensor, _: float) -> Any:
            ctx.save_for_backward(x)
            return 3 * x, torch.ones_like(x)

    taylor_rule(Kept)(lambda ctx, x: [Jet(ctx.saved_tensors[0], x) * 3, None])
    check_taylor_rule(Kept, points()[0], 1.0)


@pytest.mark.parametrize(
    ("rule", "pattern"),
    [
        (cosine, words("rule.wrong", order=1, moving=BOTH, number=0, shape=(5, 1))),
        (without_a, words("rule.wrong", order=1, moving=BOTH)),
        (without_a_term, words("rule.wrong", order=3, moving=BOTH)),
        (detached, words("rule.gradient")),
    ],
)
def test_check_reports_the_first_difference_of_a_wrong_rule(rule: Any, pattern: str) -> None:
    taylor_rule(Snake)(rule)
    x, a = points()
    with pytest.raises(RuntimeError, match=pattern):
        check_taylor_rule(Snake, x, a)


def test_check_error_shows_value_of_rule_and_expected_value() -> None:
    taylor_rule(Snake)(cosine)
    x, a = torch.ones(1, dtype=torch.float64).requires_grad_(), points()[1].detach()
    with pytest.raises(RuntimeError) as caught:
        check_taylor_rule(Snake, x, a)
    (told,) = re.findall(r"is (\S+) at \[0\], and (\S+) by", str(caught.value))
    direction, slope = math.sin(1), math.sin(2 * a.item())
    assert float(told[0]) == pytest.approx(direction * (1 - slope))
    assert float(told[1]) == pytest.approx(direction * (1 + slope))


def test_check_finds_rule_that_is_wrong_for_one_input_only() -> None:
    @taylor_rule(Snake)
    def rule(ctx: Any, x: Series | None, a: Series | None) -> Jet:
        return right(ctx, x, a) if x is not None else Jet(ctx.saved_tensors[0], None)

    with pytest.raises(RuntimeError, match=words("rule.wrong", order=1, moving="inputs[1]")):
        check_taylor_rule(Snake, *points())


@pytest.mark.parametrize(
    ("change", "options", "error", "pattern"),
    [
        (Tensor.detach, {}, ValueError, words("rule.nothing-moves")),
        (
            lambda x: x.detach().float().requires_grad_(),
            {},
            TypeError,
            words("rule.precision", dtype="torch.float32"),
        ),
        (lambda x: x, {"order": 0}, ValueError, words("rule.order", order=0)),
    ],
)
def test_arguments_that_cannot_be_checked_are_refused(
    change: Callable[[Tensor], Tensor], options: Any, error: type, pattern: str
) -> None:
    taylor_rule(Snake)(right)
    with pytest.raises(error, match=pattern):
        check_taylor_rule(Snake, *map(change, points()), **options)


def test_function_without_rule_cannot_be_checked() -> None:
    class Unknown(Snake):
        pass

    with pytest.raises(ValueError, match=words("rule.missing", function="Unknown")):
        check_taylor_rule(Unknown, *points())
