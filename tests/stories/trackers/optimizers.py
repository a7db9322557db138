"""Optimizers that hold the wrong parameters, and training loops in the wrong order."""

# Programs as users write them: their types are not the point.
# mypy: ignore-errors

import copy

import torch
from torch import nn

from tests.stories.training import Record, Stories, Training

stories = Stories()


@stories(
    "stuck by optimizer-stale: 0.weight 0.bias",
    culprit=("SGD(model.parameters(), lr=0.1)", "model[0] = nn.Linear(4, 8)"),
    repair={
        "model[0] = nn.Linear(4, 8)": "model[0] = nn.Linear(4, 8)"
        "; optimizer.add_param_group({'params': model[0].parameters()})"
    },
)
def a_pruned_layer_is_replaced_after_the_optimizer_was_made(record: Record) -> Training:
    """Speeding up a pruned model replaced its layers by smaller ones.

    Finetuning then changed nothing: the optimizer still held the old parameters.

    https://github.com/microsoft/nni/issues/4521
    """
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[0] = nn.Linear(4, 8)
    with record():
        loss = model(torch.ones(3, 4)).square().mean()
    return Training(loss, model, optimizer)


@stories(
    "stuck by optimizer-stale: embed.weight",
    culprit=("SGD(model.parameters(), lr=0.1)", 'model["embed"] = bigger'),
    repair={
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n": "",
        '"] = bigger': '"] = bigger; optimizer = torch.optim.SGD(model.parameters(), lr=0.1)',
    },
)
def an_embedding_is_resized_after_the_optimizer_was_made(record: Record) -> Training:
    """New tokens were added to the vocabulary, and the embedding table was resized.

    The optimizer had been made before, so it optimized the old table.

    https://github.com/huggingface/transformers/pull/3519
    """
    model = nn.ModuleDict({"embed": nn.Embedding(4, 3), "head": nn.Linear(3, 1)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    bigger = nn.Embedding(6, 3)
    bigger.weight.data[:4] = model["embed"].weight.data
    model["embed"] = bigger
    with record():
        loss = model["head"](model["embed"](torch.tensor([1, 5]))).square().mean()
    return Training(loss, model, optimizer)


@stories(
    "stuck by optimizer-stale: weight bias",
    culprit=("SGD(model.parameters(), lr=0.1)", "copy.deepcopy(model)"),
    repair={
        "copy.deepcopy(model)": "copy.deepcopy(model)"
        "; optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    },
)
def a_deep_copy_is_trained_with_the_optimizer_of_the_original(record: Record) -> Training:
    """A copied estimator did not learn: its weights stayed as they were.

    Its optimizer held the parameters of the model that it was copied from.

    https://github.com/skorch-dev/skorch/issues/317
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = copy.deepcopy(model)
    with record():
        loss = model(torch.ones(3, 4)).square().mean()
    return Training(loss, model, optimizer)


@stories(
    "stuck by optimizer-stale: weight bias",
    culprit=("SGD(model.parameters(), lr=0.1)", "model.load_state_dict(checkpoint, assign=True)"),
    repair={", assign=True": ""},
)
def a_checkpoint_is_assigned_after_the_optimizer_was_made(record: Record) -> Training:
    """With `assign=True`, the tensors of the checkpoint replace the parameters.

    An optimizer that was made before holds the parameters that were replaced.

    https://github.com/pytorch/pytorch/pull/121158
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    checkpoint = {"weight": torch.ones(1, 4), "bias": torch.zeros(1)}
    model.load_state_dict(checkpoint, assign=True)
    with record():
        loss = model(torch.ones(3, 4)).square().mean()
    return Training(loss, model, optimizer)


@stories(
    "stuck by optimizer-lacks: clf_head.weight clf_head.bias",
    culprit='model["transformer"].parameters()',
    repair={'model["transformer"].parameters()': "model.parameters()"},
)
def a_task_head_is_left_out_of_the_optimizer(record: Record) -> Training:
    """Only the parameters of the pretrained transformer were passed to the optimizer.

    The new output matrix of the task kept its random values.

    https://github.com/huggingface/pytorch-openai-transformer-lm/pull/6
    """
    model = nn.ModuleDict({"transformer": nn.Linear(4, 4), "clf_head": nn.Linear(4, 2)})
    optimizer = torch.optim.Adam(model["transformer"].parameters())
    with record():
        logits = model["clf_head"](model["transformer"](torch.ones(3, 4)).tanh())
        loss = nn.functional.cross_entropy(logits, torch.tensor([0, 1, 1]))
    return Training(loss, model, optimizer)


@stories(
    "stuck by optimizer-lacks: metric_fc.weight",
    culprit="backbone.parameters()",
    repair={"backbone.parameters()": "[*backbone.parameters(), *metric_fc.parameters()]"},
)
def the_class_centers_of_a_metric_loss_are_never_updated(record: Record) -> Training:
    """ArcFace and AdaCos keep a center for each class in a module beside the backbone.

    No optimizer held it, so the centers stayed random.

    https://github.com/4uiiurz1/pytorch-adacos/issues/10
    """
    backbone, metric_fc = nn.Linear(4, 3), nn.Linear(3, 2, bias=False)
    optimizer = torch.optim.SGD(backbone.parameters(), lr=0.1)
    with record():
        features = nn.functional.normalize(backbone(torch.randn(5, 4)))
        loss = nn.functional.cross_entropy(metric_fc(features), torch.tensor([0, 1, 0, 1, 1]))
    return Training(loss, backbone, optimizer, {"metric_fc.weight": metric_fc.weight})


@stories(
    "stuck by not-registered: layers[0].weight layers[1].weight",
    culprit="[nn.Linear(4, 4) for _ in range(2)]",
    repair={
        "[nn.Linear(4, 4) for _ in range(2)]": "nn.ModuleList(nn.Linear(4, 4) for _ in range(2))"
    },
)
def layers_in_a_python_list_are_not_trained(record: Record) -> Training:
    """Modules in a list are no submodules, so `parameters()` does not contain theirs.

    Neither an error nor a warning says so.

    https://github.com/pytorch/pytorch/issues/59925
    """

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(4, 4) for _ in range(2)]
            self.head = nn.Linear(4, 1)

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with record():
        loss = net.head(net.layers[1](net.layers[0](torch.ones(3, 4)))).square().mean()
    named = {f"layers[{i}].weight": net.layers[i].weight for i in range(2)}
    return Training(loss, net, optimizer, named)


@stories(
    "missing by not-registered: w",
    culprit="nn.Parameter(torch.ones(3)).double()",
    repair={"nn.Parameter(torch.ones(3)).double()": "nn.Parameter(torch.ones(3).double())"},
)
def a_parameter_is_moved_in_the_constructor(record: Record) -> Training:
    """A parameter that is moved or converted in `__init__` is a copy: an intermediate tensor.

    The module does not register it, and the optimizer does not get it.

    https://github.com/pytorch/pytorch/issues/20089
    """

    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(3)).double()
            self.b = nn.Parameter(torch.zeros(3))

    net = Scale()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with record():
        loss = (torch.ones(3) * net.w + net.b).square().sum()
    return Training(loss, net, optimizer, {"w": net.w})


@stories(
    "raises by not-a-leaf: spectrum",
    culprit="torch.randn(3, requires_grad=True).double()",
    repair={"3, requires_grad=True).double()": "3).double().requires_grad_()"},
)
def an_optimized_tensor_is_moved_after_it_requires_grad(record: Record) -> Training:
    """The tensor to optimize was moved to the GPU after `requires_grad=True`.

    The optimizer refused it: "can't optimize a non-leaf Tensor".

    https://github.com/mazzzystar/randomCNN-voice-transfer/issues/16
    """
    spectrum = torch.randn(3, requires_grad=True).double()
    optimizer = torch.optim.SGD([spectrum], lr=0.1)
    with record():
        loss = spectrum.square().sum()
    return Training(loss, None, optimizer, {"spectrum": spectrum})


@stories(
    "stuck by learning-rate-zero: weight bias",
    culprit="lambda epoch: epoch / 10",
    repair={"lambda epoch: epoch / 10": "lambda epoch: (epoch + 1) / 10"},
)
def a_warmup_by_step_is_advanced_by_epoch(record: Record) -> Training:
    """The warmup multiplied the learning rate by 0 in its first step.

    It was advanced once an epoch, so nothing was learned in the whole first epoch.

    https://github.com/huggingface/transformers/issues/20916
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: epoch / 10)
    for batch in range(3):
        optimizer.zero_grad()
        with record():
            loss = model(torch.ones(3, 4)).square().mean()
        if batch < 2:
            loss.backward()
            optimizer.step()
    return Training(loss, model, scheduler.optimizer)


@stories(
    "leak by not-frozen: 0.weight 0.bias",
    culprit="param.require_grad = False",
    repair={"require_grad": "requires_grad"},
)
def a_backbone_is_frozen_with_a_typo(record: Record) -> Training:
    """The attribute is `requires_grad`; without the s, Python sets a new attribute.

    Neither PyTorch nor Python complains, and the pretrained layers are trained.

    https://github.com/pytorch/pytorch/issues/72332
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    for param in model[0].parameters():
        param.require_grad = False
    with record():
        loss = model(torch.ones(3, 4)).square().mean()
    return Training(loss, model)


@stories(
    "leak by not-frozen: 0.weight",
    culprit="param.requires_grad = True",
    repair={"        param.requires_grad = True\n": ""},
)
def a_frozen_layer_is_unfrozen_by_a_later_loop(record: Record) -> Training:
    """Layers were frozen by name.

    The loop that sorts parameters into groups then set `requires_grad` of all of them.

    https://github.com/ultralytics/yolov5/issues/1213
    """
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 1))
    model[0].weight.requires_grad = False
    decayed = []
    for param in model.parameters():
        param.requires_grad = True
        decayed.append(param)
    optimizer = torch.optim.SGD(decayed, lr=0.1, weight_decay=1e-4)
    with record():
        loss = model(torch.ones(3, 4)).square().mean()
    return Training(loss, model, optimizer)


@stories(
    "wrong by zero-grad-missing: weight",
    culprit="loss.backward()",
    repair={"loss.backward()": "optimizer.zero_grad(); loss.backward()"},
)
def gradients_are_never_set_to_zero(record: Record) -> Training:
    """The trainer never cleared the gradients.

    Each step used the sum of the gradients of all steps so far.

    https://github.com/meta-pytorch/torchforge/pull/71
    """
    model = nn.Linear(3, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = torch.randn(2, 3)
    for x in batches:
        with record():
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
    return Training(loss, model, optimizer, done=True, gradients={"weight": batches[-1:]})


@stories(
    "wrong by zero-grad-misplaced: weight",
    culprit="optimizer.zero_grad(set_to_none=True)",
    repair={
        "            optimizer.zero_grad(set_to_none=True)\n": "",
        "for x in": "optimizer.zero_grad()\n        for x in",
    },
)
def gradients_are_cleared_in_each_microbatch(record: Record) -> Training:
    """Gradients were to be accumulated over several microbatches.

    They were cleared in the inner loop, so only the last microbatch counted.

    https://github.com/bytetriper/RAE/issues/67
    """
    model = nn.Linear(3, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    microbatches = torch.randn(2, 3)
    with record():
        for x in microbatches:
            optimizer.zero_grad(set_to_none=True)
            loss = model(x).sum() / 2
            loss.backward()
        optimizer.step()
    right = {"weight": microbatches.mean(0, keepdim=True)}
    return Training(loss, model, optimizer, done=True, gradients=right)


@stories(
    "wrong by zero-grad-misplaced: weight",
    culprit="optimizer.zero_grad()",
    repair={
        "            optimizer.zero_grad()\n": "",
        "optimizer.step()": "optimizer.step(); optimizer.zero_grad()",
    },
)
def gradients_are_cleared_between_backward_and_step(record: Record) -> Training:
    """A reader asked how an optimizer can use gradients that were set to zero.

    Between `backward()` and `step()` it cannot: it finds none and changes nothing.

    https://github.com/patrickloeber/pytorchTutorial/issues/19
    """
    model = nn.Linear(3, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    start = model.weight.detach().clone()
    for x in torch.randn(2, 3):
        with record():
            loss = model(x).square().sum()
            loss.backward()
            optimizer.zero_grad()
            optimizer.step()
    moved = model.weight - start
    return Training(loss, model, optimizer, done=True, whole=moved.any)


@stories(
    "wrong by clip-before-unscale: weight",
    culprit="nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    repair={"nn.utils": "scaler.unscale_(optimizer); nn.utils"},
)
def scaled_gradients_are_clipped(record: Record) -> Training:
    """The gradients were clipped while they were still multiplied by the loss scale.

    After unscaling, their norm is a thousandth of the limit.

    https://github.com/pytorch/examples/issues/1196
    """
    model = nn.Linear(3, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with record():
        loss = model(torch.full((3,), 5.0)).sum()
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    right = {"weight": torch.full((1, 3), 3**-0.5)}
    return Training(loss, model, optimizer, done=True, gradients=right)


@stories(
    "wrong by gradient-left-over: weight",
    culprit="i % 2 == 1",
    repair={"i % 2 == 1": "i % 2 == 1 or i == len(batches) - 1"},
)
def the_last_batches_of_an_epoch_are_not_applied(record: Record) -> Training:
    """A step was taken after every second batch.

    With an odd number of batches, the gradient of the last one was never applied.

    https://github.com/tomhosking/torchseq/issues/8
    """
    model = nn.Linear(3, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = torch.randn(3, 3)
    with record():
        for i, x in enumerate(batches):
            loss = model(x).sum()
            loss.backward()
            if i % 2 == 1:
                optimizer.step()
                optimizer.zero_grad()
    return Training(loss, model, optimizer, done=True, whole=lambda: model.weight.grad is None)


@stories(
    "wrong by accumulation-not-averaged: weight",
    culprit="model(x).mean()",
    repair={"model(x).mean()": "model(x).mean() / 4"},
)
def an_accumulated_loss_is_not_divided(record: Record) -> Training:
    """The gradients of four batches were accumulated.

    The loss was not divided by four, so each step was four times too long.

    https://github.com/fredzzhang/atlas/pull/26
    """
    model = nn.Linear(3, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(4, 5, 3)
    with record():
        for x in data:
            loss = model(x).mean()
            loss.backward()
        optimizer.step()
    right = {"weight": data.mean((0, 1), keepdim=True)[0]}
    return Training(loss, model, optimizer, done=True, gradients=right)


@stories(
    "wrong by zero-grad-missing: weight",
    culprit="d_loss.backward()",
    repair={"d_loss.backward()": "opt_d.zero_grad(); d_loss.backward()"},
)
def the_discriminator_also_follows_the_generator_loss(record: Record) -> Training:
    """The backward pass of the generator's loss also fills the discriminator's gradients.

    They were not cleared before the discriminator's own step.

    https://github.com/FoundationVision/OmniTokenizer/issues/15
    """
    gen, disc = nn.Linear(2, 2), nn.Linear(2, 1, bias=False)
    opt_g = torch.optim.SGD(gen.parameters(), lr=0.1)
    opt_d = torch.optim.SGD(disc.parameters(), lr=0.1)
    noise, real = torch.randn(5, 2), torch.randn(5, 2)
    with record():
        fake = gen(noise)
        opt_g.zero_grad()
        (-disc(fake).mean()).backward()
        opt_g.step()
        d_loss = disc(fake.detach()).mean() - disc(real).mean()
        d_loss.backward()
        opt_d.step()
    right = {"weight": (fake.mean(0, keepdim=True) - real.mean(0)).detach()}
    return Training(d_loss, disc, opt_d, done=True, gradients=right)


@stories(
    "raises by step-before-backward: 0.weight",
    culprit="opt_d.step()",
    repair={"opt_d.step()": "opt_d.step(); g_loss = bce(disc(fake), torch.ones(5, 1))"},
)
def the_discriminator_steps_before_the_generator_goes_back(record: Record) -> Training:
    """Both losses were computed, then the discriminator took its step.

    The generator's backward pass needs the discriminator's old weights and raised.

    https://github.com/psh01087/Vid-ODE/issues/6
    """
    gen, bce = nn.Linear(2, 2), nn.BCEWithLogitsLoss()
    disc = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    opt_d = torch.optim.SGD(disc.parameters(), lr=0.1)
    with record():
        fake = gen(torch.randn(5, 2))
        d_loss = bce(disc(fake.detach()), torch.zeros(5, 1))
        g_loss = bce(disc(fake), torch.ones(5, 1))
        d_loss.backward()
        opt_d.step()
    return Training(g_loss, disc)
