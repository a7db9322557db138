"""What is said of many tensors, of writes and of graphs that were used up."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import preflight, record
from leafgrad._explain.groups import names_in_words


def leaf(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, requires_grad=True)


def told(value: object) -> str:
    return " ".join(str(value).split())


# --- Names


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a.w", "a.b", "c"], "a.w, a.b and c"),
        (["w", "x", "y", "z"], "4 parameters (w, ..., z)"),
        (["a.0.w", "a.0.b", "a.1.w", "a.1.b"], "4 parameters of a.* (a.0.w, ..., a.1.b)"),
        (["a.0.w", "a.0.b", "a.0.c", "a.0.d"], "4 parameters of a.0 (a.0.w, ..., a.0.d)"),
        (["a.w", "a.b", "c.w", "d"], "4 parameters of the modules a (2), c (1), around them (1)"),
        ([f"m{n}.w" for n in range(8)], "8 parameters of m* (m0.w, ..., m7.w)"),
        (
            ["a.0.b.w", "c.1.w", "a.1.b.w", "d"],
            "4 parameters of the modules a.*.b (2), c.1 (1), around them (1)",
        ),
        (
            [f"a.{n}.{part}.w" for n in "01" for part in "bcde"],
            "8 parameters of a (a.0.b.w, ..., a.1.e.w)",
        ),
        (
            [f"{m}.w" for m in "abcdefgh"],
            "8 parameters of the modules a (1), b (1), c (1), d (1), e (1), f (1) and 2 more",
        ),
    ],
)
def test_names_are_listed_as_long_as_they_are_few(names: list[str], words: str) -> None:
    assert names_in_words(names) == words


class Block(nn.Module):
    """A block with a head that nobody asks, as distributed models come to stop at."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.idle = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.norm(self.used(x)).relu()
        return result


def sentences(value: object) -> list[str]:
    return told(value).split(" - ")[1:]


def test_what_a_step_wrote_into_twelve_blocks_is_one_sentence_with_or_without_its_line() -> None:
    model = nn.Sequential(*[Block() for _ in range(12)])
    for block in model:
        del block.idle
    parameters = [*model.parameters()]
    with record() as recording:
        loss = model(torch.rand(3, 4)).mean()
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        torch.optim.SGD(parameters).step()
    for known, writer in ((recording, "written by SGD.step in "), (None, "written outside of re")):
        found = preflight(loss, names=model, recording=known)
        (sentence,) = sentences(found)
        assert len(found.conflicts) == 23
        assert sentence.startswith(
            "23 parameters of the modules *.norm (12), *.used (11), saved by NativeBatchNorm"
        )
        assert f"must not change until backward, but did: {writer}" in sentence


def test_what_twelve_blocks_lost_to_an_earlier_backward_is_one_sentence() -> None:
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(12)])
    loss = model(torch.rand(3, 4)).mean()
    loss.backward()
    (sentence,) = sentences(preflight(loss, names=model))
    assert ", the first of 12, was freed by an earlier backward" in sentence


# --- Writes


def relu_(y: torch.Tensor) -> None:
    y.relu_()


def clamp_(y: torch.Tensor) -> None:
    y.clamp_(0.0, 1.0)


def add(y: torch.Tensor) -> None:
    y.add_(1.0)


def divide(y: torch.Tensor) -> None:
    y /= 2.0


def entry(y: torch.Tensor) -> None:
    y[0] = 1.0


def entries(y: torch.Tensor) -> None:
    for place in range(2):
        y[place] = 1.0


def dropout(y: torch.Tensor) -> None:
    nn.functional.dropout(y, inplace=True)


CURES: dict[Callable[[torch.Tensor], None], str] = {
    relu_: "Make a new tensor: x = x.relu(...), without the underscore",
    clamp_: "Make a new tensor: x = x.clamp(...), without the underscore",
    add: "Make a new tensor: x = x + y, instead of x += y or x.add_(y).",
    divide: "Make a new tensor: x = x / y, instead of x /= y",
    entry: "Write into a copy: h = h.clone() before the line that writes",
    entries: "Collect the parts in a list and put them together by torch.stack(parts)",
    dropout: "pass inplace=False to dropout, or to its module",
}


@pytest.mark.parametrize("write", CURES, ids=lambda write: write.__name__)
def test_the_cure_of_a_write_fits_the_operation(write: Callable[[torch.Tensor], None]) -> None:
    with record() as recording:
        y = leaf(2).exp()
        write(y)
    assert CURES[write] in told(preflight(y, recording=recording))


def test_what_is_written_by_out_or_unseen_is_to_be_a_copy() -> None:
    x, factor = leaf(2), torch.ones(2)
    with record() as recording:
        y = x * factor
        torch.add(factor, 1.0, out=factor)
    for seen in (recording, None):
        assert "Write into a copy instead, made by clone()" in told(preflight(y, recording=seen))


class Keeping(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(_: Any, *gradients: torch.Tensor) -> Any:
        return 2 * gradients[0]


def test_a_write_that_may_do_no_harm_gets_no_cure() -> None:
    h = leaf(2) * 1
    y: torch.Tensor = Keeping.apply(h)  # type: ignore[no-untyped-call]
    h.add_(1.0)
    text = told(preflight(y))
    assert text.endswith("which would tell the line. Backward fails if it looks at that.")


class Custom(torch.optim.Optimizer):
    """An optimizer that is not PyTorch's, with a function beside its step."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, _: Any = None) -> None:  # type: ignore[override]
        for parameter in self.param_groups[0]["params"]:
            update(parameter)


def update(parameter: torch.Tensor) -> None:
    parameter.add_(1.0)


OPTIMIZERS: list[Callable[[Any], torch.optim.Optimizer]] = [
    lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    lambda parameters: torch.optim.AdamW(parameters, foreach=True),
    Custom,
]


@pytest.mark.parametrize("make", OPTIMIZERS, ids=["SGD", "AdamW", "Custom"])
def test_the_step_of_any_optimizer_is_told_from_the_line_that_calls_it(
    make: Callable[[Any], torch.optim.Optimizer],
) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = make(model.parameters())
    with record() as recording:
        loss = model(torch.ones(1, 2)).sum()
        loss.backward(retain_graph=True)
        optimizer.step()
    (conflict,) = preflight(loss, names=model, recording=recording).conflicts
    (write,) = {(one.within, one.source) for one in conflict.saved.writes}
    assert conflict.name == "1.weight"
    assert write[0] == f"{type(optimizer).__name__}.step"
    assert write[1] is not None
    assert write[1].function.startswith("test_the_step_of_any_optimizer")


def test_a_closure_that_an_optimizer_calls_is_not_its_step() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=1)

    def closure() -> float:
        y = model(torch.ones(1, 2)).exp()
        y.sum().backward(retain_graph=True)
        y.add_(1.0)
        return float(y.detach())

    with record() as recording:
        optimizer.step(closure)
    assert [one.within for one in recording.writes if one.source.function.endswith("closure")] == [  # type: ignore[union-attr]
        None
    ]


def deep(depth: int, parameter: torch.Tensor) -> None:
    if depth:
        deep(depth - 1, parameter)
    else:
        parameter.add_(1.0)


def test_far_behind_the_line_that_writes_no_step_is_looked_for() -> None:
    class Deep(Custom):
        @torch.no_grad()
        def step(self, _: Any = None) -> None:  # type: ignore[override]
            deep(9, self.param_groups[0]["params"][0])

    optimizer = Deep([leaf(2)])
    with record() as recording:
        optimizer.step()
    assert [write.within for write in recording.writes] == [None]


# --- Graphs that were used up


def test_a_graph_that_is_used_up_without_a_recording_is_told_as_far_as_it_shows() -> None:
    x = leaf(2)
    h = x.exp()
    first, second = h.sin().sum(), h.cos().sum()
    first.backward()
    assert "retain_graph=True to that one." in told(preflight(first))
    assert "state = state.detach()" not in told(preflight(first))
    assert "both go through a result of ExpBackward0, which" in told(preflight(second))
    h = x.exp()
    h.backward(torch.ones(2))
    assert "of several outputs, add up" in told(preflight([h, leaf(2).exp()]))


def test_losses_that_share_a_graph_are_to_be_added() -> None:
    with record() as recording:
        h = leaf(2).exp()
        first, second = h.sin().sum(), h.cos().sum()
        first.backward()
    assert "(loss_1 + loss_2).backward()" in told(preflight(second, recording=recording))


def test_a_backward_that_keeps_the_graph_has_not_freed_it() -> None:
    with record() as recording:
        loss = leaf(2).exp().sum()
        loss.backward(retain_graph=True)
    loss.backward()
    assert "backward ran in" not in told(preflight(loss, recording=recording))


def test_each_way_to_run_backward_is_noted() -> None:
    x = leaf(2)
    ways: list[Callable[[torch.Tensor], object]] = [
        lambda loss: loss.backward(),
        lambda loss: torch.autograd.grad(loss, x),
    ]
    if "has_torch_function" in torch.autograd.backward.__code__.co_names:  # 2.10 tells no mode
        ways.append(torch.autograd.backward)
    for way in ways:
        with record() as recording:
            loss = x.exp().sum()
            way(loss)
        assert "(backward ran in tests/explain/test_words.py:" in told(
            preflight(loss, recording=recording)
        )


def test_two_backwards_in_a_row_are_both_noted() -> None:
    x = leaf(2)
    with record() as recording:
        h = x.exp()
        first, second = h.sum(), h.sin().sum()
        first.backward(retain_graph=False)
        with pytest.raises(RuntimeError, match="second time"):
            second.backward()
    assert told(preflight(second, recording=recording)).count("test_words.py:") == 2
