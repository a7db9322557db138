"""Errors in the forward or the backward pass: writes in place, freed graphs, hooks, checkpoints."""

# Programs as users write them: their types are not the point.
# mypy: ignore-errors

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.stories.training import Record, Stories, Training, join_group_of_one

stories = Stories()


@stories(
    "raises by in-place: cos_theta",
    culprit=("cos_theta[rows, label] = target_logit", "cos_theta.square()"),
    repair={"        cos_theta[rows": "        cos_theta = cos_theta.clone(); cos_theta[rows"},
)
def a_margin_is_written_into_the_clamped_cosines(record: Record) -> Training:
    """A face recognition loss writes the logit with margin over the cosine.

    The sine was computed from the same tensor before, and its square needs it.

    https://github.com/cavalleria/cavaface/issues/10
    """
    model, label, rows = nn.Linear(4, 5), torch.tensor([0, 3]), torch.arange(2)
    with record():
        cos_theta = model(torch.randn(2, 4)).clamp(-0.9, 0.9)
        sin_theta = (1 - cos_theta.square()).sqrt()
        target_logit = cos_theta[rows, label] * 0.9 - sin_theta[rows, label] * 0.4
        cos_theta[rows, label] = target_logit
        loss = functional.cross_entropy(cos_theta * 8, label)
    return Training(loss, model)


@stories(
    "raises by in-place: probs",
    culprit="probs *= weight",
    repair={"probs *= weight": "probs = probs * weight"},
)
def a_sigmoid_is_weighted_in_place(record: Record) -> Training:
    """`*=` changes the result of `sigmoid()`, which its backward pass needs.

    "... output 0 of SigmoidBackward0, is at version 1; expected version 0 instead".

    https://github.com/wutong16/DistributionBalancedLoss/issues/20
    """
    model, weight = nn.Linear(4, 3), torch.rand(3)
    with record():
        probs = model(torch.randn(2, 4)).sigmoid()
        probs *= weight
        loss = probs.square().mean()
    return Training(loss, model)


@stories(
    "raises by in-place: b",
    culprit=("b[:, 1] = functional.softplus(b[:, 0])", "functional.softplus(b[:, 0])"),
    repair={
        "b[:, 1] = functional.softplus(b[:, 0])": "b[:, 1] = functional.softplus(b[:, 0].clone())"
    },
)
def one_column_is_computed_from_another_in_place(record: Record) -> Training:
    """Column 1 was filled with a function of column 0 of the same tensor.

    Only different columns are read and written, but both share one version counter.

    https://github.com/pytorch/pytorch/issues/114505
    """
    model = nn.Linear(4, 2)
    with record():
        b = model(torch.randn(3, 4))
        b[:, 1] = functional.softplus(b[:, 0])
        loss = b.square().mean()
    return Training(loss, model)


@stories(
    "raises by in-place: w",
    culprit=("row[row.isinf()] = 0.0", "for row in w"),
    repair={"for row in w": "w = torch.where(w.isinf(), 0.0, w)\n        for row in []"},
)
def infinite_weights_are_replaced_row_by_row(record: Record) -> Training:
    """A Dice loss iterates over the rows of a tensor and changes them in place.

    The rows are views that come from one operation, and such views must not be changed.

    https://github.com/Project-MONAI/MONAI/pull/3619
    """
    model = nn.Linear(4, 3)
    with record():
        w = 1 / model(torch.randn(2, 4)).square()
        for row in w:
            row[row.isinf()] = 0.0
        loss = w.mean()
    return Training(loss, model)


@stories(
    "raises by in-place-leaf: embedding.weight",
    culprit=("E[:, 0::2] = theta.sin()", "E = embedding.weight"),
    repair={"E = embedding.weight": "E = embedding.weight.data"},
)
def positions_are_written_into_an_embedding(record: Record) -> Training:
    """Sines and cosines were written into the weight of an embedding.

    Newer versions refuse: "a view of a leaf Variable that requires grad ...".

    https://github.com/Atcold/NYU-DLSP20/issues/765
    """
    embedding, theta = nn.Embedding(6, 4), torch.rand(6, 2)
    with record():
        E = embedding.weight  # noqa: N806
        E[:, 0::2] = theta.sin()
        E[:, 1::2] = theta.cos()
        loss = embedding(torch.tensor([1, 4])).square().sum()
    return Training(loss, None, None, {"embedding.weight": embedding.weight})


@stories(
    "raises by second-backward: W",
    culprit=("loss.backward()", "W.data += -0.1 * W.grad"),
    repair={
        "W.data += -0.1 * W.grad": "W.data += -0.1 * W.grad; W.grad = None\n"
        "        counts = (xenc @ W).exp()\n        prob = counts / counts.sum(1, keepdim=True)\n"
        "        loss = -prob[torch.arange(3), ys].log().mean()"
    },
)
def the_backward_cell_is_run_twice(record: Record) -> Training:
    """In a notebook, the cell with the backward pass was run again.

    The forward pass was in another cell and not repeated: its graph was freed.

    https://github.com/karpathy/nn-zero-to-hero/issues/31
    """
    xenc, ys = torch.eye(4)[:3], torch.tensor([1, 2, 0])
    W = torch.randn(4, 4, requires_grad=True)  # noqa: N806
    with record():
        counts = (xenc @ W).exp()
        prob = counts / counts.sum(1, keepdim=True)
        loss = -prob[torch.arange(3), ys].log().mean()
        loss.backward()
        W.data += -0.1 * W.grad
    return Training(loss, None, None, {"W": W})


@stories(
    "raises by second-backward: state",
    culprit="cell(x, state)",
    repair={"state = cell(x, state)": "state = cell(x, state.detach())"},
)
def the_state_of_a_cell_is_carried_to_the_next_sequence(record: Record) -> Training:
    """A spiking network keeps its state from one batch to the next.

    It was not detached, so the second backward pass went through the first graph.

    https://github.com/norse/norse/pull/131
    """
    cell, state = nn.RNNCell(4, 4), torch.zeros(2, 4)
    for number in range(2):
        x = torch.randn(2, 4)
        with record():
            state = cell(x, state)
            loss = state.square().mean()
        if number == 0:
            loss.backward()
    return Training(loss, cell)


@stories(
    "raises by inference-mode: head.weight",
    culprit=("torch.inference_mode()", 'model["head"](features)'),
    repair={"with torch.inference_mode():": "with torch.no_grad():"},
)
def features_of_inference_mode_are_trained_on(record: Record) -> Training:
    """The backbone of a depth model runs in inference mode.

    Its outputs are inference tensors, which a trained head must not save for backward.

    https://github.com/facebookresearch/dinov2/issues/472
    """
    model = nn.ModuleDict({"backbone": nn.Linear(4, 3), "head": nn.Linear(3, 1)})
    with record():
        with torch.inference_mode():
            features = model["backbone"](torch.randn(2, 4))
        loss = model["head"](features).square().mean()
    named = {"head.weight": model["head"].weight}
    return Training(loss, None, None, named)


@stories(
    "raises by integer: batch",
    culprit=("batch.long()", "torch.autograd.grad(log_likelihood.sum(), batch"),
    repair={"table[batch.long()]": "-(batch - table[:4]).square()"},
)
def a_density_is_differentiated_by_a_categorical_input(record: Record) -> Training:
    """The gradient of a log-likelihood was wanted with respect to the data.

    The inputs were categorical: the data are only indices, and no gradient leads to them.

    https://github.com/april-tools/cirkit/issues/289
    """
    table = nn.Parameter(torch.randn(8))
    batch = torch.tensor([1.0, 3.0, 0.0, 7.0], requires_grad=True)
    with record():
        log_likelihood = table[batch.long()]
        score = torch.autograd.grad(log_likelihood.sum(), batch, create_graph=True)[0]
        loss = log_likelihood.mean() + score.square().mean()
    return Training(loss, None, None, {"batch": batch})


@stories(
    "raises by hook: weight",
    culprit=("return grad_input[0], grad_output[0]", "register_full_backward_hook(halve)"),
    repair={"return grad_input[0], grad_output[0]": "return (grad_input[0] * 0.5,)"},
)
def a_module_hook_returns_one_gradient_too_many(record: Record) -> Training:
    """A backward hook of a module returns new gradients of the module's inputs.

    This one returned another number of gradients than the module has inputs.

    https://github.com/pytorch/pytorch/issues/5022
    """

    def halve(_: Any, grad_input: Any, grad_output: Any) -> Any:
        return grad_input[0], grad_output[0]

    model = nn.Linear(4, 4)
    model.register_full_backward_hook(halve)
    with record():
        loss = model(torch.randn(3, 4, requires_grad=True)).square().mean()
    return Training(loss, model)


@stories(
    "raises by ready-twice: module.weight",
    culprit=("use_reentrant=True", "find_unused_parameters=True"),
    repair={"use_reentrant=True": "use_reentrant=False"},
)
def a_shared_layer_is_checkpointed_twice_under_ddp(record: Record) -> Training:
    """A layer that is used twice was checkpointed, with DistributedDataParallel.

    Each reentrant checkpoint marks the parameters as ready: "... ready only once".

    https://github.com/microsoft/FocalNet/issues/4
    """
    join_group_of_one()

    class Twice(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(2):
                x = checkpoint(super().forward, x, use_reentrant=True)
            return x

    model = nn.parallel.DistributedDataParallel(Twice(4, 4), find_unused_parameters=True)
    with record():
        loss = model(torch.randn(3, 4, requires_grad=True)).square().mean()
    return Training(loss, model)


@stories(
    "wrong by recomputed-differently: x",
    culprit=("ctx.block(x)", "functional.dropout(h)"),
    repair={"Checkpoint.apply(block, x)": "checkpoint(block, x, use_reentrant=False)"},
)
def a_checkpoint_draws_another_dropout_mask(record: Record) -> Training:
    """A checkpoint by hand repeats the forward pass without restoring the random state.

    The backward pass then uses another dropout mask than the loss.

    https://github.com/openai/guided-diffusion/issues/167
    """

    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, block: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.block = block
            ctx.save_for_backward(x)
            return block(x)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                again = ctx.block(x)
            return None, torch.autograd.grad(again, x, grad)[0]

    def block(h: torch.Tensor) -> torch.Tensor:
        return functional.dropout(h) ** 2

    x = torch.ones(100, requires_grad=True)
    with record():
        y = Checkpoint.apply(block, x)
        loss = y.sum()
    right = y.detach() * 2  # the derivative of (mask * x) ** 2 at x = 1
    return Training(loss, None, None, {"x": x}, gradients={"x": right})


@stories(
    "raises by recomputed-differently: bias",
    culprit=("bias.add_(0.5)", "(h + bias) > 0"),
    repair={"            bias.add_(0.5)\n": ""},
)
def a_checkpoint_routes_by_a_bias_that_it_changes(record: Record) -> Training:
    """A mixture of experts updates the bias that balances its load in the forward pass.

    The recomputation sees the new bias, routes other tokens, and finds other shapes.

    https://github.com/pytorch/torchtitan/issues/1117
    """
    expert, bias = nn.Linear(4, 1), torch.zeros(1)

    def routed(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            h = x.sum(1)
            chosen = (h + bias) > 0
            bias.add_(0.5)
        return expert(x[chosen]).tanh().sum()

    tokens = torch.tensor([[0.1] * 4, [-0.1] * 4, [0.2] * 4])
    with record():
        loss = checkpoint(routed, tokens, use_reentrant=False)
    return Training(loss, expert)
