"""A long recording forgets what belongs to no living graph, and nothing else."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import Recording, diagnose, record, trace_graph
from tests.tensors import leaf
from tests.turns import value_turns


def entries(recording: Recording) -> int:
    log, tape = recording.log, recording.log.tape
    sizes = map(len, [tape.calls, tape.values, tape.structure.successors, log.modules, log.values])
    return sum([*sizes, len(log.given)])


def training(recording: Recording, steps: int, most: int) -> Iterator[None]:
    """Train a small network as most do, with a line for what is printed."""
    recording.log.max_entries = most
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    total = 0.0
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).square().mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
        yield


@pytest.fixture
def _cycles_are_searched_for_as_often_as_elsewhere() -> Iterator[None]:
    rarely = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*rarely)


@pytest.mark.usefixtures("_cycles_are_searched_for_as_often_as_elsewhere")
def test_recording_of_training_loop_does_not_grow() -> None:
    with record() as recording:
        sizes = [entries(recording) for _ in training(recording, 400, 1_600)]
    assert max(sizes[200:]) < 1.1 * max(sizes[:200]) < 4_000
    assert {source.function for source in recording.sources} == {"training"}
    assert set(recording.modules) == {"", "0", "1", "2"}


class Recorded:
    """A recording of everything that a question may be asked about, all of it alive."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid())
        self.x = leaf(2, 3)
        for _ in range(20):
            dead = self.model(leaf(2, 3))
            (dead * dead).sum().item()
        del dead
        self.y = self.model(self.x)
        self.h = self.x * 2
        self.written = self.h.exp().sin()
        self.h.add_(1).mul_(2)
        self.detached = self.y.detach()
        self.loss = (self.detached * self.h).sum()
        (self.slope,) = torch.autograd.grad(self.x.sin().sum(), self.x, create_graph=True)
        self.x.grad = self.slope * 2
        self.weight = leaf(3)
        self.left = self.weight.sum().item()
        self.unrelated = (leaf(3) * self.left).sum()

    def answers(self, recording: Recording) -> list[Any]:
        ends = [self.y, self.written, self.loss, self.slope, self.x.grad, self.unrelated]
        traces = [trace_graph(end, recording=recording, values=True) for end in ends]
        warned = [diagnose(end, recording=recording) for end in ends]
        tensors = [self.x, self.weight, self.y, self.detached, *self.model.parameters()]
        pairs = [(tensor, end) for tensor in tensors for end in ends]
        why = [diagnose(end, {"x": tensor}, recording=recording) for tensor, end in pairs]
        return [traces, warned, why, recording.sources, recording.modules]


def test_pruning_does_not_change_reports_on_living_graphs() -> None:
    with record(values=True) as recording:
        made = Recorded()
    before, size = made.answers(recording), entries(recording)
    for _ in range(2):
        gc.collect()
        recording.log.prune()
        assert made.answers(recording) == before
    assert entries(recording) < size - 20 * 3
    codes = {code for report in before[2] for code in report.codes or [""]}
    assert codes >= {"detached", "converted", ""}


def test_nothing_is_pruned_during_backward() -> None:
    recordings = []

    def note(_: torch.Tensor) -> None:
        with torch.enable_grad(), record() as recording:
            recording.log.max_entries = 1
            for _number in range(3):
                leaf(3).cos()
        recordings.append(recording)

    x = leaf(3)
    x.register_hook(note)
    x.sum().backward()
    (recording,) = recordings
    assert recording.node_count == 3
    recording.log.prune_if_large()
    assert recording.node_count == 1


def test_modules_are_pruned_without_lines() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    with record(lines=False) as recording:
        recording.log.max_entries = 100
        for _ in range(300):
            y = model(torch.ones(1, 2))
    assert len(recording.log.modules) < 300
    assert recording.modules == ("", "0", "1")
    assert trace_graph(y, recording=recording).nodes[0].module == "1"


def test_modules_created_in_each_step_are_pruned() -> None:
    with record() as recording:
        recording.log.max_entries = 100
        for _ in range(120):
            model = nn.Sequential(nn.Linear(3, 1), nn.Tanh())
            loss = model(leaf(2, 3)).sum()
    assert len(recording.log.modules) < 200
    trace = trace_graph(loss, names=model, recording=recording)
    assert {node.module for node in trace.nodes} == {"0", "1", None}


def test_nonfinite_arguments_are_pruned_with_their_results() -> None:
    with record(values=True) as recording:
        recording.log.max_entries = 100
        for _ in range(200):
            loss = (leaf(3) * torch.tensor([1.0, torch.nan, 1.0])).sum()
    assert len(recording.log.given) < 150
    turn = value_turns(trace_graph(loss, recording=recording, values=True))[0]
    assert (turn.name, turn.value_turn_given) == ("MulBackward0", ("argument 1 of mul",))


def test_deleted_leaves_are_pruned_and_living_ones_kept() -> None:
    weight = leaf(3)
    with record() as recording:
        recording.log.max_entries = 100
        for _ in range(300):
            loss = (leaf(3) * weight).sum()
    assert len(recording.log.tape.calls) < 150
    assert len(recording.log.tape.values) < 150
    assert diagnose(leaf(1).sum(), {"x": weight}, recording=recording).codes == ("not-reached",)
    assert loss.requires_grad


def test_repeated_detach_of_carried_state_is_one_finding() -> None:
    with record() as recording:
        recording.log.max_entries = 200
        weight, h = leaf(3), torch.ones(3)
        for _ in range(1_500):
            h = (h * weight).tanh().detach()
        loss = h.sum()
    assert len(recording.log.tape.calls) < 1_000
    (found,) = diagnose(loss, {"weight": weight}, recording=recording)
    assert found.primary is not None
    assert found.primary.source == recording.sources[0]


def test_state_detached_from_freed_graph_leads_to_its_leaves() -> None:
    weight = leaf(3)
    made = (weight * 2).exp()
    with record() as recording:
        state = made.detach()
        del made
        recording.log.prune()
        loss = (state * leaf(3)).sum()
    (found,) = diagnose(loss, {"weight": weight}, recording=recording)
    assert found.code == "detached"


def test_recording_works_after_exception_in_its_block() -> None:
    weight, losses = leaf(3), []

    def fail() -> None:
        state = (weight * 2).detach()
        losses.append((state * leaf(3)).sum())
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"), record() as recording:
        fail()
    (found,) = diagnose(losses[0], {"weight": weight}, recording=recording)
    assert found.code == "detached"
