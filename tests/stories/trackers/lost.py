"""Gradients that do not arrive, or arrive where they should not."""

# Programs as users write them: their types are not the point.
# mypy: ignore-errors

import copy

import torch
from torch import distributed, nn
from torch.nn import functional

from tests.stories.training import Record, Stories, Training, join_group_of_one

stories = Stories()


@stories(
    "missing by detach: weight",
    culprit=("encoder(clips).data", "losses.requires_grad = True"),
    repair={".data": "", "        losses.requires_grad = True\n": ""},
)
def a_lost_gradient_is_hidden_by_requires_grad_of_the_loss(record: Record) -> Training:
    """A triplet loss raised "does not require grad".

    The advice was `losses.requires_grad = True`: no error any more, and no learning either.

    https://github.com/roman-vygon/triplet_loss_kws/issues/6
    """
    encoder, clips = nn.Linear(4, 2), torch.randn(3, 4)
    with record():
        anchor, positive, negative = encoder(clips).data
        losses = ((anchor - positive).norm() - (anchor - negative).norm() + 1).relu()
        losses.requires_grad = True
    return Training(losses, encoder)


@stories(
    "missing by threshold: weight bias",
    culprit=("probs > 0.5", "torch.tensor((probs > 0.5).float(), requires_grad=True)"),
    repair={"torch.tensor((probs > 0.5).float(), requires_grad=True)": "probs"},
)
def a_prediction_is_thresholded_in_a_dice_loss(record: Record) -> Training:
    """A threshold was added to the Dice loss, which then had no graph.

    The pull request made the error go away with a new tensor that requires grad.

    https://github.com/qubvel-org/segmentation_models.pytorch/pull/611
    """
    model, mask = nn.Linear(4, 1), torch.tensor([[1.0], [0.0], [1.0]])
    with record():
        probs = model(torch.randn(3, 4)).sigmoid()
        hard = torch.tensor((probs > 0.5).float(), requires_grad=True)
        dice = 2 * (hard * mask).sum() / (hard.sum() + mask.sum())
        loss = 1 - dice
    return Training(loss, model)


@stories(
    "missing by argmax: weight bias",
    culprit="scores.argmax(1)",
    repair={"scores.argmax(1)": "(scores.softmax(1) * torch.arange(64.0)).sum(1)"},
)
def coordinates_are_regressed_from_argmax(record: Record) -> Training:
    """A pose network scores 64 bins for each coordinate.

    The test code takes the best bin with argmax; a loss behind it has no gradient.

    https://github.com/LZGMatrix/BOP19_CDPN_2019ICCV/issues/4
    """
    model, target = nn.Linear(4, 64), torch.zeros(3)
    with record():
        scores = model(torch.randn(3, 4))
        coordinates = scores.argmax(1) * 2.0 / 63 - 1
        loss = functional.mse_loss(coordinates, target)
    return Training(loss, model)


@stories(
    "missing by argmax in dependency: fine.weight coarse.weight",
    culprit=("fine.argmax(1)", "coarse.argmax(1)"),
    repair={
        "(parent[fine.argmax(1)] != coarse.argmax(1)).float().mean()": "(1 - ("
        "fine.softmax(1) @ functional.one_hot(parent).float() * coarse.softmax(1)).sum(1)).mean()"
    },
)
def a_hierarchy_penalty_compares_argmax_with_argmax(record: Record) -> Training:
    """The penalty counts predictions whose fine class does not belong to the coarse one.

    Its weight made no difference at all: a count of argmaxes has no gradient.

    https://github.com/Ugenteraan/Deep_Hierarchical_Classification/issues/6
    """
    net = nn.ModuleDict({"fine": nn.Linear(4, 4), "coarse": nn.Linear(4, 2)})
    x, parent, label = torch.randn(3, 4), torch.tensor([0, 0, 1, 1]), torch.tensor([0, 2, 3])
    with record():
        fine, coarse = net["fine"](x), net["coarse"](x)
        layer = functional.cross_entropy(fine, label) + functional.cross_entropy(
            coarse, parent[label]
        )
        dependency = (parent[fine.argmax(1)] != coarse.argmax(1)).float().mean()
    return Training({"layer": layer, "dependency": dependency}, net)


@stories(
    "missing by constant-term in custom_loss: weight",
    culprit="torch.zeros(3)",
    repair={"torch.zeros(3)": "pose.abs().sum(1)"},
)
def a_custom_term_is_a_constant(record: Record) -> Training:
    """A user added a term to the dictionary of losses.

    It is a new tensor, made from nothing of the model; the other terms hide that.

    https://github.com/Wuziyi616/multi_part_assembly/issues/4
    """
    model, target = nn.Linear(4, 7), torch.randn(3, 7)
    with record():
        pose = model(torch.randn(3, 4))
        custom_loss = torch.zeros(3)
        trans_loss = (pose - target).square().mean(1)
        loss_dict = {"trans_loss": trans_loss, "custom_loss": custom_loss}
    return Training({name: term.mean() for name, term in loss_dict.items()}, model)


@stories(
    "missing by sample: mean scale",
    culprit="distribution.sample((10,))",
    repair={"distribution.sample": "distribution.rsample"},
)
def portfolios_are_resampled_with_sample(record: Record) -> Training:
    """A layer draws returns from a normal distribution and averages over the draws.

    `sample()` gives no gradient to the parameters of the distribution; `rsample()` does.

    https://github.com/jankrepl/deepdow/pull/106
    """
    mean, scale = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.ones(3))
    with record():
        distribution = torch.distributions.Normal(mean, scale)
        draws = distribution.sample((10,))
        loss = -draws.softmax(-1).square().mean()
    return Training(loss, nn.ParameterDict({"mean": mean, "scale": scale}))


@stories(
    "missing by numpy: X",
    culprit=("X.detach().numpy()", "torch.from_numpy(np.sin(values).sum(1))"),
    repair={
        "X.detach().numpy()": "X",
        "torch.from_numpy(np.sin(values).sum(1))": "values.sin().sum(1)",
    },
)
def an_acquisition_function_calls_numpy(record: Record) -> Training:
    """A custom acquisition function computed its value with NumPy and pandas.

    The optimizer of the candidates got no gradient.

    https://github.com/meta-pytorch/botorch/issues/520
    """
    import numpy as np  # noqa: PLC0415

    X = torch.rand(3, 2, requires_grad=True)  # noqa: N806
    with record():
        values = X.detach().numpy()
        acquisition = torch.from_numpy(np.sin(values).sum(1))
        loss = -acquisition.sum()
    return Training(loss, None, None, {"X": X})


@stories(
    "missing by integer: weight bias",
    culprit="x.long()",
    repair={"x.long()": "x"},
)
def a_prediction_is_converted_to_integers(record: Record) -> Training:
    """The predicted positions were needed as integers.

    `long()` returns a tensor without a graph.

    https://github.com/pytorch/pytorch/issues/91431
    """
    model = nn.Linear(4, 1)
    with record():
        x = model(torch.randn(3, 4)).clamp(min=0) * 100
        x = x.long()
        loss = (x - 50).square().sum() / 3
    return Training(loss, model)


@stories(
    "missing by data-write: weight bias",
    culprit=("param.data -= 0.1 * grad", "copy.deepcopy(model)"),
    repair={
        "copy.deepcopy(model)": "model; fast = dict(model.named_parameters())",
        "param, grad in zip(adapted.parameters(), grads": "name, grad in zip([*fast], grads",
        "param.data -= 0.1 * grad": "fast[name] = fast[name] - 0.1 * grad",
        "adapted(query)": "torch.func.functional_call(model, fast, query)",
    },
)
def an_inner_loop_writes_to_data(record: Record) -> Training:
    """The inner loop of MAML changed a copy of the model through `.data`.

    Nothing leads from the query loss to the parameters that should be meta-learned.

    https://github.com/KanishJebaMathewM/Truxify/issues/13118
    """
    model, support, query = nn.Linear(4, 1), torch.randn(5, 4), torch.randn(5, 4)
    with record():
        adapted = copy.deepcopy(model)
        inner = adapted(support).square().mean()
        grads = torch.autograd.grad(inner, adapted.parameters(), create_graph=True)
        for param, grad in zip(adapted.parameters(), grads, strict=True):
            param.data -= 0.1 * grad
        meta_loss = adapted(query).square().mean()
    return Training(meta_loss, model)


@stories(
    "missing by unused: attn.weight",
    culprit="torch.zeros(2, 4)",
    repair={"torch.zeros(2, 4)": "self.attn(history).softmax(0) * history"},
)
def an_attention_layer_is_never_applied(record: Record) -> Training:
    """The weights of an attention layer never changed.

    Its `forward()` filled a tensor with zeros and returned it through dropout.

    https://github.com/INK-USC/RE-Net/issues/6
    """

    class Aggregator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn, self.out = nn.Linear(4, 4), nn.Linear(4, 1)

        def forward(self, history: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
            sequence = torch.zeros(2, 4)
            return self.out(functional.dropout(sequence, 0.1))

    model = Aggregator()
    with record():
        loss = model(torch.randn(2, 4)).square().mean()
    return Training(loss, model)


@stories(
    "missing by other-tensor: first",
    culprit='params["weight"][0]',
    repair={"(each, {})": '({**each, "weight": first}, {})'},
)
def a_slice_of_stacked_parameters_was_not_used(record: Record) -> Training:
    """The parameters of several models were stacked and each used a slice in `vmap`.

    The gradient was asked for another slice, made afterwards: it was not part of the graph.

    https://github.com/pytorch/pytorch/issues/120538
    """
    models, x = [nn.Linear(2, 1) for _ in range(3)], torch.randn(4, 2)
    params, _ = torch.func.stack_module_state(models)
    first = params["weight"][0]
    first.retain_grad()
    with record():
        each = {name: stacked[0] for name, stacked in params.items()}
        loss = torch.func.functional_call(models[0], (each, {}), (x,)).square().mean()
    return Training(loss, None, None, {"first": first})


@stories(
    "missing by collective: weight bias",
    culprit=("distributed.all_gather(gathered, features)", "torch.cat(gathered)"),
    repair={"(gathered, features)": "(gathered, features); gathered[0] = features"},
)
def features_are_gathered_without_their_graph(record: Record) -> Training:
    """A contrastive loss compares the features of all processes.

    `all_gather` writes into tensors that are not part of any graph.

    https://github.com/HobbitLong/SupContrast/issues/26
    """
    join_group_of_one()
    encoder, prototypes = nn.Linear(4, 3), torch.randn(3, 5, requires_grad=True)
    with record():
        features = functional.normalize(encoder(torch.randn(6, 4)))
        gathered = [torch.zeros_like(features)]
        distributed.all_gather(gathered, features)
        logits = torch.cat(gathered) @ prototypes
        loss = functional.cross_entropy(logits, torch.tensor([0, 1, 2, 3, 4, 0]))
    return Training(loss, encoder)


@stories(
    "leak by target-not-detached: regressor.weight",
    culprit="log_prob * (1 - distance)",
    repair={"(1 - distance)": "(1 - distance.detach())"},
)
def a_reward_is_not_detached(record: Record) -> Training:
    """The reward was computed from the predictions of a feature regression module.

    The policy loss trained that module as well.

    https://github.com/batra-mlp-lab/visdial-rl/issues/13
    """
    net = nn.ModuleDict({"policy": nn.Linear(4, 3), "regressor": nn.Linear(4, 2)})
    state = torch.randn(5, 4)
    with record():
        policy = torch.distributions.Categorical(logits=net["policy"](state))
        log_prob = policy.log_prob(policy.sample())
        distance = net["regressor"](state).square().sum(1)
        loss = -(log_prob * (1 - distance)).mean()
    return Training(loss, net)


@stories(
    "leak by target-not-detached: other.weight",
    culprit='net["other"](state)',
    repair={'net["other"](state)': 'net["other"](state).detach()'},
)
def the_actions_of_other_agents_are_not_detached(record: Record) -> Training:
    """Each agent's policy loss also has the actions of the other agents in it.

    They were not detached, so one agent's loss gave gradients to the others' policies.

    https://github.com/shariqiqbal2810/maddpg-pytorch/issues/11
    """
    net = nn.ModuleDict({name: nn.Linear(4, 2) for name in ("agent", "other")})
    critic, state = nn.Linear(4, 1).requires_grad_(False), torch.randn(5, 4)
    with record():
        actions = torch.cat([net["agent"](state), net["other"](state)], 1)
        loss = -critic(actions).mean()
    return Training(loss, net)


@stories(
    "leak by target-not-detached: q_next.weight q_next.bias",
    culprit='rewards + 0.99 * net["q_next"](states).amax(1)',
    repair={".amax(1)": ".amax(1).detach()"},
)
def the_target_of_a_q_network_is_not_detached(record: Record) -> Training:
    """The target of the Bellman equation comes from a second network.

    Without `detach()`, the loss has a gradient for the target network too.

    https://github.com/philtabor/Deep-Q-Learning-Paper-To-Code/issues/9
    """
    net = nn.ModuleDict({name: nn.Linear(4, 2) for name in ("q_eval", "q_next")})
    optimizer = torch.optim.SGD(net["q_eval"].parameters(), lr=0.1)
    states, rewards = torch.randn(5, 4), torch.ones(5)
    with record():
        q_pred = net["q_eval"](states)[:, 0]
        q_target = rewards + 0.99 * net["q_next"](states).amax(1)
        loss = functional.mse_loss(q_pred, q_target)
    return Training(loss, net, optimizer)


@stories(
    "wrong by target-not-detached: weight",
    culprit="1 + 0.9 * net(after).sum()",
    repair={"net(after).sum()": "net(after).sum().detach()"},
)
def a_network_chases_its_own_target(record: Record) -> Training:
    """A course computed the TD target with the network that it trains.

    The gradient also went through the target: another algorithm than the book's.

    https://github.com/datawhalechina/easy-rl/pull/117
    """
    net, before, after = nn.Linear(2, 1, bias=False), torch.randn(2), torch.randn(2)
    with record():
        value, target = net(before).sum(), 1 + 0.9 * net(after).sum()
        loss = functional.mse_loss(value, target)
    right = (2 * (value - target) * before).detach()
    return Training(loss, net, gradients={"weight": right[None]})


@stories(
    "leak by target-not-detached: teacher.weight teacher.bias",
    culprit='net["teacher"](x)',
    repair={'net["teacher"](x)': 'net["teacher"](x).detach()'},
)
def a_teacher_by_moving_average_gets_gradients(record: Record) -> Training:
    """The teacher is a moving average of the student.

    Its parameters still required grad, and its prediction was not detached.

    https://github.com/arxyzan/data2vec-pytorch/issues/8
    """
    net = nn.ModuleDict({"student": nn.Linear(4, 2), "teacher": nn.Linear(4, 2)})
    with torch.no_grad():
        for ours, theirs in zip(
            net["teacher"].parameters(), net["student"].parameters(), strict=True
        ):
            ours.lerp_(theirs, 0.01)
    with record():
        x = torch.randn(3, 4)
        loss = functional.mse_loss(net["student"](x), net["teacher"](x))
    return Training(loss, net)


@stories(
    "wrong by broadcast: yhat y",
    culprit="loss_func(yhat, y)",
    repair={"loss_func(yhat, y)": "loss_func(yhat.squeeze(1), y)"},
)
def a_column_of_predictions_meets_a_row_of_targets(record: Record) -> Training:
    """A linear regression found the wrong line.

    Predictions of shape (100, 1) and targets of shape (100,) broadcast to (100, 100).

    https://github.com/pytorch/pytorch/issues/16045
    """
    model, loss_func = nn.Linear(2, 1), nn.MSELoss()
    x = torch.randn(100, 2)
    y = 10 + 9 * x[:, 0] - 2 * x[:, 1]
    with record():
        yhat = model(x)
        loss = loss_func(yhat, y)
    right = (yhat[:, 0] - y).square().mean()
    named = {"yhat": yhat, "y": y}
    return Training(loss, model, None, named, whole=lambda: torch.allclose(loss, right))


@stories(
    "wrong by broadcast: y_hat",
    culprit="y_hat - y",
    repair={"y_hat - y": "y_hat.squeeze() - y"},
)
def a_squared_error_by_hand_broadcasts(record: Record) -> Training:
    """The first example of a library subtracts (N,) from (N, 1).

    There is no warning, as no loss function of PyTorch is called.

    https://github.com/benedekrozemberczki/pytorch_geometric_temporal/pull/233
    """
    model, x, y = nn.Linear(4, 1), torch.randn(20, 4), torch.randn(20)
    with record():
        y_hat = model(x).relu()
        cost = torch.mean((y_hat - y) ** 2)
    right, named = (y_hat[:, 0] - y).square().mean(), {"y_hat": y_hat}
    return Training(cost, model, None, named, whole=lambda: torch.allclose(cost, right))


@stories(
    "wrong by softmax-twice: weight",
    culprit="model(x).softmax(1)",
    repair={".softmax(1)": ""},
)
def softmax_is_applied_before_cross_entropy(record: Record) -> Training:
    """`cross_entropy` expects logits and normalizes them itself.

    After a second softmax, even a perfect classifier has a loss of 1.46 and hardly learns.

    https://github.com/NaJaeMin92/pytorch-DANN/issues/7
    """
    model, x = nn.Linear(10, 10, bias=False), torch.eye(10)
    nn.init.eye_(model.weight).data.mul_(30)
    with record():
        loss = functional.cross_entropy(model(x).softmax(1), torch.arange(10))
    return Training(loss, model, whole=lambda: loss.item() < 0.01)
