"""Scripts with a mistake that `debug` once missed or explained wrongly."""

import gc
import linecache
import textwrap
from typing import Any

import pytest
import torch
from torch import Tensor

from leafgrad import debug, diagnose, record
from leafgrad.types import Severity, StepReport
from tests.diagnosis.programs import apply_printed_edits

START = """
    import torch
    from torch import nn

    torch.manual_seed(0)
    x, y = torch.randn(16, 4), torch.randn(16, 1)
"""
STEP = """
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
"""
REPLACED = f"""{START}
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 1))

        def forward(self, x):
            return x @ self.w

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
{STEP}
        with torch.no_grad():
            model.w = nn.Parameter(model.w / model.w.norm())
"""
LOOSE = f"""{START}
    w = nn.Parameter(torch.randn(4, 1))
    optimizer = torch.optim.SGD([w], lr=0.1)
    for _ in range(3):
        model = lambda x: x @ w
{STEP}
        w = nn.Parameter(w.data)
"""
BUFFER = f"""{START}
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 1)
            self.register_buffer("scale", torch.ones(1, requires_grad=True))

        def forward(self, x):
            return self.linear(x) * self.scale

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
{STEP}
"""
IN_DICT = f"""{START}
    weights = {{name: torch.randn(4, 1, requires_grad=True) for name in ("a", "b")}}
    optimizer = torch.optim.SGD([weights["a"]], lr=0.1)
    model = lambda x: x @ weights["a"] + x.square() @ weights["b"]
    for _ in range(3):
{STEP}
"""
OUTSIDE = f"""{START}
    linear, gains = nn.Linear(4, 4), [nn.Parameter(torch.ones(4, 1))]
    optimizer = torch.optim.SGD(linear.parameters(), lr=0.1)
    model = lambda x: linear(x) @ gains[0]
    for _ in range(3):
{STEP}
"""
CLIPPED = f"""{START}
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
{STEP}
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""
ONE_GAN_STEP = f"""{START}
    generator, critic = nn.Linear(4, 4), nn.Linear(4, 1)
    first = torch.optim.SGD(critic.parameters(), lr=0.1)
    second = torch.optim.SGD(generator.parameters(), lr=0.1)
    fake = generator(x).detach()
    (critic(fake) - critic(x)).mean().backward()
    first.step()
    loss = -critic(fake).mean()
    loss.backward()
    second.step()
"""
PADDING = f"""{START}
    embedding, head = nn.Embedding(9, 4, padding_idx=0), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*embedding.parameters(), *head.parameters()], lr=0.1)
    x = torch.zeros(16, 3, dtype=torch.long)
    model = lambda x: head(embedding(x).mean(1))
{textwrap.dedent(STEP).replace(chr(10), chr(10) + "    ")}
"""
TWO_OPTIMIZERS = f"""{START}
    parts = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD(parts[0].parameters(), lr=0.1)
    other = torch.optim.SGD(parts[2].parameters(), lr=0.1)
    model = nn.Sequential(*parts)
    for _ in range(3):
{STEP}
"""

CLEARED = f"""{START}
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.zero_grad(set_to_none=False)
        optimizer.step()
"""
PRODUCT = f"""{START}
    policy = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        scores = torch.tanh(policy(x))
        loss = -(scores * y.flatten()).mean()
        loss.backward()
        optimizer.step()
"""
UNTRAINED = f"""{START}
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
{STEP}
"""
SECOND_PART = f"""{START}
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
{STEP}
    a, b = nn.Parameter(torch.zeros(4, 2)), nn.Parameter(torch.zeros(2, 1))
    optimizer = torch.optim.SGD([a, b], lr=0.1)
    plain, model = model, lambda x: plain(x) + x @ a @ b
    for _ in range(5):
{STEP}
"""

CLOSURE = f"""{START}
    model = nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    def closure():
        loss = (model(x) - y).square().mean()
        loss.backward()
        return loss
    for _ in range(3):
        optimizer.zero_grad()
        optimizer.step(closure)
"""
UNFROZEN = f"""{START}
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
    for step in range(9):
        model[0].requires_grad_(step > 4)
{STEP}
"""
RSAMPLE = f"""{START}
    policy = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    distribution = torch.distributions.Normal(policy(x), 1.0)
    action = distribution.rsample()
    loss = -(distribution.log_prob(action) * y).mean()
    loss.backward()
    optimizer.step()
"""


def run(name: str, code: str) -> list[StepReport]:
    linecache.cache[name] = len(code), None, code.splitlines(keepends=True), name
    gc.collect()
    with debug() as reports:
        exec(compile(code, name, "exec"), {"__name__": "__main__"})
    return reports


@pytest.mark.parametrize(
    ("code", "step", "finding", "line", "is_fixed"),
    [
        (REPLACED, 2, "error[not-in-optimizer]: `w`", "model.w = nn.Parameter(model.w / m", True),
        (LOOSE, 2, "error[not-in-optimizer]: `w`", "w = nn.Parameter(w.data)", True),
        (BUFFER, 1, "error[unregistered]: `scale`", 'self.register_buffer("scale"', True),
        (IN_DICT, 1, "warning[not-in-optimizer]: `weights['b']`", "optimizer = torch.op", False),
        (OUTSIDE, 1, "warning[not-in-optimizer]: `gains[0]`", "optimizer = torch.op", False),
        (CLIPPED, 2, "warning[clip-after-step]", "nn.utils.clip_grad_norm_(model.par", True),
        (ONE_GAN_STEP, 2, "error[detached]", "fake = generator(x).detach()", False),
        (PADDING, 1, "warning[zero-gradient]: the gradient of `head.w", "head(embeddi", False),
        (CLEARED, 2, "error[zero-grad-misplaced]", "optimizer.zero_grad(set_to_n", True),
        (PRODUCT, 1, "warning[broadcast-loss]: the loss multi", "(scores * y.flat", True),
        (UNTRAINED, 1, "warning[eval-mode]: `model` is in", "", False),
        (SECOND_PART, 7, "warning[zero-gradient]: the gradient of `a`", "x @ a @ b", False),
        (CLOSURE, 1, "warning[missing-zero-grad]", "loss.backward()", False),
        (UNFROZEN, 7, "warning[not-in-optimizer]: `model[0].weight`", "optimizer = torch", False),
        (RSAMPLE, 1, "warning[zero-gradient]: the obj", "distribution.log_prob(action)", False),
        (TWO_OPTIMIZERS, 1, "warning[not-in-optimizer]", "optimizer = torch.optim", False),
    ],
    ids="replaced loose buffer in-dict outside clipped gan padding "
    "cleared product untrained second-part closure unfrozen rsample two-optimizers".split(),
)
def test_mistake_is_found_with_its_line_and_its_fix(
    code: str, step: int, finding: str, line: str, *, is_fixed: bool
) -> None:
    code = textwrap.dedent(code)
    reports = run("mistake.py", code)
    assert [one.step for one in reports] == [step]
    report = str(reports[0].report)
    assert finding in report
    found = reports[0].report.diagnoses[0]
    if line:
        assert found.primary is not None
        assert line in code.splitlines()[found.primary.source.line - 1]
    if is_fixed:
        assert run("fixed.py", apply_printed_edits(report, code)) == []


def test_zeros_of_padding_are_explained_by_the_indices() -> None:
    ((_, report),) = run("mistake.py", textwrap.dedent(PADDING))
    assert "initialise weights" not in str(report)
    assert "every index is `padding_idx` at node" in " ".join(str(report).split())


def test_unwatched_numpy_array_is_reported_as_a_note() -> None:
    model = torch.nn.Linear(4, 1)
    array = torch.randn(3, 4).numpy().copy()
    x = torch.from_numpy(array)
    with record() as recording:
        loss = model(x).sum()
    (found,) = diagnose(loss, model, recording=recording)
    assert (found.code, found.severity) == ("silent-write", Severity.NOTE)
    with record() as recording:
        loss = model(torch.randn(3, 4)).sum()
    assert diagnose(loss, model, recording=recording).codes == ()


class CudnnRnn(torch.autograd.Function):
    """Stands in for cuDNN's operation: it has its name, and records whether it is training."""

    is_training = False

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx._saved_train = CudnnRnn.is_training
        return x * 2

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        return gradient * 2


@pytest.mark.parametrize("is_training", [False, True])
def test_cudnn_rnn_in_evaluation_mode_is_an_error(
    monkeypatch: pytest.MonkeyPatch, *, is_training: bool
) -> None:
    monkeypatch.setattr(CudnnRnn, "is_training", is_training)
    x = torch.ones(3, requires_grad=True)
    with record() as recording:
        loss = CudnnRnn.apply(x).sum()  # type: ignore[no-untyped-call]
    report = diagnose(loss, {"x": x}, recording=recording, gradients=True)
    assert report.codes == (() if is_training else ("eval-mode",))
    assert is_training or "CudnnRnn.apply(x)" in str(report)
