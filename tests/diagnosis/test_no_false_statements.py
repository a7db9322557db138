"""Short programs with patterns that the report must and must not contain."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from leafgrad import Report, diagnose, record

X = torch.linspace(-1.0, 2.0, 12).reshape(4, 3)


class Program(NamedTuple):
    """A program that returns a report, and patterns that must and must not match its text."""

    run: Callable[[], Any]
    says: str
    never: str


PROGRAMS: list[Program] = []


def program(says: str, never: str = r"\Z.") -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Add the function below to the programs."""

    def add(run: Callable[[], Any]) -> Callable[[], Any]:
        PROGRAMS.append(Program(run, says, never))
        return run

    return add


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.run.__name__)
def test_report_contains_the_true_and_not_the_false_statement(case: Program) -> None:
    text = " ".join(str(case.run()).split())
    assert re.search(case.says, text), text
    assert not re.search(case.never, text), text


@program("goes through compiled code", never="Return one for each|reentrant")
def a_second_derivative_of_compiled_code() -> object:
    x = torch.rand(5, 1, requires_grad=True)
    network = torch.compile(nn.Sequential(nn.Linear(1, 4), nn.Tanh()), backend="aot_eager")
    (slope,) = torch.autograd.grad(network(x).sum(), x, create_graph=True)
    return diagnose(slope.sum(), {"x": x})


# --- What a backward will fail at, or compute wrongly


@torch.library.custom_op("leafgrad_tests::square", mutates_args=())
def square(x: Tensor) -> Tensor:
    """Square a tensor, without a backward."""
    return x * x


@program(r"no derivative.*register_autograd", never="reentrant")
def an_operator_without_a_backward() -> object:
    x = torch.ones(3, requires_grad=True)
    return diagnose(square(x * 1).sum(), {"x": x})


@program(r"wrong: `h` changed.*h\.data\.add_\(1\.0\) \| \^+ autograd does not see")
def a_write_through_data() -> object:
    x = torch.ones(3, requires_grad=True)
    with record() as recording:
        h = x * 2
        loss = h.sin().sum()
        h.data.add_(1.0)
    return diagnose(loss, {"x": x, "h": h}, recording=recording)


@program("gradients can be wrong: `w` changed after the forward pass saved it")
def data_that_was_replaced() -> object:
    w = torch.ones(3, requires_grad=True)
    with record() as recording:
        loss = (w * torch.ones(3, requires_grad=True)).sum()
        w.data = w.data * 3
    return diagnose(loss, {"w": w}, recording=recording)


@program("No problems found")
def a_write_through_data_before_anything_is_saved() -> object:
    x = torch.ones(3, requires_grad=True)
    with record() as recording:
        h = x * 2
        h.data.add_(1.0)
        loss = h.sin().sum()
    return diagnose(loss, recording=recording)


@program(r"wrong: `d\.bias` and `d\.weight` changed.*runs again.*optimizer\.step\(\) \| \^")
def a_step_behind_a_checkpoint() -> object:
    model = nn.ModuleDict({"g": nn.Linear(3, 2), "d": nn.Linear(2, 1)})
    optimizer = torch.optim.SGD(model["d"].parameters(), lr=1.0)
    with record() as recording:
        score = checkpoint(lambda x: model["d"](x).tanh(), model["g"](X), use_reentrant=False)
        score.square().mean().backward(retain_graph=True)
        optimizer.step()
        loss = -score.mean()
    return diagnose(loss, model, recording=recording)


# --- Numbers that are not finite


def hunt(compute: Callable[[], Tensor], **names: Any) -> object:
    with record(values=True) as recording:
        loss = compute()
    return diagnose(loss, recording=recording, gradients=True, **names)


@program("`std` produces NaN.*correction=0", never="check the data")
def a_deviation_of_one_number() -> object:
    return hunt(lambda: nn.Linear(1, 1)(X[:, :1] / X[:, :1].std(1, keepdim=True)).sum())


@program("`log` produces infinity")
def a_validation_without_a_graph() -> object:
    with torch.no_grad():
        return hunt(lambda: nn.Linear(3, 1)(torch.zeros(4, 3).log()).mean())


@program("`div` produces NaN.*0 / 0 is NaN", never="check the data")
def a_batch_divided_in_place() -> object:
    return hunt(lambda: nn.Linear(3, 1)(torch.zeros(4, 3).div_(0)).sum())


@program("the output contains NaN")
def an_output_that_was_not_recorded() -> object:
    return diagnose(torch.tensor(float("nan")))


@program("number nan in mul", never="infinite or very large")
def a_constant_that_is_nan() -> object:
    w = torch.ones(3, requires_grad=True)
    return hunt(lambda: w.mul(float("nan")).sum())


@program("GradScaler", never="its slope is not finite")
def a_gradient_too_large_for_float16() -> object:
    w = torch.ones(3, dtype=torch.half, requires_grad=True)
    return hunt(lambda: (w * 2).float().sum() * 65536.0)


# --- Zero and small gradients


def norms(model: nn.Module, loss_of: Callable[[Any], Tensor]) -> Report:
    with record(values=True) as recording:
        loss = loss_of(model)
    return diagnose(loss, model, recording=recording, gradients=True)


class Gated(nn.Module):
    """A branch whose gate or last weight starts at zero."""

    def __init__(self, gate: nn.Module | None = None) -> None:
        super().__init__()
        self.branch, self.gate = nn.Linear(3, 3), gate
        self.scale = nn.Parameter(torch.zeros(()))
        if gate is not None:
            for parameter in gate.parameters():
                nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        y = self.branch(x)
        result: Tensor = x + (self.scale * y if self.gate is None else self.gate(y))
        return result


@pytest.mark.parametrize(
    ("gate", "name"),
    [
        (None, "scale"),
        (nn.BatchNorm1d(3), "gate.weight"),
        (nn.LayerNorm(3), "gate.weight"),
        (nn.Linear(3, 3, bias=False), "gate.weight"),
    ],
)
def test_a_factor_that_starts_at_zero_is_named(gate: nn.Module | None, name: str) -> None:
    report = norms(Gated(gate), lambda model: model(X).square().mean())
    zeros = next(one for one in report if one.code == "starts-at-zero")
    assert zeros.code == "starts-at-zero"
    assert zeros.subject[0].startswith("branch")
    assert f"`{name}` starts at zero" in zeros.headline


def of_itself(model: nn.Module) -> Tensor:
    z: Tensor = model(X)
    return (1 - functional.cosine_similarity(z, z)).mean()


CONSTANT = {
    "softmax": lambda model: model(X).softmax(-1).mean(),
    "normalised": lambda model: functional.normalize(model(X)).square().sum(),
    "similarity to itself": of_itself,
    "layer norm": lambda model: functional.layer_norm(model(X), (5,)).sum(),
}


@pytest.mark.parametrize("objective", CONSTANT.values(), ids=CONSTANT)
def test_constant_loss_is_recognized_despite_rounding_errors(objective: Any) -> None:
    report = norms(nn.Linear(3, 5), objective)
    assert report.codes == ("zero-gradient",)
    assert report.diagnoses[0].headline.startswith("the objective does not depend on")


def test_loss_of_a_trained_softmax_is_not_reported_as_constant() -> None:
    assert norms(nn.Linear(3, 5), lambda m: m(X).softmax(-1)[:, 0].log().mean()).codes == ()


@program("its input is zero because of node 2, MulBackward0.*mask")
def a_mask_behind_a_square() -> object:
    return norms(nn.Linear(3, 1), lambda model: (model(X) * torch.zeros(4, 1)).sum() ** 2)


# --- False statements that random short programs revealed


class Lacking(torch.autograd.Function):
    """A custom function without a backward."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x * 2


class Raising(Lacking):
    """A custom function whose backward raises an error."""

    @staticmethod
    def backward(_: Any, *__: Tensor) -> Any:
        raise RuntimeError("no")


class Zeros(Lacking):
    """A custom function whose backward returns zeros."""

    @staticmethod
    def backward(_: Any, *gradients: Tensor) -> Any:
        return torch.zeros_like(gradients[0])


def run(function: Any, x: Tensor) -> Tensor:
    result: Tensor = function.apply(x)
    return result


@program("no derivative.*write a `backward", "passes on none|No problems")
def a_function_without_a_backward() -> object:
    model = nn.Linear(3, 1)
    return diagnose(run(Lacking, model(X)).mean(), model)


@program("only zeros leave.*`backward", "slope")
def a_function_whose_backward_returns_zeros() -> object:
    return norms(nn.Linear(3, 1), lambda model: run(Zeros, model(X)).mean())


@program("every margin is kept", "negative")
def a_hinge_loss_with_all_margins_met() -> object:
    return norms(nn.Linear(3, 1), lambda model: (1 - (model(X) * 0 + 5)).relu().mean())


@program("its input is zero or constant")
def the_deviation_of_equal_numbers() -> object:
    return norms(nn.Linear(3, 1), lambda model: model(torch.ones(4, 3)).std())


@program("already match the targets", "equal")
def logits_that_give_their_targets() -> object:
    return norms(
        nn.Linear(3, 1),
        lambda model: functional.binary_cross_entropy_with_logits(model(X) + 300, torch.ones(4, 1)),
    )


def nan_in(compute: Callable[[Tensor], Tensor], *numbers: float, half: bool = False) -> object:
    """Return the report on a function of a leaf with these values."""
    x = torch.tensor(numbers, dtype=torch.float16 if half else None, requires_grad=True)
    with record(values=True) as recording:
        result = compute(x)
    return diagnose(result, {"x": x}, recording=recording, gradients=True)


NOTHING = torch.zeros(0)


@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.parametrize(
    "loss",
    [
        lambda x: functional.mse_loss(x[x > 5], NOTHING),
        lambda x: functional.huber_loss(x[x > 5], NOTHING),
        lambda x: functional.cross_entropy(x[x > 5].reshape(0, 3), NOTHING.long()),
        lambda x: x[x > 5].mean(),
        lambda x: x[x > 5].var(),
    ],
    ids=["mse", "huber", "cross entropy", "mean", "var"],
)
def test_mask_that_selects_nothing_is_reported(loss: Callable[[Tensor], Tensor]) -> None:
    assert "without elements" in " ".join(str(nan_in(loss, 1.0, 2.0)).split())
    x = torch.ones(2, requires_grad=True)
    report = diagnose(loss(x), {"x": x}, gradients=True)
    assert "has no elements" in " ".join(str(report).split())


@program("`exp` produces infinity")
def a_softmax_of_an_infinity() -> object:
    return nan_in(lambda x: x.exp().softmax(0)[1], 100.0, 1.0)


@program("the loss of a masked target is infinite")
def a_masked_target() -> object:
    def loss(x: Tensor) -> Tensor:
        masked = x.masked_fill(torch.tensor([True, False]), -torch.inf)
        return functional.cross_entropy(masked[None], torch.tensor([0]))

    return nan_in(loss, 1.0, 2.0)


@program("exceeds the largest number", "one number")
def a_variance_that_overflows() -> object:
    return nan_in(torch.var, 6e4, -6e4, 1.0, half=True)


@program("by a tiny number overflows")
def a_quotient_that_overflows() -> object:
    return nan_in(lambda x: (x / torch.tensor([1e-30])).sum(), 1e20)


@program("the step before `div` was not recorded")
def a_divergence_from_a_masked_row() -> object:
    def loss(x: Tensor) -> Tensor:
        masked = x.masked_fill(torch.tensor([True, False]), -torch.inf)[None]
        target = torch.tensor([[0.0, 1.0]])
        return functional.kl_div(masked.log_softmax(1), target, reduction="batchmean")

    return nan_in(loss, 1.0, 2.0)


@program("a large power overflows")
def a_power_whose_gradient_overflows() -> object:
    return nan_in(lambda x: (x**2 * 3e38).sum(), 1.0)


@program("[Cc]heckpoint.*compatible", "the backward fails")
def a_reentrant_checkpoint_that_runs() -> object:
    model = nn.Linear(1, 1)
    return nan_in(lambda x: checkpoint(model, x, use_reentrant=True).sum(), 1.0)


@pytest.mark.parametrize(
    ("compute", "cured", "bound"),
    [
        (torch.log, lambda x: x.clamp(min=1e-3).log(), "clamp(min=1e-3)"),
        (torch.sqrt, lambda x: (x + 1e-3).sqrt(), "(x + 1e-3).sqrt()"),
        (torch.rsqrt, lambda x: (x + 1e-3).rsqrt(), "1e-3"),
        (lambda x: (x + 20).exp(), lambda x: (x + 20).clamp(-10, 10).exp(), "clamp(-10, 10)"),
    ],
    ids=["log", "sqrt", "rsqrt", "exp"],
)
def test_printed_bound_is_not_zero_in_half_precision(compute: Any, cured: Any, bound: str) -> None:
    assert bound in str(nan_in(compute, 0.0, half=True))
    x = torch.zeros(1, dtype=torch.float16, requires_grad=True)
    cured(x).backward()
    assert x.grad is not None
    assert x.grad.isfinite()


@program(r"xlogy\(p, p.clamp", "special")
def an_entropy_at_zero() -> object:
    def entropy(scores: Tensor) -> Tensor:
        masked = scores.masked_fill(torch.tensor([True, False]), -torch.inf)
        return (masked.softmax(0) * masked.log_softmax(0)).sum()

    return nan_in(entropy, 0.0, 1.0)


def test_suggested_fix_of_an_entropy_gives_finite_gradients_at_zero() -> None:
    p = torch.tensor([0.0, 1.0], requires_grad=True)
    torch.xlogy(p, p.clamp(min=1e-12)).sum().backward()
    assert p.grad is not None
    assert p.grad.isfinite().all()


# The gradient is rounding error or exactly zero: that depends on the processor.
@program("mean of normalised values cannot|that sum is constant", "ReLU")
def the_mean_of_a_layer_after_a_batch_normalisation() -> object:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    return norms(model, lambda model: model(X).mean())
