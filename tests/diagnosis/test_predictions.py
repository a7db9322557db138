"""Random training steps: the findings compared with the effects of `backward()` and `step()`.

Each program has up to two defects at random places. The effects are observed instead of derived
from the defects, because one defect can hide another.
"""

import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from leafgrad import Report, diagnose, record
from leafgrad.types import Severity
from tests.messages import CODES

pytestmark = pytest.mark.filterwarnings("ignore")

SIZE = 4
MESSAGES = {
    "no-graph": "does not require grad",
    "not-scalar": "implicitly created only for",
    "in-place": "modified by an inplace operation",
    "step-before-backward": "modified by an inplace operation",
    "freed": "a second time",
    "no-formula": "is not implemented",
    "custom-backward-count": "incorrect number of gradients",
}
"""What PyTorch raises for each code."""
EFFECTS = {
    **dict.fromkeys({*CODES} - {"frozen"}, "no gradient"),
    **dict.fromkeys(MESSAGES, "error"),
    **dict.fromkeys(("zero-gradient", "starts-at-zero", "zero-derivative"), "zeros"),
    **dict.fromkeys(("nan-gradient", "nan-value", "nan-input"), "not finite"),
    **dict.fromkeys(("not-in-optimizer", "zero-learning-rate"), "no step"),
    "unexpected-gradient": "gradient",
    "unregistered": "gradient",
}
"""What each code predicts; of the others no program of this kind shows the effect."""


class Fewer(torch.autograd.Function):
    """Returns one gradient for two inputs."""

    @staticmethod
    def forward(_: Any, a: Tensor, b: Tensor) -> Tensor:
        return a * b

    @staticmethod
    def backward(_: Any, gradient: Any) -> Any:
        return gradient * 2


class Step:
    """The parts of a training step that defects change."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.model = nn.Sequential(*(nn.Linear(SIZE, SIZE) for _ in range(chance.randint(1, 3))))
        self.unregistered: list[Tensor] = []
        self.optimized = [*self.model.parameters()]
        self.rate = 0.1
        self.reduces = True
        self.expect: list[str] | None = None

    def optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.optimized, lr=self.rate)


def without_recording(h: Tensor, _: Step) -> Tensor:
    with torch.no_grad():
        return h * 2


def written_in_place(h: Tensor, _: Step) -> Tensor:
    e = h.exp()
    e.mul_(2)
    return e


def stepped(h: Tensor, step: Step) -> Tensor:
    if h.requires_grad:
        h.sum().backward(retain_graph=True)
        step.optimizer().step()
    return h


def made_a_leaf(h: Tensor, step: Step) -> Tensor:
    leaf = nn.Parameter(h)
    step.unregistered.append(leaf)
    return leaf


def used_up(h: Tensor, _: Step) -> Tensor:
    e = h.sigmoid()
    if e.requires_grad:
        e.sum().backward()
    return e.sin()


def counted_wrongly(h: Tensor, _: Step) -> Tensor:
    function: Any = Fewer
    result: Tensor = function.apply(h, torch.ones(SIZE, requires_grad=True))
    return result


BETWEEN: dict[str, Callable[[Tensor, Step], Tensor]] = {
    "detach": lambda h, _: h.detach(),
    "no_grad": without_recording,
    "tolist": lambda h, _: torch.tensor(h.tolist()),
    "copy": lambda h, _: torch.tensor(h),
    "Parameter": made_a_leaf,
    "compare": lambda h, _: (h > 0).float(),
    "round": lambda h, _: h.round(),
    "zero": lambda h, _: h * 0,
    "dead": lambda h, _: (h - 100).relu(),
    "sqrt of zero": lambda h, _: (h - h.detach()).sqrt(),
    "log of negative": lambda h, _: (h - 100).log(),
    "in place": written_in_place,
    "step": stepped,
    "used up": used_up,
    "floor": lambda h, _: h // 0.5,
    "count": counted_wrongly,
    "nothing": lambda h, _: h,
}


def froze(step: Step) -> None:
    step.chance.choice([*step.model.parameters()]).requires_grad_(False)


def left_out(step: Step) -> None:
    del step.optimized[-step.chance.randint(1, 2) :]
    step.optimized = step.optimized or [nn.Parameter(torch.ones(1))]


def never_used(step: Step) -> None:
    step.model.register_module("spare", nn.Linear(SIZE, 1))
    step.optimized += step.model[-1].parameters()


def stopped(step: Step) -> None:
    step.rate = 0.0


def kept_apart(step: Step) -> None:
    layer = nn.Linear(SIZE, SIZE)
    step.model.__dict__["layers"] = [layer]
    step.unregistered += layer.parameters()


def not_reduced(step: Step) -> None:
    step.reduces = False


def expected_less(step: Step) -> None:
    step.expect = ["0.weight", "0.bias"]


AROUND = [froze, left_out, never_used, stopped, kept_apart, not_reduced, expected_less]


class Outcome(NamedTuple):
    """The predicted and the observed effects, each a pair of an effect and a tensor."""

    title: str
    predicted: dict[tuple[str, str], str]
    """The code that predicts it."""
    happened: set[tuple[str, str]]


def run(seed: int) -> Outcome | None:
    """Run a random step, diagnose it, and observe it; None if a defect raises an error at once."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    step = Step(chance)
    layers = list(step.model)
    planted = [one for one in chance.sample(AROUND, 1) if chance.random() < 0.4]
    for defect in planted:
        defect(step)
    between = [chance.choice([*BETWEEN]) if chance.random() < 0.3 else "nothing" for _ in layers]
    try:
        with record(values=True) as recording:
            loss = _compute(step, layers, between)
    except RuntimeError:
        return None
    for parameter in step.model.parameters():
        parameter.grad = None
    optimizer = step.optimizer()
    report = diagnose(
        loss, step.model, optimizer, recording=recording, gradients=True, expect=step.expect
    )
    title = f"seed {seed}: {[one.__name__ for one in planted]}, {between}"
    return Outcome(title, _predicted(report), _happened(loss, step, optimizer))


def _compute(step: Step, layers: list[nn.Module], between: list[str]) -> Tensor:
    h = torch.randn(3, SIZE)
    for layer, name in zip(layers, between, strict=True):
        h = BETWEEN[name](layer(h).tanh(), step)
    for layer in step.model.__dict__.get("layers", []):
        h = layer(h)
    return h.square().mean() if step.reduces else h.square()


def _predicted(report: Report) -> dict[tuple[str, str], str]:
    """Return the effects that the findings predict; after an error, only the error."""
    found: dict[tuple[str, str], str] = {}
    for one in [*report, *(after for cause in report for after in cause.consequences)]:
        effect = EFFECTS.get(one.code)
        if effect == "error" and one.severity is Severity.ERROR:
            found[effect, one.code] = one.code
        elif effect == "not finite":
            found[effect, ""] = one.code
        elif effect is not None and effect != "error":
            names = ["unregistered"] if one.code == "unregistered" else one.subject
            found.update({(effect, name): one.code for name in names if name[:5] != "node "})
    return found


def _happened(loss: Tensor, step: Step, optimizer: torch.optim.Optimizer) -> set[tuple[str, str]]:
    named = dict(step.model.named_parameters())
    before = {name: one.detach().clone() for name, one in named.items()}
    try:
        loss.backward()
    except RuntimeError as error:
        return {("error", code) for code, text in MESSAGES.items() if re.search(text, str(error))}
    optimizer.step()
    happened: set[tuple[str, str]] = set()
    for name, one in named.items():
        if one.grad is None:
            wanted = step.expect or [other for other, p in named.items() if _is_in(p, optimizer)]
            happened |= {("no gradient", name)} if one.requires_grad and name in wanted else set()
            continue
        if not one.grad.isfinite().all() or not loss.isfinite():
            happened.add(("not finite", ""))
        if not one.grad.any():
            happened.add(("zeros", name))
        elif torch.equal(one, before[name]):
            happened.add(("no step", name))
        elif one.grad.isfinite().all():
            happened.add(("moves", name))
        if step.expect is not None and name not in step.expect:
            happened.add(("gradient", name))
    happened |= {("gradient", "unregistered") for one in step.unregistered if one.grad is not None}
    return happened


def _is_in(parameter: Tensor, optimizer: torch.optim.Optimizer) -> bool:
    return any(one is parameter for group in optimizer.param_groups for one in group["params"])


class Counts(Counter[tuple[str, str]]):
    """How often each effect was predicted, and how often it happened."""

    def add(self, outcome: Outcome) -> list[str]:
        """Count one program; return the effects that were not predicted correctly."""
        raised = {code for effect, code in outcome.happened if effect == "error"}
        said = {code for effect, code in outcome.predicted if effect == "error"}
        if said or raised:  # nothing else can be observed, and only the first of several errors
            agreed = said & raised
            code = min(agreed or said or raised)
            self[code, "both" if agreed else "predicted" if said else "happened"] += 1
            return [] if agreed else [f"{outcome.title}: {said}, but {raised}"]
        wrong: list[str] = []
        for pair, code in outcome.predicted.items():
            agrees = pair in outcome.happened
            if pair[0] == "no step" and not agrees and ("moves", pair[1]) not in outcome.happened:
                continue  # The parameter has no gradient to step with.
            self[code, "both" if agrees else "predicted"] += 1
            wrong += [] if agrees else [f"{outcome.title}: {code} about {pair}"]
        for pair in outcome.happened - outcome.predicted.keys():
            if pair[0] != "moves":
                self[pair[0], "happened"] += 1
                wrong.append(f"{outcome.title}: {pair} happened")
        return wrong

    def table(self) -> str:
        """Return the counts as a table."""
        columns = ("both", "predicted", "happened")
        head = (
            f"{'code':24}{'predicted and happened':>24}{'predicted only':>16}{'happened only':>16}"
        )
        rows = [
            f"{code:24}{self[code, columns[0]]:24}{self[code, columns[1]]:16}"
            f"{self[code, columns[2]]:16}"
            for code in sorted({code for code, _ in self})
        ]
        return "\n".join([head, *rows])


@pytest.mark.parametrize("count", [60, pytest.param(600, marks=pytest.mark.sweep)])
def test_findings_predict_the_effects_of_backward_and_step(count: int) -> None:
    counts = Counts()
    outcomes = filter(None, map(run, range(count)))
    wrong = [one for outcome in outcomes for one in counts.add(outcome)]
    print(counts.table())  # noqa: T201 # `-s` shows it
    assert wrong == []
