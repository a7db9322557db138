"""Writes into what backward needs."""

from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import diagnose, record
from tests.stories.telling import Stories, Story, assert_told

EACH_SLOT_CAN_BE_ASKED = hasattr(torch._C._autograd.SavedTensor, "unpack")

stories = Stories()


@stories(
    "https://github.com/pytorch/pytorch/issues/39141",
    cause="step|add_",
    name=r"D\.2\.weight",
    cure=r"after the last `backward\(\)`",
)
def the_step_of_the_discriminator_before_the_backward_of_the_generator() -> object:
    both = nn.ModuleDict(
        {
            "G": nn.Linear(2, 2),
            "D": nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)),
        }
    )
    optimizer = torch.optim.SGD(both["D"].parameters(), lr=0.1)
    with record() as recording:
        fake = both["G"](torch.rand(4, 2))
        verdict = both["D"](fake)  # here
        loss_d, loss_g = verdict.square().mean(), -verdict.mean()
        loss_d.backward(retain_graph=True)
        optimizer.step()  # here
    return diagnose(loss_g, both, recording=recording)


@stories(
    "https://github.com/chojw/genb/issues/6",
    cause="step|addcdiv_",
    name=r"critic\.weight",
    cure=r"after the last `backward\(\)`",
)
def actor_and_critic_that_step_in_turn() -> object:
    both = nn.ModuleDict({"actor": nn.Linear(3, 2), "critic": nn.Linear(2, 1)})
    optimizer = torch.optim.Adam(both["critic"].parameters())
    with record() as recording:
        action = both["actor"](torch.ones(1, 3))
        value = both["critic"](action)  # here
        (value - 1).square().mean().backward(retain_graph=True)
        optimizer.step()  # here
        loss = -value.mean()
    return diagnose(loss, both, recording=recording)


@stories(
    "https://github.com/pytorch/pytorch/issues/9391",
    cause=("in-place", "SigmoidBackward0", "__setitem__"),
    cure=r"clone\(\)",
)
def an_entry_set_in_the_result_of_a_sigmoid() -> object:
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with record() as recording:
        b = a.sigmoid()  # here
        b[1] = 2  # here
        loss = b.sum()
    return diagnose(loss, {"a": a}, recording=recording)


@stories(
    "https://github.com/iMED-Lab/ER-Net/pull/3",
    cause=("ReluBackward0", r"\+=|add_"),
    cure=r"= .* \+ |out = out \+",
)
def a_residual_added_to_the_result_of_a_relu() -> object:
    w = nn.Parameter(torch.ones(3))
    with record() as recording:
        out = (2 * w).relu()  # here
        out += torch.ones(3)  # here
        loss = out.sum()
    return diagnose(loss, {"w": w}, recording=recording)


@stories(
    "https://github.com/osmr/imgclsmob/issues/13",
    cause=("relu", "TanhBackward0"),
    cure="inplace=False",
)
def a_relu_in_place_behind_a_tanh() -> object:
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.ReLU(inplace=True))
    with record() as recording:
        loss = model(torch.ones(1, 2)).sum()  # here
    return diagnose(loss, model, recording=recording)


@stories(
    "https://github.com/bayesiains/nflows/issues/89",
    cause=("ExpBackward0", r"mul_"),
    cure=r"= .* \* |without the underscore|mul\(\)|clone\(\)",
)
def a_saved_result_scaled_in_place() -> object:
    w = nn.Parameter(torch.ones(3))
    with record() as recording:
        y = w.exp()  # here
        y.mul_(2)  # here
        loss = y.sum()
    return diagnose(loss, {"w": w}, recording=recording)


@stories(
    "https://github.com/pytorch/pytorch/issues/165621",
    cause=("__setitem__|item",),
    cure=r"torch\.stack\(",
)
def states_written_into_one_tensor_step_by_step() -> object:
    cell = nn.Linear(2, 2)
    states = torch.zeros(4, 2)
    with record() as recording:
        for step in range(3):
            states[step + 1] = cell(states[step])  # here
        loss = states.sum()
    return diagnose(loss, cell, recording=recording)


@stories(
    "https://github.com/pytorch/pytorch/issues/22095",
    cause="_foreach_mul_",
    name="running",
    cure=r"broadcast_buffers=False|clone\(\)",
)
def a_buffer_written_by_a_second_forward() -> object:
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
    return diagnose(loss, model, recording=recording)


@stories(
    "https://github.com/RobinLu1209/ST-GFSL/issues/3",
    cause="copy_|load_state_dict",
    name=r"1\.weight",
    cure=r"after .*backward|functional_call",
)
def weights_loaded_between_forward_and_backward() -> object:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    before = {name: one.detach().clone() for name, one in model.state_dict().items()}
    with record() as recording:
        loss = model(torch.ones(1, 2)).sum()  # here
        model.load_state_dict(before)  # here
    return diagnose(loss, model, recording=recording)


@stories(
    "",
    cause="sub_|-=",
    name=r"1\.weight",
    cure=r"after .*backward|before .*",
)
def weights_updated_by_hand_before_a_second_loss() -> object:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    with record() as recording:
        hidden = model(torch.ones(1, 2))  # here
        first, loss = hidden.square().sum(), hidden.sum()
        first.backward(retain_graph=True)
        with torch.no_grad():
            for one in model.parameters():
                one.sub_(0.1 * (one.grad if one.grad is not None else 0.0))  # here
    return diagnose(loss, model, recording=recording)


@stories(
    "https://github.com/pytorch/pytorch/issues/39141",
    cause="step|addcdiv_",
    name="D",
    cure=r"after the last `backward\(\)`",
    long=r"And \d+ other conflicts",
)
def a_deep_discriminator_stepped_too_early() -> object:
    layers = [layer for _ in range(12) for layer in (nn.Linear(2, 2), nn.Tanh())]
    both = nn.ModuleDict({"G": nn.Linear(2, 2), "D": nn.Sequential(*layers)})
    optimizer = torch.optim.Adam(both["D"].parameters())
    with record() as recording:
        verdict = both["D"](both["G"](torch.rand(4, 2)))
        verdict.square().mean().backward(retain_graph=True)
        optimizer.step()  # here
        loss = -verdict.mean()
    return diagnose(loss, both, recording=recording)


@stories(
    "https://github.com/pytorch/pytorch/issues/39150",
    cause=("leaf", "write in place"),
    cure="name of its own|no_grad",
)
def a_leaf_moved_into_the_graph() -> object:
    x, scale = (torch.ones(2, requires_grad=True) for _ in range(2))
    loss = x.exp().sum()
    x.requires_grad_(False)
    x.mul_(scale)
    return diagnose(loss, {"x": x})


@stories(
    "https://github.com/pytorch/pytorch/issues/30458",
    cause=("detach_",),
    cure=r"detach\(\)",
)
def a_state_detached_in_place() -> object:
    w = nn.Parameter(torch.ones(3))
    state = 2 * w
    loss = state.sin().sum()
    state.detach_()
    return diagnose(loss, {"w": w})


@stories(
    "https://github.com/pytorch/pytorch/issues/26596",
    cause=("embedding", "max_norm"),
    name="weight",
    cure=r"clone\(\)|max_norm",
)
def an_embedding_that_keeps_its_norms_small() -> object:
    table = nn.Embedding(3, 5, max_norm=1.0)
    w = torch.rand(7, 5, requires_grad=True)
    with record() as recording:
        a = table.weight @ w.t()  # here
        b = table(torch.tensor([1, 2])) @ w.t()  # here
        loss = (a.sum() + b.sum()).sigmoid()
    return diagnose(loss, table, recording=recording)


@stories(
    "https://github.com/vikrant7/mobile-vod-bottleneck-lstm/issues/25",
    cause=("step|add_", "carried|before"),
    name="weight",
    cure=r"detach\(\)",
)
def a_state_carried_over_an_optimizer_step() -> object:
    cell, state = nn.RNNCell(2, 3), torch.zeros(1, 3)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
    with record() as recording:
        for batch in torch.rand(3, 1, 2):
            state = cell(batch, state)  # here
            loss = state.square().sum()
            if diagnose(loss).ok:
                loss.backward(retain_graph=True)
                optimizer.step()  # here
    return diagnose(loss, cell, recording=recording)


@pytest.mark.parametrize("story", stories, ids=lambda story: story.title)
def test_the_story_is_explained(story: Story) -> None:
    if story.tell is a_state_detached_in_place and not EACH_SLOT_CAN_BE_ASKED:
        pytest.skip("PyTorch does not show it")
    assert_told(story)
