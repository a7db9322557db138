"""NaN: born in a formula, in its derivative, in half precision, in data and in buffers."""

# Programs as users write them: their types are not the point.
# mypy: ignore-errors

import torch
from torch import nn
from torch.nn import functional

from tests.stories.training import Record, Stories, Training

stories = Stories()


@stories(
    "nan by where-branch: a",
    culprit=("torch.exp(a)", "torch.where(a <= 0, torch.exp(a), 1 + a)"),
    repair={"torch.exp(a)": "torch.exp(a.clamp(max=0))"},
)
def the_branch_not_taken_of_where_overflows(record: Record) -> Training:
    """`where` takes the finite branch, and the gradient is NaN.

    The derivative of the other branch is infinite, and 0 times infinity is NaN.

    https://github.com/pytorch/pytorch/issues/68425
    """
    a = torch.tensor([100.0, 1.0], requires_grad=True)
    with record():
        b = torch.where(a <= 0, torch.exp(a), 1 + a)
        loss = b.sum()
    return Training(loss, None, None, {"a": a})


@stories(
    "nan by where-branch: weight bias",
    culprit=("(prediction - y) ** 2", "torch.where(y.isnan(), 0, (prediction - y) ** 2)"),
    repair={"(prediction - y)": "(prediction - y.nan_to_num())"},
)
def missing_targets_are_masked_after_squaring(record: Record) -> Training:
    """Targets have gaps, marked by NaN, that the loss leaves out with `where`.

    The loss is finite; its gradient is not.

    https://github.com/pytorch/pytorch/issues/89543
    """
    model, y = nn.Linear(2, 3), torch.tensor([1.0, float("nan"), 2.0])
    with record():
        prediction = model(torch.randn(2))
        loss = torch.where(y.isnan(), 0, (prediction - y) ** 2).sum()
    return Training(loss, model)


@stories(
    "nan by sqrt-at-zero: weight",
    culprit="(anchor - positive).square().sum(1).sqrt()",
    repair={"(anchor - positive).square().sum(1).sqrt()": "(anchor - positive).norm(dim=1)"},
)
def a_distance_by_hand_of_equal_embeddings(record: Record) -> Training:
    """Anchor and positive of a triplet can be the same sentence.

    The square root has an infinite derivative at distance 0, also where the loss is 0.

    https://github.com/huggingface/sentence-transformers/pull/4033
    """
    model = nn.Embedding(5, 3)
    with record():
        anchor, positive, negative = (model(torch.tensor([i, 3])) for i in (1, 1, 2))
        near = (anchor - positive).square().sum(1).sqrt()
        far = (anchor - negative).norm(dim=1)
        loss = (near - far + 5).relu().mean()
    return Training(loss, model)


@stories(
    "nan by softmax-of-nothing: weight bias",
    culprit=("functional.log_softmax(vector + mask.log(), 1)", "mask.log()"),
    repair={"mask.log()": "(mask + 1e-45).log()"},
)
def a_row_is_masked_completely_by_its_logarithm(record: Record) -> Training:
    """A masked log-softmax adds the logarithm of the mask.

    A row whose mask is all zeros becomes all minus infinity, and its softmax NaN.

    https://github.com/allenai/allennlp/issues/890
    """
    model, mask = nn.Linear(4, 6), torch.tensor([[1.0] * 6, [0.0] * 6])
    with record():
        vector = model(torch.randn(2, 4))
        log_probs = functional.log_softmax(vector + mask.log(), 1)
        loss = -log_probs[:, 0].mean()
    return Training(loss, model)


@stories(
    "nan by softmax-of-nothing: loss",
    culprit=("scores.softmax(-1)", 'masked_fill(~mask, float("-inf"))'),
    repair={'float("-inf")': "torch.finfo(scores.dtype).min"},
)
def a_padded_query_may_attend_to_nothing(record: Record) -> Training:
    """The attention mask of a batch with padding has rows that allow no key at all.

    The softmax over nothing but minus infinity is NaN.

    https://github.com/pytorch/pytorch/issues/103749
    """
    model, x = nn.ModuleDict({"q": nn.Linear(4, 4), "k": nn.Linear(4, 4)}), torch.randn(3, 4)
    mask = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 0, 0]]).bool()
    with record():
        scores = model["q"](x) @ model["k"](x).T
        scores = scores.masked_fill(~mask, float("-inf"))
        loss = (scores.softmax(-1) @ x).square().mean()
    return Training(loss, model)


@stories(
    "nan by infinity-scaled: temperature",
    culprit=("logits / model.temperature", 'masked_fill(padded, float("-inf"))'),
    repair={
        'masked_fill(padded, float("-inf"))': "clone()",
        "logits / model.temperature": "(logits / model.temperature)"
        '.masked_fill(padded, float("-inf"))',
    },
)
def padded_negatives_are_divided_by_the_temperature(record: Record) -> Training:
    """InfoNCE set padded negatives to minus infinity, then divided by a learned temperature.

    The loss is finite; the derivative of the division is 0 times infinity.

    https://github.com/NVIDIA-NeMo/Automodel/pull/3850
    """
    model = nn.Linear(4, 4)
    model.temperature = nn.Parameter(torch.tensor(0.5))
    padded = torch.tensor([[False, False, True], [False, True, True]])
    with record():
        logits = model(torch.randn(2, 4)) @ torch.randn(4, 3)
        logits = logits.masked_fill(padded, float("-inf"))
        loss = functional.cross_entropy(logits / model.temperature, torch.tensor([0, 0]))
    return Training(loss, model)


@stories(
    "nan by std-of-one: weight bias",
    culprit="x.var((2, 3), keepdim=True)",
    repair={"x.var((2, 3), keepdim=True)": "x.var((2, 3), keepdim=True, unbiased=False)"},
)
def the_variance_over_an_image_of_one_pixel(record: Record) -> Training:
    """A deep network makes small images one pixel large.

    The unbiased variance of one number divides by zero.

    https://github.com/digantamisra98/EvoNorm/issues/4
    """
    model = nn.Conv2d(2, 3, 4)
    with record():
        x = model(torch.randn(2, 2, 4, 4))
        instance_std = (x.var((2, 3), keepdim=True) + 1e-5).sqrt()
        loss = (x / instance_std).square().mean()
    return Training(loss, model)


@stories(
    "nan by std-of-one: weight bias",
    culprit="returns.std()",
    repair={"returns.std()": "returns.std(unbiased=False)"},
)
def one_return_is_normalized_under_no_grad(record: Record) -> Training:
    """`std()` of a single number is NaN in PyTorch and 0 in NumPy.

    Returns and advantages are data: they are normalized where no graph is recorded.

    https://github.com/pytorch/pytorch/issues/29372
    """
    policy, returns = nn.Linear(4, 2), torch.tensor([3.0])
    with record():
        with torch.no_grad():
            advantage = (returns - returns.mean()) / (returns.std() + 1e-8) + 1
        log_prob = policy(torch.randn(1, 4)).log_softmax(1)[:, 0]
        loss = -(log_prob * advantage).mean()
    return Training(loss, policy)


@stories(
    "nan by acos-at-one: x",
    culprit="inner.clamp(-1, 1).acos()",
    repair={"clamp(-1, 1)": "clamp(-1 + 1e-6, 1 - 1e-6)"},
)
def a_distance_on_the_sphere_of_equal_points(record: Record) -> Training:
    """The distance of two points on a sphere is the arc cosine of their inner product.

    For equal points that is `acos(1)`, whose derivative is infinite.

    https://github.com/geoopt/geoopt/pull/79
    """
    x = torch.tensor([[1.0, 0.0], [0.6, 0.8]], requires_grad=True)
    y = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    with record():
        inner = (functional.normalize(x) * y).sum(1)
        loss = inner.clamp(-1, 1).acos().mean()
    return Training(loss, None, None, {"x": x})


@stories(
    "nan by pow-at-zero: weight",
    culprit="power**0.6",
    repair={"power**0.6": "(power + 1e-8) ** 0.6"},
)
def loudness_is_a_fractional_power_of_zero(record: Record) -> Training:
    """A perceptual loss computes loudness as a fractional power.

    At 0 the derivative of that power is infinite.

    https://github.com/asteroid-team/asteroid/pull/121
    """
    model = nn.Linear(2, 3, bias=False)
    with record():
        power = model(torch.tensor([[1.0, 2.0], [0.0, 0.0]])).square()
        loudness = power**0.6
        loss = loudness.mean()
    return Training(loss, model)


@stories(
    "nan by pow-of-negative: weight bias",
    culprit="a**2.2",
    repair={"a**2.2": "a.abs() ** 2.2"},
)
def a_gamma_curve_of_negative_pixels(record: Record) -> Training:
    """A fractional power of a negative number is NaN.

    Pixels that a network predicts can be slightly negative.

    https://github.com/pytorch/pytorch/issues/75405
    """
    model = nn.Linear(2, 3)
    with record():
        a = model(torch.tensor([[1.0, 2.0], [-1.0, -3.0]]))
        loss = (a**2.2).mean()
    return Training(loss, model)


@stories(
    "nan by mean-of-nothing: loss",
    culprit="mask_loss[mask_loss != 0].mean()",
    repair={"[mask_loss != 0].mean()": ".sum() / (mask_loss != 0).sum().clamp(min=1)"},
)
def an_image_without_edges_has_an_empty_mask_loss(record: Record) -> Training:
    """A loss on edges averages over the pixels that are not zero.

    An image of one class has no edges, and the mean over nothing is NaN.

    https://github.com/Deci-AI/super-gradients/issues/912
    """
    model, target = nn.Linear(4, 3), torch.zeros(2, 3)
    with record():
        predict = model(torch.randn(2, 4))
        mask_loss = functional.binary_cross_entropy_with_logits(
            predict, target, reduction="none"
        ) * torch.zeros(2, 3)
        loss = mask_loss[mask_loss != 0].mean() + predict.square().mean()
    return Training(loss, model)


@stories(
    "nan by zero-by-zero: loss",
    culprit=("ce / count", "(labels != -100).sum()"),
    repair={"(labels != -100).sum()": "(labels != -100).sum().clamp(min=1)"},
)
def a_rank_has_no_token_to_learn_from(record: Record) -> Training:
    """The loss is a sum divided by the number of tokens that have a label.

    With packed data, a rank can get none: 0 / 0 is NaN, and then it is NaN everywhere.

    https://github.com/allenai/OLMo-core/pull/657
    """
    model, labels = nn.Linear(4, 6), torch.full((3,), -100)
    with record():
        logits = model(torch.randn(3, 4))
        count = (labels != -100).sum()
        ce = functional.cross_entropy(logits, labels, reduction="sum")
        loss = ce / count + 1e-4 * logits.logsumexp(1).square().mean()
    return Training(loss, model)


@stories(
    "nan by half-overflow: weight",
    culprit=("(1 - mask) * -1e15", "scores.softmax(-1)"),
    repair={"-1e15": "-1e4"},
)
def a_mask_value_is_too_large_for_half_precision(record: Record) -> Training:
    """A mask of -1e15 works in single precision.

    In half precision it is minus infinity, and a row of padding becomes NaN.

    https://github.com/NVIDIA/apex/issues/93
    """
    model = nn.Linear(4, 3, bias=False).half()
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]]).half()
    with record():
        scores = model(torch.randn(2, 4).half()) + (1 - mask) * -1e15
        loss = scores.softmax(-1)[:, 0].float().square().mean()
    return Training(loss, model)


@stories(
    "nan by half-overflow: weight",
    culprit="q @ q.T",
    repair={"q @ q.T": "(q / 64) @ (q / 64).T"},
)
def attention_scores_overflow_in_half_precision(record: Record) -> Training:
    """The product of queries and keys is larger than 65504, the largest half.

    The softmax of infinity is NaN; the same model is fine in single precision.

    https://github.com/pytorch/pytorch/pull/60940
    """
    model = nn.Linear(4, 4, bias=False).half()
    nn.init.eye_(model.weight)
    with record():
        q = model(torch.full((2, 4), 200.0).half())
        attention = (q @ q.T).softmax(-1)
        loss = (attention @ q).float().square().mean() / 1e3
    return Training(loss, model)


@stories(
    "nan by negative-variance: weight bias",
    culprit="torch.tensor([1.0, -0.5, 2.0])",
    repair={"torch.tensor([1.0, -0.5, 2.0])": "torch.tensor([1.0, 0.5, 2.0])"},
)
def a_running_variance_is_negative(record: Record) -> Training:
    """Running statistics were filled with random numbers.

    A variance below zero has no square root; the NaN comes from a buffer, not the data.

    https://github.com/pytorch/pytorch/issues/106605
    """
    model = nn.Linear(4, 3)
    running_mean, running_var = torch.zeros(3), torch.tensor([1.0, -0.5, 2.0])
    with record():
        h = functional.batch_norm(model(torch.randn(5, 4)), running_mean, running_var)
        loss = h.square().mean()
    return Training(loss, model)


@stories(
    "nan by negative-variance: loss",
    culprit="bn.running_var = bn.running_mean",
    repair={"    bn.running_var = bn.running_mean\n": ""},
)
def validation_is_nan_because_of_a_buffer(record: Record) -> Training:
    """A layer was replaced, and its buffers were set from the wrong ones of the old layer.

    Training uses the statistics of the batch and is fine; in evaluation all is NaN.

    https://github.com/pytorch/pytorch/issues/60624
    """
    bn = nn.BatchNorm1d(4)
    bn.running_mean = torch.tensor([0.5, -1.0, 0.0, 2.0])
    bn.running_var = bn.running_mean
    model = nn.Sequential(bn, nn.Linear(4, 1)).eval()
    with record(), torch.no_grad():
        loss = model(torch.randn(5, 4)).square().mean()
    return Training(loss, model, done=True)


@stories(
    "nan by nan-in-data: loss",
    culprit='torch.tensor([[1.0, 2.0], [float("nan"), 0.5], [0.0, 1.0]])',
    repair={'float("nan")': "0.0"},
)
def one_bad_image_poisons_the_running_statistics(record: Record) -> Training:
    """Training went well and every prediction in evaluation was the same.

    One batch had NaN in it; it stayed in the running mean and variance for good.

    https://github.com/pytorch/pytorch/issues/1206
    """
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
    bad = torch.tensor([[1.0, 2.0], [float("nan"), 0.5], [0.0, 1.0]])
    with record():
        model(bad)
        with torch.no_grad():
            loss = model.eval()(torch.randn(5, 2)).square().mean()
    return Training(loss, model, done=True)


@stories(
    "wrong by normalize-zero: x",
    culprit="functional.normalize(x)",
    repair={"functional.normalize(x)": "functional.normalize(x, eps=1e-3)"},
)
def a_zero_vector_is_normalized(record: Record) -> Training:
    """`normalize` divides by at least 1e-12.

    At a zero vector its derivative is 1e12, and one step destroys the model.

    https://github.com/pytorch/pytorch/issues/184575
    """
    x = torch.zeros(2, 3, requires_grad=True)
    with record():
        y = functional.normalize(x)
        loss = y.sum()
    return Training(loss, None, None, {"x": x}, whole=lambda: x.grad.abs().max() < 1e6)
