"""Backward passes that raise an error: overwritten or freed tensors."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from leafgrad import diagnose, record
from tests.stories.diagnosing import Diagnosed, Stories, Story, check

stories = Stories()


@stories(
    "https://github.com/chojw/genb/issues/6",
    "step-before-backward",
    "critic.weight",
    help="after the last `backward()`",
)
def actor_and_critic_that_step_in_turn() -> Diagnosed:
    both = nn.ModuleDict({"actor": nn.Linear(3, 2), "critic": nn.Linear(2, 1)})
    optimizer = torch.optim.Adam(both["critic"].parameters())
    with record() as recording:
        action = both["actor"](torch.ones(1, 3))
        value = both["critic"](action)  # here
        (value - 1).square().mean().backward(retain_graph=True)
        optimizer.step()  # here
        loss = -value.mean()
    return loss, both, recording


@stories("https://github.com/pytorch/pytorch/issues/9391", "in-place")
def an_entry_set_in_the_result_of_a_sigmoid() -> Diagnosed:
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with record() as recording:
        b = a.sigmoid()  # here
        b[1] = 2  # here
        loss = b.sum()
    return loss, {"a": a}, recording


@stories("https://github.com/osmr/imgclsmob/issues/13", "in-place")
def a_relu_in_place_behind_a_tanh() -> Diagnosed:
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.ReLU(inplace=True))
    with record() as recording:
        loss = model(torch.ones(1, 2)).sum()  # here
    return loss, model, recording


@stories("https://github.com/pytorch/pytorch/issues/165621", "in-place", help="torch.stack(parts)")
def states_written_into_one_tensor_step_by_step() -> Diagnosed:
    cell = nn.Linear(2, 2)
    states = torch.zeros(4, 2)
    with record() as recording:
        for step in range(3):
            states[step + 1] = cell(states[step])  # here
        loss = states.sum()
    return loss, cell, recording


@stories(
    "https://github.com/pytorch/pytorch/issues/22095",
    "in-place",
    "running",
    help="broadcast_buffers=False",
)
def a_buffer_written_by_a_second_forward() -> Diagnosed:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.register_buffer("running", torch.ones(2))

        def forward(self, x: torch.Tensor) -> Any:
            torch._foreach_mul_([self.get_buffer("running")], 0.9)  # here
            return self.linear(x) * self.get_buffer("running")

    model = Model()
    with record() as recording:
        first = model(torch.ones(1, 2)).sum()
        loss = first + model(torch.zeros(1, 2)).sum()
    return loss, model, recording


@stories(
    "https://github.com/RobinLu1209/ST-GFSL/issues/3",
    "in-place",
    "1.weight",
    help="functional_call",
)
def weights_loaded_between_forward_and_backward() -> Diagnosed:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    before = {name: one.detach().clone() for name, one in model.state_dict().items()}
    with record() as recording:
        loss = model(torch.ones(1, 2)).sum()  # here
        model.load_state_dict(before)  # here
    return loss, model, recording


@stories("https://github.com/pytorch/pytorch/issues/26596", "in-place", "weight", help="max_norm")
def an_embedding_that_keeps_its_norms_small() -> Diagnosed:
    table = nn.Embedding(3, 5, max_norm=1.0)
    w = torch.rand(7, 5, requires_grad=True)
    with record() as recording:
        a = table.weight @ w.t()  # here
        b = table(torch.tensor([1, 2])) @ w.t()  # here
        loss = (a.sum() + b.sum()).sigmoid()
    return loss, table, recording


@stories(
    "https://github.com/vikrant7/mobile-vod-bottleneck-lstm/issues/25",
    "step-before-backward",
    "weight_hh",
    help="state.detach()",
)
def a_state_carried_over_an_optimizer_step() -> Diagnosed:
    cell, state = nn.RNNCell(2, 3), torch.zeros(1, 3)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
    with record() as recording:
        for batch in torch.rand(3, 1, 2):
            state = cell(batch, state)  # here
            loss = state.square().sum()
            if diagnose(loss).ok:
                loss.backward(retain_graph=True)
                optimizer.step()  # here
    return loss, cell, recording


@stories("https://github.com/sgadgil6/cnslab_fmri/issues/4", "freed", help=".detach()")
def the_state_of_an_lstm_kept_on_the_module() -> Diagnosed:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(2, 3), nn.Linear(3, 1)
            self.state: tuple[torch.Tensor, torch.Tensor] | None = None

        def forward(self, x: torch.Tensor) -> Any:
            result, self.state = self.lstm(x, self.state)  # here
            return self.head(result)

    model = Model()
    with record() as recording:
        model(torch.rand(4, 1, 2)).sum().backward()
        loss = model(torch.rand(4, 1, 2)).sum()
    return loss, model, recording


@stories("https://github.com/tamarott/SinGAN/issues/148", "freed", help=".detach()")
def a_fake_batch_that_is_not_detached() -> Diagnosed:
    both = nn.ModuleDict(
        {"G": nn.Sequential(nn.Linear(2, 2), nn.Tanh()), "D": nn.Sequential(nn.Linear(2, 1))}
    )
    with record() as recording:
        fake = both["G"](torch.rand(4, 2))  # here
        both["D"](fake).mean().backward()  # here
        loss = -both["D"](fake).mean()
    return loss, both, recording


@stories(
    "https://discuss.pytorch.org/t/backpropagation-graph-is-reused-while-it-shouldnt/24554",
    "freed",
    help="into the loop",
)
def a_value_computed_before_the_loop() -> Diagnosed:
    t = torch.eye(2, requires_grad=True)
    a = torch.ones(2, requires_grad=True)
    with record() as recording:
        y = t @ a  # here
        for _ in range(2):
            loss = (t @ (torch.ones(2) + y)).square().sum()
            if diagnose(loss).ok:
                loss.backward()  # here
    return loss, {"t": t, "a": a}, recording


@stories("https://github.com/pytorch/pytorch/issues/17568", "freed", help=".item()")
def a_running_total_that_is_run_backward() -> Diagnosed:
    w = nn.Parameter(torch.tensor(2.0))
    total = torch.zeros(())
    with record() as recording:
        for x in (1.0, 2.0):
            total = total + (w * x) ** 2  # here
            if diagnose(total).ok:
                total.backward()
    return total, {"w": w}, recording


@stories("", "freed", help="create_graph=True")
def a_slope_of_the_outputs_without_create_graph() -> Diagnosed:
    network = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.rand(4, 1, requires_grad=True)
    with record() as recording:
        u = network(x)
        (slope,) = torch.autograd.grad(u.sum(), x)  # here
        loss = (u - 1).square().mean() + slope.square().mean()
    return loss, network, recording


@stories("", "silent-write", help="`.numpy().copy()`")
def observations_that_the_environment_overwrites() -> Diagnosed:
    policy, state = nn.Linear(3, 2), np.ones(3, dtype=np.float32)
    with record(values=True) as recording:
        loss = torch.zeros(())
        for _ in range(2):
            loss = loss - policy(torch.from_numpy(state)).log_softmax(0)[0]  # here
            state += 1
    return loss, policy, recording


def test_array_filled_before_each_forward_pass_is_not_reported() -> None:
    model, batch = nn.Linear(3, 1), np.zeros((4, 3), dtype=np.float32)
    with record(values=True) as recording:
        for number in range(3):
            batch += number + 1
            loss = model(torch.from_numpy(batch)).square().sum()
            assert diagnose(loss, model, recording=recording, gradients=True).ok
            loss.detach().numpy().sum()
            loss.backward()


@stories("", "freed", help="`inputs=`")
def a_backward_for_some_inputs_alone() -> Diagnosed:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    with record() as recording:
        loss = model(torch.ones(2)).square().sum()
        loss.backward(inputs=[*model[1].parameters()])  # here
    return loss, model, recording


@pytest.mark.parametrize("story", stories, ids=lambda story: story.program.__name__)
def test_report_on_failing_backward_names_cause_and_its_fix_works(story: Story) -> None:
    check(story)
