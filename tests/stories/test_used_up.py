"""A second backward through a graph that the first one freed."""

from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import diagnose, record
from tests.stories.diagnosing import Diagnosed, Stories, Story, check

stories = Stories()


@stories("https://github.com/Eurus-Holmes/MNMT/issues/7", "freed", help="retain_graph=True")
def one_loss_run_backward_twice() -> Diagnosed:
    model = nn.Linear(2, 1)
    with record() as recording:
        loss = model(torch.ones(2)).square().sum()
        loss.backward()  # here
    return loss, model, recording


@stories("https://github.com/MorvanZhou/PyTorch-Tutorial/issues/57", "freed", help=".detach()")
def a_hidden_state_carried_from_batch_to_batch() -> Diagnosed:
    cell, state = nn.RNNCell(2, 3), torch.zeros(1, 3)
    with record() as recording:
        for batch in torch.rand(2, 1, 2):
            state = cell(batch, state)  # here
            loss = state.square().sum()
            if batch is not None and diagnose(loss).ok:
                loss.backward()
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


@stories("https://github.com/pytorch/pytorch/issues/2769", "freed", help=".detach()")
def the_gradient_of_a_cell_whose_state_was_carried() -> Diagnosed:
    cell, state = nn.RNNCell(2, 3), torch.zeros(1, 3)
    with record() as recording:
        state = cell(torch.rand(1, 2), state)
        state.square().sum().backward()
        loss = cell(torch.rand(1, 2), state).square().sum()
    return loss, cell, recording


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


@stories(
    "https://discuss.pytorch.org/t/pytorch-runtimeerror-trying-to-backward-through-the-graph-a-second-time/191396",
    "freed",
    help=".detach()",
)
def an_advantage_that_keeps_the_graph_of_the_critic() -> Diagnosed:
    both = nn.ModuleDict({"actor": nn.Linear(3, 1), "critic": nn.Linear(3, 1)})
    state = torch.ones(1, 3)
    with record() as recording:
        value = both["critic"](state).square()  # here
        value.square().mean().backward()
        loss = -(both["actor"](state) * (1.0 - value)).mean()
    return loss, both, recording


@stories(
    "https://github.com/naver-ai/StyleMapGAN/issues/16",
    "freed",
    help="(loss_1 + loss_2).backward()",
)
def two_losses_of_one_network_run_backward_in_turn() -> Diagnosed:
    trunk, first, second = nn.Linear(2, 2), nn.Linear(2, 1), nn.Linear(2, 1)
    with record() as recording:
        hidden = trunk(torch.ones(1, 2)).tanh()  # here
        first(hidden).square().sum().backward()
        loss = second(hidden).square().sum()
    return loss, None, recording


@stories("https://github.com/shenweichen/DeepCTR-Torch/issues/69", "freed", help="into the loop")
def a_penalty_of_the_weights_computed_once() -> Diagnosed:
    model = nn.Linear(2, 1)
    with record() as recording:
        penalty = 0.1 * model.weight.square().sum()  # here
        for batch in torch.rand(2, 1, 2):
            loss = model(batch).sum() + penalty
            if diagnose(loss).ok:
                loss.backward()  # here
    return loss, model, recording


@stories("https://github.com/jeshraghian/snntorch/issues/250", "freed", help=".detach()")
def the_potential_of_a_spiking_layer_that_is_never_reset() -> Diagnosed:
    class Leaky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.potential = nn.Linear(2, 2), torch.zeros(2)

        def forward(self, x: torch.Tensor) -> Any:
            self.potential = 0.9 * self.potential + self.linear(x)  # here
            return self.potential.sigmoid()

    model = Leaky()
    with record() as recording:
        for batch in torch.rand(2, 2):
            loss = model(batch).square().sum()
            if diagnose(loss).ok:
                loss.backward()
    return loss, model, recording


@stories("https://github.com/nikhilbarhate99/PPO-PyTorch/issues/18", "freed", help=".detach()")
def old_log_probabilities_of_a_ratio_that_keep_their_graph() -> Diagnosed:
    policy = nn.Linear(3, 1)
    states = torch.rand(4, 3)
    with record() as recording:
        old = policy(states).square()  # here
        for _ in range(2):
            loss = -(policy(states).square() - old).exp().mean()
            if diagnose(loss).ok:
                loss.backward()  # here
    return loss, {"policy": policy}, recording


@stories("", "freed", help="fills no `.grad`")
def gradients_that_autograd_grad_has_returned() -> Diagnosed:
    model = nn.Linear(2, 1)
    with record() as recording:
        loss = model(torch.ones(2)).square().sum()
        torch.autograd.grad(loss, [*model.parameters()])  # here
    return loss, model, recording


@stories("", "freed", help="create_graph=True")
def a_slope_of_the_outputs_without_create_graph() -> Diagnosed:
    network = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.rand(4, 1, requires_grad=True)
    with record() as recording:
        u = network(x)
        (slope,) = torch.autograd.grad(u.sum(), x)  # here
        loss = (u - 1).square().mean() + slope.square().mean()
    return loss, network, recording


@stories("", "freed")
def retain_grad_called_after_the_backward() -> Diagnosed:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    with record() as recording:
        hidden = model[0](torch.ones(2))
        loss = model[1](hidden.tanh()).square().sum()
        loss.backward()  # here
        hidden.retain_grad()
    return loss, {"hidden": hidden}, recording


@stories("", "freed", help="`inputs=`")
def a_backward_for_some_inputs_alone() -> Diagnosed:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    with record() as recording:
        loss = model(torch.ones(2)).square().sum()
        loss.backward(inputs=[*model[1].parameters()])  # here
    return loss, model, recording


@pytest.mark.parametrize("story", stories, ids=lambda story: story.program.__name__)
def test_report_names_the_cause_and_its_fix_works(story: Story) -> None:
    check(story)
