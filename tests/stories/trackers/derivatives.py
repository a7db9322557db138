"""Losses with derivatives in them: gradient penalties, inner loops, residuals, zero gradients."""

# Programs as users write them: their types are not the point.
# mypy: ignore-errors

import torch
from torch import nn
from torch.nn import functional

from tests.stories.training import Record, Stories, Training

stories = Stories()


@stories(
    "missing by create-graph in penalty: weight",
    culprit="torch.autograd.grad(risk, [*net.parameters()], retain_graph=True)",
    repair={"retain_graph=True": "create_graph=True"},
)
def the_variance_of_gradients_is_a_constant(record: Record) -> Training:
    """A penalty on how much the gradients of several domains differ had no effect.

    `create_graph=True` was missing; the other term of the loss hid that.

    https://github.com/facebookresearch/DomainBed/issues/50
    """
    net, x, y = nn.Linear(4, 1), torch.randn(2, 6, 4), torch.randn(2, 6, 1)
    with record():
        risks = [functional.mse_loss(net(a), b) for a, b in zip(x, y, strict=True)]
        grads = [
            torch.cat(
                [
                    g.flatten()
                    for g in torch.autograd.grad(risk, [*net.parameters()], retain_graph=True)
                ]
            )
            for risk in risks
        ]
        penalty = torch.stack(grads).var(0).sum()
        loss = {"erm": torch.stack(risks).mean(), "penalty": penalty}
    return Training(loss, net)


@stories(
    "missing by create-graph: 0.weight 2.weight",
    culprit="torch.autograd.grad((images * noise).sum(), latents)",
    repair={".sum(), latents)": ".sum(), latents, create_graph=True)"},
)
def a_path_length_penalty_has_no_graph(record: Record) -> Training:
    """The path length regularization of StyleGAN2 was written again by hand.

    Its gradient was computed without `create_graph=True`: "does not require grad".

    https://github.com/rosinality/stylegan2-pytorch/issues/32
    """
    gen = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6))
    latents = torch.randn(4, 3, requires_grad=True)
    with record():
        images = gen(latents)
        noise = torch.randn(4, 6)
        (grad,) = torch.autograd.grad((images * noise).sum(), latents)
        lengths = grad.square().sum(1).sqrt()
        path_penalty = (lengths - 1).square().mean()
    return Training(path_penalty, gen)


@stories(
    "wrong by unused-result: weight",
    culprit=(
        "critic(fake).mean() - critic(real).mean()",
        "10 * (grad.norm(dim=1) - 1).square().mean()",
    ),
    repair={"critic(real).mean()": "critic(real).mean() + grad_penalty"},
)
def a_gradient_penalty_is_computed_and_not_added(record: Record) -> Training:
    """WGAN-GP in a collection of GANs computed the gradient penalty.

    Nobody added it to the loss of the critic.

    https://github.com/LixiangHan/GANs-for-1D-Signal/issues/7
    """
    critic = nn.Linear(3, 1, bias=False)
    real, fake = torch.randn(5, 3), torch.randn(5, 3)
    with record():
        mixed = (0.3 * real + 0.7 * fake).requires_grad_()
        (grad,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        grad_penalty = 10 * (grad.norm(dim=1) - 1).square().mean()
        loss_d = critic(fake).mean() - critic(real).mean()
    w, norm = critic.weight.detach(), critic.weight.detach().norm()
    right = (fake.mean(0) - real.mean(0)) + 20 * (norm - 1) * w / norm
    return Training(
        loss_d, critic, None, {"grad_penalty": grad_penalty}, gradients={"weight": right}
    )


@stories(
    "missing by create-graph: gate",
    culprit="torch.autograd.grad(inner, fast)",
    repair={"(inner, fast)": "(inner, fast, create_graph=True)"},
)
def a_gate_acts_only_through_the_inner_gradient(record: Record) -> Training:
    """A network learns to gate the updates of the inner loop.

    Without `create_graph=True` the inner gradients are constants, and so are the updates.

    https://github.com/uvm-neurobotics-lab/ANML/issues/3
    """
    weight, gate = nn.Parameter(torch.ones(3)), nn.Parameter(torch.full((3,), 0.5))
    x, query = torch.randn(3), torch.randn(3)
    with record():
        fast = weight * 1
        inner = (fast * gate * x).sum().square()
        (update,) = torch.autograd.grad(inner, fast)
        meta_loss = ((fast - 0.1 * update) * query).sum().square()
    return Training(meta_loss, nn.ParameterDict({"weight": weight, "gate": gate}))


@stories(
    "wrong by create-graph: w",
    culprit="torch.autograd.grad(inner, w)",
    repair={"(inner, w)": "(inner, w, create_graph=True)"},
)
def maml_is_only_of_first_order(record: Record) -> Training:
    """An implementation of MAML leaves out `create_graph=True`.

    A gradient arrives, but not that of the paper: its second-order part is missing.

    https://github.com/dragen1860/MAML-Pytorch/issues/63
    """
    w = nn.Parameter(torch.tensor(2.0))
    with record():
        inner = w**2
        (update,) = torch.autograd.grad(inner, w)
        meta_loss = (w - 0.1 * update) ** 2
    right = {"w": torch.tensor(2 * 0.8**2 * 2.0)}
    return Training(meta_loss, None, None, {"w": w}, gradients=right)


@stories(
    "raises by other-tensor: z",
    culprit=("torch.autograd.grad(c, z, create_graph=True)", "torch.cat((a, b), dim=1)"),
    repair={
        "        c = torch.matmul(a.t(), b)\n": "",
        "dim=1)": "dim=1); c = torch.matmul(z[:, :1].t(), z[:, 1:])",
    },
)
def a_gradient_is_wanted_for_a_concatenation_made_later(record: Record) -> Training:
    """Two inputs were joined, and the gradient was wanted for both at once.

    The result had been computed from the two inputs, not from the joined tensor.

    https://github.com/pytorch/pytorch/issues/20663
    """
    a, b = (torch.randn(3, 1, requires_grad=True) for _ in range(2))
    with record():
        c = torch.matmul(a.t(), b)
        z = torch.cat((a, b), dim=1)
        (grad,) = torch.autograd.grad(c, z, create_graph=True)
        loss = grad.square().sum()
    return Training(loss, None, None, {"a": a, "b": b})


@stories(
    "zero by straight-through in second: encoder.weight",
    culprit=("x - first", "x + (codes[0] - x).detach()"),
    repair={"x - first": "x - first.detach()"},
)
def the_second_quantizer_gives_no_gradient(record: Record) -> Training:
    """A residual quantizer quantizes what the first one left.

    The straight-through output has gradient 1 to `x`, so the residual has gradient 0.

    https://github.com/facebookresearch/encodec/issues/25
    """
    net = nn.ModuleDict({"encoder": nn.Linear(4, 3)})
    codes = torch.randn(2, 3)
    with record():
        x = net["encoder"](torch.randn(5, 4))
        first = x + (codes[0] - x).detach()
        residual = x - first
        commit = {
            "first": functional.mse_loss(x, codes[0].expand(5, 3)),
            "second": functional.mse_loss(residual, codes[1].expand(5, 3)),
        }
    return Training(commit, net)


@stories(
    "zero by zero-init-twice: 2.weight",
    culprit=("nn.init.zeros_(gate[0].weight)", "nn.init.zeros_(gate[2].weight)"),
    repair={"    nn.init.zeros_(gate[0].weight)\n": ""},
)
def both_layers_of_a_gate_start_at_zero(record: Record) -> Training:
    """A gate of two layers was initialized to zero, both of them.

    One zero layer is learned from; with two, each makes the gradient of the other zero.

    https://github.com/yz93/LAVT-RIS/issues/25
    """
    gate = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 4, bias=False))
    nn.init.zeros_(gate[0].weight)
    nn.init.zeros_(gate[2].weight)
    with record():
        x = torch.randn(3, 4)
        loss = (x + gate(x).tanh() * x).square().mean()
    return Training(loss, gate)


@stories(
    "zero by constant-objective: weight bias",
    culprit="rewards - rewards.mean()",
    repair={"torch.ones(4)": "torch.tensor([1.0, 0.0, 1.0, 0.0])"},
)
def all_answers_of_a_group_get_the_same_reward(record: Record) -> Training:
    """GRPO compares the rewards of several answers to one question.

    They were all equal, so every advantage was 0, and loss and gradient too.

    https://github.com/modelscope/ms-swift/issues/4570
    """
    policy, rewards = nn.Linear(4, 3), torch.ones(4)
    with record():
        log_probs = policy(torch.randn(4, 4)).log_softmax(1)[:, 0]
        advantages = rewards - rewards.mean()
        loss = -((log_probs - log_probs.detach()).exp() * advantages).mean()
    return Training(loss, policy)


@stories(
    "zero by clamp: weight bias",
    culprit="image.clamp(0, 1)",
    repair={"image.clamp(0, 1)": "image"},
)
def a_rendered_image_is_clamped_in_training(record: Record) -> Training:
    """The renderer clamps colors to the range from 0 to 1.

    With another module in front, all colors were too bright and nothing was learned.

    https://github.com/graphdeco-inria/gaussian-splatting/issues/1046
    """
    model = nn.Linear(4, 3)
    nn.init.constant_(model.bias, 5.0)
    with record():
        image = model(torch.rand(6, 4))
        rendered = image.clamp(0, 1)
        loss = (rendered - 0.5).abs().mean()
    return Training(loss, model)


@stories(
    "raises by autograd-in-vmap: w",
    culprit=("torch.autograd.grad(energy(x), x, create_graph=True)", "torch.vmap(force)"),
    repair={
        "torch.autograd.grad(energy(x), x, create_graph=True)[0]": "torch.func.grad(energy)(x)"
    },
)
def autograd_is_called_inside_vmap(record: Record) -> Training:
    """A function that calls `torch.autograd.grad` was batched with `vmap`.

    Inside `vmap`, the input does not require grad; `torch.func.grad` works there.

    https://github.com/pytorch/pytorch/issues/158610
    """
    w, points = nn.Parameter(torch.ones(3)), torch.randn(5, 3, requires_grad=True)

    def energy(x: torch.Tensor) -> torch.Tensor:
        return (w * x.sin()).sum()

    def force(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(energy(x), x, create_graph=True)[0]

    with record():
        loss = torch.vmap(force)(points).square().mean()
    return Training(loss, None, None, {"w": w})
