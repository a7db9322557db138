"""A second backward through a graph that the first one freed."""

from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import diagnose, record
from tests.stories.telling import Stories, Story, assert_told

stories = Stories()


@stories(
    "https://github.com/Eurus-Holmes/MNMT/issues/7",
    cause=("freed", "backward"),
    cure="retain_graph=True",
)
def one_loss_run_backward_twice() -> object:
    model = nn.Linear(2, 1)
    with record() as recording:
        loss = model(torch.ones(2)).square().sum()
        loss.backward()  # here
    return diagnose(loss, model, recording=recording)


@stories(
    "https://github.com/MorvanZhou/PyTorch-Tutorial/issues/57",
    cause=("freed", "again|carried"),
    cure=r"detach\(\)",
)
def a_hidden_state_carried_from_batch_to_batch() -> object:
    cell, state = nn.RNNCell(2, 3), torch.zeros(1, 3)
    with record() as recording:
        for batch in torch.rand(2, 1, 2):
            state = cell(batch, state)  # here
            loss = state.square().sum()
            if batch is not None and diagnose(loss).ok:
                loss.backward()
    return diagnose(loss, cell, recording=recording)


@stories(
    "https://github.com/sgadgil6/cnslab_fmri/issues/4",
    cause=("freed", "again|carried"),
    cure=r"detach\(\)",
)
def the_state_of_an_lstm_kept_on_the_module() -> object:
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
    return diagnose(loss, model, recording=recording)


@stories(
    "https://github.com/tamarott/SinGAN/issues/148",
    cause="freed",
    name=r"\bG\b",
    cure=r"detach\(\)",
)
def a_fake_batch_that_is_not_detached() -> object:
    both = nn.ModuleDict(
        {"G": nn.Sequential(nn.Linear(2, 2), nn.Tanh()), "D": nn.Sequential(nn.Linear(2, 1))}
    )
    with record() as recording:
        fake = both["G"](torch.rand(4, 2))  # here
        both["D"](fake).mean().backward()  # here
        loss = -both["D"](fake).mean()
    return diagnose(loss, both, recording=recording)


@stories(
    "https://discuss.pytorch.org/t/backpropagation-graph-is-reused-while-it-shouldnt/24554",
    cause=("freed", "again"),
    cure=r"into the loop",
)
def a_value_computed_before_the_loop() -> object:
    t = torch.eye(2, requires_grad=True)
    a = torch.ones(2, requires_grad=True)
    with record() as recording:
        y = t @ a  # here
        for _ in range(2):
            loss = (t @ (torch.ones(2) + y)).square().sum()
            if diagnose(loss).ok:
                loss.backward()  # here
    return diagnose(loss, {"t": t, "a": a}, recording=recording)


@stories(
    "https://github.com/pytorch/pytorch/issues/17568",
    cause="freed",
    cure=r"item\(\)|detach\(\)",
)
def a_running_total_that_is_run_backward() -> object:
    w = nn.Parameter(torch.tensor(2.0))
    total = torch.zeros(())
    with record() as recording:
        for x in (1.0, 2.0):
            total = total + (w * x) ** 2  # here
            if diagnose(total).ok:
                total.backward()
    return diagnose(total, {"w": w}, recording=recording)


@stories(
    "https://discuss.pytorch.org/t/pytorch-runtimeerror-trying-to-backward-through-the-graph-a-second-time/191396",
    cause=("freed", "backward"),
    cure=r"detach\(\)",
)
def an_advantage_that_keeps_the_graph_of_the_critic() -> object:
    both = nn.ModuleDict({"actor": nn.Linear(3, 1), "critic": nn.Linear(3, 1)})
    state = torch.ones(1, 3)
    with record() as recording:
        value = both["critic"](state).square()  # here
        value.square().mean().backward()
        loss = -(both["actor"](state) * (1.0 - value)).mean()
    return diagnose(loss, both, recording=recording)


@stories(
    "https://github.com/naver-ai/StyleMapGAN/issues/16",
    cause=("freed", "backward"),
    cure=r"retain_graph=True|\(loss_1 \+ loss_2\)\.backward\(\)|add",
)
def two_losses_of_one_network_run_backward_in_turn() -> object:
    trunk, first, second = nn.Linear(2, 2), nn.Linear(2, 1), nn.Linear(2, 1)
    with record() as recording:
        hidden = trunk(torch.ones(1, 2)).tanh()  # here
        first(hidden).square().sum().backward()
        loss = second(hidden).square().sum()
    return diagnose(loss, recording=recording)


@stories(
    "https://github.com/shenweichen/DeepCTR-Torch/issues/69",
    cause=("freed", "again"),
    cure="into the loop",
)
def a_penalty_of_the_weights_computed_once() -> object:
    model = nn.Linear(2, 1)
    with record() as recording:
        penalty = 0.1 * model.weight.square().sum()  # here
        for batch in torch.rand(2, 1, 2):
            loss = model(batch).sum() + penalty
            if diagnose(loss).ok:
                loss.backward()  # here
    return diagnose(loss, model, recording=recording)


@stories(
    "https://github.com/jeshraghian/snntorch/issues/250",
    cause=("freed", "again|carried"),
    cure=r"detach\(\)",
)
def the_potential_of_a_spiking_layer_that_is_never_reset() -> object:
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
    return diagnose(loss, model, recording=recording)


@stories(
    "https://github.com/nikhilbarhate99/PPO-PyTorch/issues/18",
    cause=("freed", "backward"),
    cure=r"detach\(\)",
)
def old_log_probabilities_of_a_ratio_that_keep_their_graph() -> object:
    policy = nn.Linear(3, 1)
    states = torch.rand(4, 3)
    with record() as recording:
        old = policy(states).square()  # here
        for _ in range(2):
            loss = -(policy(states).square() - old).exp().mean()
            if diagnose(loss).ok:
                loss.backward()  # here
    return diagnose(loss, {"policy": policy}, recording=recording)


@stories(
    "",
    cause=("freed", r"autograd\.grad\(\)"),
    cure="create_graph=True",
    never=r"into the loop|state\.detach\(\)",
)
def a_slope_of_the_outputs_without_create_graph() -> object:
    network = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.rand(4, 1, requires_grad=True)
    with record() as recording:
        u = network(x)
        (slope,) = torch.autograd.grad(u.sum(), x)  # here
        loss = (u - 1).square().mean() + slope.square().mean()
    return diagnose(loss, network, recording=recording)


@pytest.mark.parametrize("story", stories, ids=lambda story: story.title)
def test_the_story_is_explained(story: Story) -> None:
    assert_told(story)
