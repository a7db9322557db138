"""Why a parameter that several processes share has no gradient, as one of them can tell."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import GradCause, explain_grad, preflight, record, trace_graph
from tests.several_processes import needs_distributed, one_of

pytestmark = needs_distributed


@pytest.fixture(autouse=True)
def _one_of_two() -> Iterator[None]:
    with one_of(2):
        yield


class Heads(nn.Module):
    """Uses the second head only if it is told to, and cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.idle = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, *, cuts: bool = False) -> torch.Tensor:
        result: torch.Tensor = self.used(x)
        return result + self.idle(x).detach() if cuts else result


def sharded(model: nn.Module) -> Any:
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415 (may lack)

    for part in model.children():
        fully_shard(part)
    return fully_shard(model)


def test_what_another_process_may_fill_is_left_open() -> None:
    model = nn.parallel.DistributedDataParallel(Heads(), find_unused_parameters=True)
    loss = model(torch.ones(1, 4)).sum()
    explanation = explain_grad(model.module.idle.weight, loss)
    assert (explanation.cause, explanation.will_be_filled) == (GradCause.OTHERS, None)
    assert "but DistributedDataParallel (find_unused_parameters) may store" in explanation.because
    assert "frozen" in explanation.cure
    assert explain_grad(model.module.used.weight, loss).will_be_filled is True
    assert [e.name for e in preflight(loss, names=model).unseen] == [
        "module.idle.weight",
        "module.idle.bias",
    ]


def test_a_cut_in_this_process_is_told_all_the_same() -> None:
    model = nn.parallel.DistributedDataParallel(Heads(), find_unused_parameters=True)
    with record() as recording:
        loss = model(torch.ones(1, 4), cuts=True).sum()
    explanation = explain_grad(model.module.idle.weight, loss, recording=recording)
    assert (explanation.cause, explanation.will_be_filled) == (GradCause.DETACHED, None)


def test_what_is_not_used_stays_empty_where_nobody_looks_for_it() -> None:
    model = nn.parallel.DistributedDataParallel(Heads())
    loss = model(torch.ones(1, 4)).sum()
    explanation = explain_grad(model.module.idle.weight, loss)
    assert (explanation.cause, explanation.will_be_filled) == (GradCause.NOT_REACHED, False)


def test_a_sharded_parameter_is_known_as_the_module_has_it() -> None:
    model = sharded(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
    parameters = dict(model.named_parameters())
    loss = model(torch.ones(1, 4)).sum()
    found = preflight(loss, names=model)
    assert (found.without_gradient, found.unseen, found.unregistered) == ((), (), ())
    assert (found.running, found.may_fail) == ((), False)
    assert {leaf.leaf_name for leaf in trace_graph(loss, names=model).leaves} == {*parameters}
    for tensor in parameters.values():
        explanation = explain_grad(tensor, loss)
        assert (explanation.cause, explanation.will_be_filled) == (GradCause.NOT_RUN, True)


def test_what_is_held_back_is_told_with_what_lets_it_go() -> None:
    model = sharded(nn.Sequential(nn.Linear(4, 2)))
    (weight, _) = model.parameters()
    loss = model(torch.ones(1, 4)).sum()
    model.set_requires_gradient_sync(False)
    explanation = explain_grad(weight, loss)
    assert (explanation.cause, explanation.will_be_filled) == (GradCause.HELD_BACK, False)
    assert explanation.is_reached
    assert explanation.cure.startswith("Call set_requires_gradient_sync(True)")


def test_zeros_for_what_is_not_used_are_left_open() -> None:
    model = sharded(Heads())
    if not hasattr(model, "set_reduce_scatter_unused_params"):
        pytest.skip("this PyTorch never reduces what is not used")
    model.set_reduce_scatter_unused_params(True)
    (weight, _) = model.idle.parameters()
    model.idle(torch.ones(1, 4))  # put together once
    explanation = explain_grad(weight, model.used(torch.ones(1, 4)).sum())
    assert (explanation.cause, explanation.will_be_filled) == (GradCause.OTHERS, None)
    assert "fully_shard (reduce_scatter_unused_params)" in explanation.because


def test_a_sharded_parameter_that_is_used_directly_is_its_own_leaf() -> None:
    model = sharded(nn.Sequential(nn.Linear(4, 2)))
    parameters = dict(model.named_parameters())
    model(torch.ones(1, 4))
    penalty = sum(one.square().sum() for one in parameters.values())
    assert {leaf.leaf_name for leaf in trace_graph(penalty, names=parameters).leaves} == {
        *parameters
    }
    assert preflight(penalty, names=parameters).without_gradient == ()
