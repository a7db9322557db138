"""Programs that train as they should: a report must find no error in them.

Many do on purpose what is a mistake elsewhere. They start a gate or a learning rate at zero,
detach targets, freeze parameters, or have a loss of zero for a batch.
"""

# Programs as users write them: their types are not the point.
# mypy: ignore-errors

import copy
import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.stories.training import Program, Record, Training, join_group_of_one

healthy: list[Program] = []


def train(
    record: Record, optimizer: torch.optim.Optimizer, forward: Callable[[], Any], after: Any = None
) -> Any:
    """Run three training steps and return the loss of the next one.

    `after` is called after each step.
    """
    with record():
        for _ in range(3):
            optimizer.zero_grad()
            loss = forward()
            (sum(loss.values()) if isinstance(loss, Mapping) else loss).backward()
            optimizer.step()
            if after:
                after()
        optimizer.zero_grad()
        return forward()


def mlp(*sizes: int) -> nn.Sequential:
    """Return a network of linear layers with tanh between them."""
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


def sgd(*modules: nn.Module) -> torch.optim.Optimizer:
    """Return an SGD optimizer of some parameters."""
    params = [p for module in modules for p in module.parameters() if p.requires_grad]
    return torch.optim.SGD(params, lr=0.05)


@healthy.append
def a_plain_loop_of_a_classifier(record: Record) -> Training:
    model, x, y = mlp(4, 8, 3), torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(4):
        with record():
            loss = functional.cross_entropy(model(x), y)
        if step < 3:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    optimizer.zero_grad()
    return Training(loss, model, optimizer)


@healthy.append
def a_regression_with_columns(record: Record) -> Training:
    model, x, y = nn.Linear(4, 1), torch.randn(6, 4), torch.randn(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-2)
    loss = train(record, optimizer, lambda: functional.mse_loss(model(x), y))
    return Training(loss, model, optimizer)


@healthy.append
def a_regression_that_broadcasts_one_target(record: Record) -> Training:
    model, x = nn.Linear(4, 3), torch.randn(6, 4)
    optimizer, target = sgd(model), torch.tensor([1.0, 2.0, 3.0])
    loss = train(record, optimizer, lambda: (model(x) - target).square().mean())
    return Training(loss, model, optimizer)


@healthy.append
def a_frozen_backbone(record: Record) -> Training:
    model, x = nn.ModuleDict({"backbone": mlp(4, 8), "head": nn.Linear(8, 1)}), torch.randn(6, 4)
    model["backbone"].requires_grad_(False)
    optimizer = sgd(model)
    loss = train(record, optimizer, lambda: model["head"](model["backbone"](x)).square().mean())
    return Training(loss, model, optimizer)


@healthy.append
def a_frozen_backbone_under_no_grad(record: Record) -> Training:
    model, x = nn.ModuleDict({"backbone": mlp(4, 8), "head": nn.Linear(8, 1)}), torch.randn(6, 4)
    model["backbone"].eval().requires_grad_(False)
    optimizer = sgd(model["head"])

    def forward() -> Any:
        with torch.no_grad():
            features = model["backbone"](x)
        return model["head"](features).square().mean()

    return Training(train(record, optimizer, forward), model, optimizer)


@healthy.append
def a_lora_adapter_at_its_start(record: Record) -> Training:
    model = nn.ModuleDict({name: nn.Linear(4, 4, bias=False) for name in ("base", "a", "b")})
    nn.init.zeros_(model["b"].weight)
    model["base"].requires_grad_(False)
    optimizer, x = sgd(model), torch.randn(6, 4)
    forward = lambda: (model["base"](x) + model["b"](model["a"](x))).square().mean()  # noqa: E731
    return Training(train(record, optimizer, forward), model, optimizer)


@healthy.append
def a_lora_adapter_before_its_first_step(record: Record) -> Training:
    model = nn.ModuleDict({name: nn.Linear(4, 4, bias=False) for name in ("base", "a", "b")})
    nn.init.zeros_(model["b"].weight)
    model["base"].requires_grad_(False)
    optimizer, x = sgd(model), torch.randn(6, 4)
    with record():
        loss = (model["base"](x) + model["b"](model["a"](x))).square().mean()
    return Training(loss, model, optimizer)


class Gated(nn.Module):
    """A residual block with a gate, and the value at which the gate starts."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.block, self.gate = nn.Linear(4, 4), nn.Parameter(torch.full((), start))

    def forward(self, x: Any) -> Any:
        return x + self.gate * self.block(x).tanh()


@healthy.append
def gates_that_start_at_zero(record: Record) -> Training:
    model, x = nn.Sequential(Gated(0.0), Gated(0.0), nn.Linear(4, 1)), torch.randn(6, 4)
    optimizer = sgd(model)
    with record():
        loss = model(x).square().mean()
    return Training(loss, model, optimizer)


@healthy.append
def gates_that_start_nearly_at_zero(record: Record) -> Training:
    model, x = nn.Sequential(Gated(1e-4), Gated(1e-4), nn.Linear(4, 1)), torch.randn(6, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss = train(record, optimizer, lambda: model(x).square().mean())
    return Training(loss, model, optimizer)


@healthy.append
def an_adaptive_norm_that_starts_at_zero(record: Record) -> Training:
    model = nn.ModuleDict({"block": nn.Linear(4, 4), "condition": nn.Linear(2, 12)})
    nn.init.zeros_(model["condition"].weight)
    nn.init.zeros_(model["condition"].bias)
    optimizer, x, c = sgd(model), torch.randn(6, 4), torch.randn(6, 2)

    def forward() -> Any:
        shift, scale, gate = model["condition"](c).chunk(3, 1)
        h = functional.layer_norm(x, (4,)) * (1 + scale) + shift
        return (x + gate * model["block"](h)).square().mean()

    return Training(train(record, optimizer, forward), model, optimizer)


@healthy.append
def a_residual_norm_whose_weight_starts_at_zero(record: Record) -> Training:
    model, x = (
        nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2)),
        torch.randn(4, 2, 5, 5),
    )
    nn.init.zeros_(model[1].weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record():
        loss = (x + model(x)).relu().square().mean()
    return Training(loss, model, optimizer)


@healthy.append
def an_output_layer_that_starts_at_zero(record: Record) -> Training:
    model, x, y = mlp(4, 8, 1), torch.randn(6, 4), torch.randn(6, 1)
    nn.init.zeros_(model[2].weight)
    optimizer = sgd(model)
    with record():
        loss = functional.mse_loss(model(x), y)
    return Training(loss, model, optimizer)


@healthy.append
def a_gan_in_its_generator_step(record: Record) -> Training:
    gen, disc, real = mlp(2, 8, 2), mlp(2, 8, 1), torch.randn(6, 2)
    opt_g, opt_d = torch.optim.Adam(gen.parameters()), torch.optim.Adam(disc.parameters())
    bce, one, zero = nn.BCEWithLogitsLoss(), torch.ones(6, 1), torch.zeros(6, 1)
    for step in range(3):
        with record():
            fake = gen(torch.randn(6, 2))
            opt_d.zero_grad()
            d_loss = bce(disc(real), one) + bce(disc(fake.detach()), zero)
            d_loss.backward()
            opt_d.step()
            opt_g.zero_grad()
            g_loss = bce(disc(fake), one)
            if step < 2:
                g_loss.backward()
                opt_g.step()
    return Training(g_loss, gen, opt_g)


@healthy.append
def gradients_accumulated_over_microbatches(record: Record) -> Training:
    model, data = mlp(4, 8, 1), torch.randn(8, 3, 4)
    optimizer = sgd(model)
    optimizer.zero_grad()
    with record():
        for number, x in enumerate(data, 1):
            loss = model(x).square().mean() / 4
            if number == len(data):
                break
            loss.backward()
            if number % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
    return Training(loss, model, optimizer)


@healthy.append
def a_student_and_its_moving_average(record: Record) -> Training:
    student, x = mlp(4, 8, 2), torch.randn(6, 4)
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = sgd(student)

    @torch.no_grad()
    def average() -> None:
        for ours, theirs in zip(teacher.parameters(), student.parameters(), strict=True):
            ours.lerp_(theirs, 0.1)

    noisy = lambda: functional.mse_loss(student(x + torch.randn(6, 4)), teacher(x))  # noqa: E731
    return Training(train(record, optimizer, noisy, average), student, optimizer)


@healthy.append
def a_target_that_is_detached(record: Record) -> Training:
    net = nn.ModuleDict({"online": mlp(4, 8, 2), "predictor": nn.Linear(2, 2)})
    optimizer, a, b = sgd(net), torch.randn(6, 4), torch.randn(6, 4)

    def forward() -> Any:
        target = net["online"](b).detach()
        return -functional.cosine_similarity(net["predictor"](net["online"](a)), target).mean()

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def a_vector_quantizer_with_a_straight_through_estimator(record: Record) -> Training:
    net = nn.ModuleDict({"enc": mlp(4, 2), "codes": nn.Embedding(2, 2), "dec": mlp(2, 4)})
    optimizer, x = sgd(net), torch.randn(12, 4)

    def forward() -> Any:
        z = net["enc"](x)
        q = net["codes"](torch.cdist(z, net["codes"].weight).argmin(1))
        commitment = functional.mse_loss(z, q.detach()) + functional.mse_loss(q, z.detach())
        return functional.mse_loss(net["dec"](z + (q - z).detach()), x) + commitment

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def a_hard_gumbel_softmax(record: Record) -> Training:
    net, x, values = mlp(4, 8, 3), torch.randn(6, 4), torch.randn(3)
    optimizer = sgd(net)
    pick = lambda: functional.gumbel_softmax(net(x), hard=True) @ values  # noqa: E731
    loss = train(record, optimizer, lambda: pick().square().mean())
    return Training(loss, net, optimizer)


@healthy.append
def fake_quantization_with_a_straight_through_estimator(record: Record) -> Training:
    net, x = nn.Linear(4, 3), torch.randn(6, 4)
    optimizer = sgd(net)

    def forward() -> Any:
        w = net.weight
        quantized = w + ((w * 8).round() / 8 - w).detach()
        return functional.linear(x, quantized, net.bias).square().mean()

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def a_clipped_policy_gradient(record: Record) -> Training:
    net = nn.ModuleDict({"actor": mlp(4, 8, 2), "critic": mlp(4, 8, 1)})
    states, rewards, optimizer = torch.randn(16, 4), torch.randn(16), sgd(net)
    with torch.no_grad():
        old = torch.distributions.Categorical(logits=net["actor"](states))
        actions = old.sample()
        advantage = rewards - net["critic"](states)[:, 0]
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)

    def forward() -> Any:
        now = torch.distributions.Categorical(logits=net["actor"](states))
        ratio = (now.log_prob(actions) - old.log_prob(actions)).exp()
        policy = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        value = functional.mse_loss(net["critic"](states)[:, 0], rewards)
        return policy + 0.5 * value - 0.01 * now.entropy().mean()

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def reinforce_with_a_sampled_action(record: Record) -> Training:
    policy, states = mlp(4, 8, 3), torch.randn(8, 4)
    optimizer = sgd(policy)

    def forward() -> Any:
        distribution = torch.distributions.Categorical(logits=policy(states))
        action = distribution.sample()
        reward = (action == 1).float() + 0.1
        return -(distribution.log_prob(action) * (reward - reward.mean())).mean()

    return Training(train(record, optimizer, forward), policy, optimizer)


@healthy.append
def a_q_network_with_a_target_network(record: Record) -> Training:
    net, states = mlp(4, 8, 2), torch.randn(8, 4)
    target_net, optimizer = copy.deepcopy(net), sgd(net)

    def forward() -> Any:
        with torch.no_grad():
            target = torch.ones(8) + 0.9 * target_net(states.flip(0)).amax(1)
        return functional.smooth_l1_loss(net(states)[:, 0], target)

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def the_heat_equation(record: Record) -> Training:
    net = mlp(2, 8, 8, 1)
    optimizer = torch.optim.Adam(net.parameters())

    def grad(y: Any, x: Any) -> Any:
        return torch.autograd.grad(y.sum(), x, create_graph=True)[0]

    def forward() -> Any:
        t, x = torch.rand(2, 16, 1).requires_grad_()
        u = net(torch.cat([t, x], 1))
        start = net(torch.cat([torch.zeros(16, 1), x], 1)) - torch.sin(math.pi * x)
        residual = grad(u, t) - grad(grad(u, x), x)
        return {"pde": residual.square().mean(), "start": start.square().mean()}

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def an_energy_model_trained_on_forces(record: Record) -> Training:
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1, bias=False))
    optimizer, forces = sgd(net), torch.randn(6, 3)

    def forward() -> Any:
        positions = torch.randn(6, 3, requires_grad=True)
        (slope,) = torch.autograd.grad(net(positions).sum(), positions, create_graph=True)
        return functional.mse_loss(-slope, forces)

    return Training(train(record, optimizer, forward), net, optimizer)


class Block(nn.Module):
    """A block of a small language model."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.ln_1, self.ln_2, self.mlp = nn.LayerNorm(8), nn.LayerNorm(8), mlp(8, 16, 8)

    def forward(self, x: Any, mask: Any) -> Any:
        h = self.ln_1(x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


@healthy.append
def a_checkpointed_language_model_with_tied_weights(record: Record) -> Training:
    net = nn.ModuleDict({"embed": nn.Embedding(11, 8), "blocks": nn.ModuleList([Block(), Block()])})
    net["head"] = nn.Linear(8, 11, bias=False)
    net["head"].weight = net["embed"].weight
    tokens = torch.arange(22).reshape(2, 11) % 11
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    mask = nn.Transformer.generate_square_subsequent_mask(10)

    def forward() -> Any:
        x = net["embed"](tokens[:, :-1])
        for block in net["blocks"]:
            x = checkpoint(block, x, mask, use_reentrant=False)
        return functional.cross_entropy(net["head"](x).flatten(0, 1), tokens[:, 1:].flatten())

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def mixed_precision_in_bfloat16(record: Record) -> Training:
    net, x, y = mlp(4, 8, 1), torch.randn(6, 4), torch.randn(6, 1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)

    def forward() -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            prediction = net(x)
        return functional.mse_loss(prediction.float(), y)

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def a_scaled_loss_with_clipping(record: Record) -> Training:
    net, x = mlp(4, 8, 1), torch.randn(6, 4)
    optimizer, scaler = sgd(net), torch.amp.GradScaler("cpu", init_scale=256.0)
    for step in range(4):
        with record():
            optimizer.zero_grad()
            loss = net(x).square().mean()
            if step < 3:
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
    return Training(loss, net, optimizer)


@healthy.append
def lbfgs_with_a_closure(record: Record) -> Training:
    net, x, y = mlp(4, 8, 1), torch.randn(6, 4), torch.randn(6, 1)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3, line_search_fn="strong_wolfe")

    def closure() -> Any:
        optimizer.zero_grad()
        loss = functional.mse_loss(net(x), y)
        loss.backward()
        return loss

    with record():
        optimizer.step(closure)
        optimizer.step(closure)
        optimizer.zero_grad()
        loss = functional.mse_loss(net(x), y)
    return Training(loss, net, optimizer)


@healthy.append
def several_tasks_with_one_trunk(record: Record) -> Training:
    net = nn.ModuleDict({"trunk": mlp(4, 8), "depth": nn.Linear(8, 1), "label": nn.Linear(8, 3)})
    optimizer, x, y = sgd(net), torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])

    def forward() -> Any:
        h = net["trunk"](x).tanh()
        label = functional.cross_entropy(net["label"](h), y)
        return {"depth": net["depth"](h).square().mean(), "label": label}

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def tasks_weighted_by_their_uncertainty(record: Record) -> Training:
    net, x = mlp(4, 8, 2), torch.randn(6, 4)
    net.log_variance = nn.Parameter(torch.zeros(2))
    optimizer = sgd(net)

    def forward() -> Any:
        errors = functional.mse_loss(net(x), torch.ones(6, 2), reduction="none").mean(0)
        return (errors * (-net.log_variance).exp() + net.log_variance).sum()

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def a_recurrent_network_with_truncated_backpropagation(record: Record) -> Training:
    net = nn.ModuleDict({"lstm": nn.LSTM(3, 4, batch_first=True), "head": nn.Linear(4, 1)})
    optimizer, state = sgd(net), (torch.zeros(1, 2, 4), torch.zeros(1, 2, 4))
    with record():
        for number, x in enumerate(torch.randn(4, 2, 5, 3), 1):
            optimizer.zero_grad()
            h, state = net["lstm"](x, tuple(part.detach() for part in state))
            loss = net["head"](h).square().mean()
            if number < 4:
                loss.backward()
                optimizer.step()
    return Training(loss, net, optimizer)


@healthy.append
def packed_sequences_of_several_lengths(record: Record) -> Training:
    net, x = nn.GRU(3, 4, batch_first=True), torch.randn(3, 5, 3)
    optimizer = sgd(net)
    pack = lambda: nn.utils.rnn.pack_padded_sequence(x, [5, 3, 2], batch_first=True)  # noqa: E731
    loss = train(record, optimizer, lambda: net(pack())[1].square().mean())
    return Training(loss, net, optimizer)


@healthy.append
def a_contrastive_loss_with_a_learned_temperature(record: Record) -> Training:
    net = nn.ModuleDict({"image": mlp(4, 8, 3), "text": mlp(5, 8, 3)})
    net.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
    optimizer, images, texts = sgd(net), torch.randn(6, 4), torch.randn(6, 5)

    def forward() -> Any:
        a, b = functional.normalize(net["image"](images)), functional.normalize(net["text"](texts))
        logits, labels = net.logit_scale.exp() * a @ b.T, torch.arange(6)
        return functional.cross_entropy(logits, labels) + functional.cross_entropy(logits.T, labels)

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def a_hinge_loss_with_every_margin_kept(record: Record) -> Training:
    net, x = nn.Linear(2, 1), torch.tensor([[3.0, 0.0], [-3.0, 0.0]])
    net.weight.data = torch.tensor([[1.0, 0.0]])
    net.bias.data.zero_()
    optimizer, y = sgd(net), torch.tensor([[1.0], [-1.0]])
    loss = train(record, optimizer, lambda: (1 - y * net(x)).relu().mean())
    return Training(loss, net, optimizer)


@healthy.append
def a_triplet_loss_with_some_margins_kept(record: Record) -> Training:
    net, triplets = mlp(4, 8, 2), torch.randn(3, 8, 4)
    optimizer = sgd(net)
    loss = train(record, optimizer, lambda: functional.triplet_margin_loss(*net(triplets)))
    return Training(loss, net, optimizer)


@healthy.append
def gradients_of_each_sample_are_clipped(record: Record) -> Training:
    net, xs, ys = nn.Linear(4, 1), torch.randn(6, 4), torch.randn(6, 1)
    optimizer = sgd(net)

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        return functional.mse_loss(torch.func.functional_call(net, params, (x,)), y)

    for _ in range(3):
        with record():
            params = {name: p.detach() for name, p in net.named_parameters()}
            each = torch.func.vmap(torch.func.grad(loss_of), (None, 0, 0))(params, xs, ys)
            for name, p in net.named_parameters():
                p.grad = each[name].clamp(-1, 1).mean(0)
            optimizer.step()
            optimizer.zero_grad()
            loss = functional.mse_loss(net(xs), ys)
    return Training(loss, net, optimizer)


@healthy.append
def one_process_of_ddp(record: Record) -> Training:
    join_group_of_one()
    net, x = nn.parallel.DistributedDataParallel(mlp(4, 8, 1)), torch.randn(6, 4)
    optimizer = sgd(net)
    return Training(train(record, optimizer, lambda: net(x).square().mean()), net, optimizer)


@healthy.append
def a_gradient_penalty(record: Record) -> Training:
    critic, real, fake = mlp(2, 8, 1), torch.randn(6, 2), torch.randn(6, 2)
    optimizer = torch.optim.Adam(critic.parameters(), betas=(0.0, 0.9))

    def forward() -> Any:
        mixed = torch.lerp(real, fake, torch.rand(6, 1)).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = 10 * (slope.norm(dim=1) - 1).square().mean()
        return critic(fake).square().mean() - critic(real).mean() + penalty

    return Training(train(record, optimizer, forward), critic, optimizer)


@healthy.append
def an_inner_step_of_second_order(record: Record) -> Training:
    net, support, query = mlp(3, 8, 1), torch.randn(6, 3), torch.randn(6, 3)
    net.rate = nn.Parameter(torch.tensor(0.1))
    optimizer = sgd(net)

    def forward() -> Any:
        params = {name: p for name, p in net.named_parameters() if name != "rate"}
        inner = torch.func.functional_call(net, params, (support,)).square().mean()
        grads = torch.autograd.grad(inner, [*params.values()], create_graph=True)
        fast = {n: p - net.rate * g for (n, p), g in zip(params.items(), grads, strict=True)}
        return torch.func.functional_call(net, fast, (query,)).square().mean()

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def an_embedding_with_padding_and_unseen_words(record: Record) -> Training:
    net = nn.Sequential(nn.Embedding(9, 4, padding_idx=0), nn.Flatten(), nn.Linear(12, 1))
    optimizer, words = sgd(net), torch.tensor([[3, 1, 0], [2, 0, 0]])
    return Training(train(record, optimizer, lambda: net(words).square().mean()), net, optimizer)


@healthy.append
def labels_of_which_some_are_ignored(record: Record) -> Training:
    net, x, y = mlp(4, 8, 3), torch.randn(6, 4), torch.tensor([0, -100, 2, -100, 1, 0])
    optimizer = sgd(net)
    loss = train(record, optimizer, lambda: functional.cross_entropy(net(x), y))
    return Training(loss, net, optimizer)


@healthy.append
def dropout_and_relu(record: Record) -> Training:
    net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(32, 1))
    optimizer, x = sgd(net), torch.randn(16, 4)
    return Training(train(record, optimizer, lambda: net(x).square().mean()), net, optimizer)


@healthy.append
def fine_tuning_with_batch_norm_in_evaluation(record: Record) -> Training:
    net, x = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)), torch.randn(6, 4)
    net(x)
    net[1].eval()
    optimizer = sgd(net)
    return Training(train(record, optimizer, lambda: net(x).square().mean()), net, optimizer)


@healthy.append
def a_warmup_from_zero(record: Record) -> Training:
    net, x = mlp(4, 8, 1), torch.randn(6, 4)
    optimizer = sgd(net)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step / 3, 1))
    loss = train(record, optimizer, lambda: net(x).square().mean(), scheduler.step)
    return Training(loss, net, optimizer)


@healthy.append
def the_first_step_of_a_warmup_from_zero(record: Record) -> Training:
    net, x = mlp(4, 8, 1), torch.randn(6, 4)
    optimizer = sgd(net)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step / 3, 1))
    with record():
        loss = net(x).square().mean()
    return Training(loss, net, optimizer)


@healthy.append
def logging_and_metrics(record: Record) -> Training:
    net, x, y = mlp(4, 8, 3), torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    optimizer, log = sgd(net), []

    def forward() -> Any:
        logits = net(x)
        loss = functional.cross_entropy(logits, y)
        with torch.no_grad():
            accuracy = (logits.argmax(1) == y).float().mean().item()
        norms = sum(p.norm().item() for p in net.parameters())
        log.append((loss.item(), accuracy, norms, logits.detach().numpy().std()))
        return loss

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def validation_between_two_epochs(record: Record) -> Training:
    net, x = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)), torch.randn(6, 4)
    optimizer, best = sgd(net), []

    @torch.no_grad()
    def validate() -> None:
        net.eval()
        best.append((net(x).square().mean().item(), copy.deepcopy(net.state_dict())))
        net.train()

    loss = train(record, optimizer, lambda: net(x).square().mean(), validate)
    return Training(loss, net, optimizer)


@healthy.append
def a_loop_with_clipped_gradients(record: Record) -> Training:
    net, x = mlp(4, 8, 1), torch.randn(6, 4)
    optimizer = torch.optim.SGD(
        [{"params": net[0].parameters(), "lr": 0.01}, {"params": net[2].parameters()}], lr=0.1
    )
    for step in range(4):
        optimizer.zero_grad()
        with record():
            loss = net(x).square().sum()
            if step < 3:
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.1)
                optimizer.step()
    return Training(loss, net, optimizer)


@healthy.append
def a_variational_autoencoder(record: Record) -> Training:
    net = nn.ModuleDict({"enc": mlp(4, 8, 4), "dec": mlp(2, 8, 4)})
    optimizer, x = sgd(net), torch.randn(6, 4)

    def forward() -> Any:
        mean, log_var = net["enc"](x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (log_var / 2).exp()
        kl = (mean.square() + log_var.exp() - log_var - 1).sum(1).mean() / 2
        return {"reconstruction": functional.mse_loss(net["dec"](z), x), "kl": kl}

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def a_mixture_of_experts(record: Record) -> Training:
    net = nn.ModuleDict({"gate": nn.Linear(4, 2), "experts": nn.ModuleList([mlp(4, 1), mlp(4, 1)])})
    optimizer, x = sgd(net), torch.randn(16, 4)

    def forward() -> Any:
        weight, chosen = net["gate"](x).softmax(1).max(1)
        each = torch.cat([expert(x) for expert in net["experts"]], 1)
        return (weight * each.gather(1, chosen[:, None])[:, 0] - 1).square().mean()

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def attention_with_a_padding_mask(record: Record) -> Training:
    net, x = nn.Linear(4, 12), torch.randn(2, 3, 4)
    optimizer, padded = sgd(net), torch.tensor([[False, False, True], [False, False, False]])

    def forward() -> Any:
        q, k, v = net(x).chunk(3, -1)
        scores = (q @ k.mT).masked_fill(padded[:, None], float("-inf"))
        return (scores.softmax(-1) @ v)[~padded].square().mean()

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def a_custom_function_that_reverses_gradients(record: Record) -> Training:
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(_: Any, grad: Any) -> Any:
            return -grad

    net = nn.ModuleDict({"features": mlp(4, 8), "task": nn.Linear(8, 1), "domain": nn.Linear(8, 1)})
    optimizer, x = sgd(net), torch.randn(6, 4)

    def forward() -> Any:
        h = net["features"](x)
        return net["task"](h).square().mean() + net["domain"](Reverse.apply(h)).square().mean()

    return Training(train(record, optimizer, forward), net, optimizer)


@healthy.append
def weights_that_are_normalized(record: Record) -> Training:
    spectral, weight = (
        nn.utils.parametrizations.spectral_norm,
        nn.utils.parametrizations.weight_norm,
    )
    net, x = nn.Sequential(spectral(nn.Linear(4, 8)), weight(nn.Linear(8, 1))), torch.randn(6, 4)
    optimizer = sgd(net)
    return Training(train(record, optimizer, lambda: net(x).square().mean()), net, optimizer)


@healthy.append
def a_denoiser_of_random_times(record: Record) -> Training:
    net, x = mlp(5, 16, 4), torch.randn(8, 4)
    optimizer, signal = torch.optim.AdamW(net.parameters()), torch.linspace(0.99, 0.01, 10)

    def forward() -> Any:
        t, noise = torch.randint(10, (8, 1)), torch.randn(8, 4)
        noisy = signal[t].sqrt() * x + (1 - signal[t]).sqrt() * noise
        return functional.mse_loss(net(torch.cat([noisy, t / 10], 1)), noise)

    return Training(train(record, optimizer, forward), net, optimizer)
