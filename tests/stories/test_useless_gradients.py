"""Gradients that are zero, NaN or infinite."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from leafgrad import record
from tests.stories.diagnosing import Diagnosed, Stories, Story, check

stories = Stories()


@stories(
    "https://github.com/HazyResearch/HypHC/issues/7",
    "zero-gradient",
    "scale",
    help="every value is outside the bounds",
)
def a_scale_that_starts_outside_of_its_clamp() -> Diagnosed:
    scale = nn.Parameter(torch.tensor([1e-3]))
    with record(values=True) as recording:
        radius = torch.ones(3) * scale.clamp_min(1e-2).clamp_max(1.0)  # here
        loss = radius.sum()
    return loss, {"scale": scale}, recording


@stories(
    "https://github.com/pytorch/pytorch/issues/31396",
    "zero-gradient",
    "weight",
    help="outputs already match the targets",
)
def outputs_that_are_the_targets() -> Diagnosed:
    model = nn.Linear(2, 2)
    with record(values=True) as recording:
        outputs = model(torch.ones(1, 2))
        loss = functional.mse_loss(outputs, outputs.detach())  # here
    return loss, model, recording


@stories("", "zero-gradient", "weight", help="saturated: flat to the last digit")
def a_sigmoid_that_is_saturated() -> Diagnosed:
    model = nn.Linear(2, 1)
    nn.init.constant_(model.weight, 200.0)
    with record(values=True) as recording:
        p = model(torch.ones(1, 2)).sigmoid()  # here
        loss = (p - 0.5).square().sum()
    return loss, model, recording


@stories("", "zero-gradient", "head.weight", help="this normalises one number at a time")
def a_layer_norm_of_one_feature() -> Diagnosed:
    model = nn.Sequential(nn.Linear(3, 1), nn.LayerNorm(1))
    with record(values=True) as recording:
        hidden = model(torch.rand(4, 3))  # here
        loss = (hidden - 1).square().sum()
    return loss, {"head": model.get_submodule("0")}, recording


@stories("", "zero-gradient", "0.weight", help="the other factor is zero")
def a_dropout_of_everything() -> Diagnosed:
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(p=1.0))
    with record(values=True) as recording:
        loss = model(torch.rand(4, 3)).sum()  # here
    return loss, model, recording


@stories("", "zero-gradient", "weight", help="the loss is zero here: every margin is kept")
def a_hinge_loss_of_triplets_that_are_too_easy() -> Diagnosed:
    model = nn.Linear(2, 1)
    nn.init.constant_(model.weight, 10.0)
    with record(values=True) as recording:
        near, far = model(torch.zeros(1, 2)), model(torch.ones(1, 2))
        loss = (near - far + 1).clamp(min=0).mean()  # here
    return loss, model, recording


@stories("", "zero-gradient", "weight", help="GradScaler")
def a_gradient_too_small_for_half_precision() -> Diagnosed:
    weight = nn.Parameter(torch.ones(2, dtype=torch.float16))
    with record(values=True) as recording:
        small = weight * 1e-4  # here
        loss = (small * 1e-4).sum().float()
    return loss, {"weight": weight}, recording


@stories(
    "https://github.com/jacobgil/pytorch-grad-cam/issues/582",
    "zero-derivative",
    "x",
    help="piecewise linear function has no second derivative",
)
def a_second_derivative_of_a_relu() -> Diagnosed:
    model = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))
    x = torch.linspace(-1, 1, 5).unsqueeze(1).requires_grad_()
    with record(values=True) as recording:
        u = model(x)
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)  # here
        loss = slope.sum()
    return loss, {"x": x, "model": model}, recording


INFINITE = float("inf")


@stories(
    "https://github.com/pytorch/pytorch/issues/108618", "nan-gradient", "x", help="where(x > 1"
)
def a_logarithm_that_where_drops() -> Diagnosed:
    x = torch.tensor([0.0, 2.0, 3.0], requires_grad=True)
    with record(values=True) as recording:
        y = torch.where(x > 1, torch.log2(x), 2 * x)  # here
        loss = y.sum()
    return loss, {"x": x}, recording


@stories(
    "https://github.com/pytorch/pytorch/issues/52248",
    "nan-gradient",
    "a",
    help="torch.where(y == 0, 1",
)
def a_division_by_zero_that_where_drops() -> Diagnosed:
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    count = torch.tensor([0.0, 4.0])
    with record(values=True) as recording:
        mean = torch.where(count > 0, a / count, 1.0)  # here
        loss = mean.sum()
    return loss, {"a": a}, recording


@stories("", "nan-value", "w", help="the divisor is not 0")
def an_infinity_divided_by_an_infinity() -> Diagnosed:
    w, scale = torch.ones(2, requires_grad=True), torch.tensor([INFINITE, 1.0])
    with record(values=True) as recording:
        loss = (w.masked_fill(scale > 1, INFINITE) / scale).sum()  # here
    return loss, {"w": w}, recording


@stories(
    "https://github.com/banctilrobitaille/torch-vectorized/issues/7",
    "nan-gradient",
    "cosine",
    help="clamp(-1 + 1e-6, 1 - 1e-6)",
)
def an_angle_of_a_rotation_that_is_none() -> Diagnosed:
    cosine = torch.tensor([1.0, 0.5], requires_grad=True)
    with record(values=True) as recording:
        angle = torch.acos(cosine)  # here
        loss = angle.sum()
    return loss, {"cosine": cosine}, recording


@stories(
    "https://github.com/pytorch/pytorch/issues/49886", "nan-gradient", "matrix", help="svdvals"
)
def a_singular_value_decomposition_of_rank_one() -> Diagnosed:
    matrix = torch.diag(torch.tensor([1.0, 0.0, 0.0])).requires_grad_()
    with record(values=True) as recording:
        u, s, vh = torch.linalg.svd(matrix)  # here
        loss = (u @ torch.diag_embed(s) @ vh).sum() + u.sum()
    return loss, {"matrix": matrix}, recording


@stories("https://github.com/XanaduAI/GradDFT/pull/38", "nan-gradient", "matrix", help="eigvalsh")
def eigenvectors_of_equal_eigenvalues() -> Diagnosed:
    matrix = torch.eye(3).requires_grad_()
    with record(values=True) as recording:
        _, vectors = torch.linalg.eigh(matrix)  # here
        loss = vectors[0].sum()
    return loss, {"matrix": matrix}, recording


@stories(
    "https://github.com/pytorch/pytorch/issues/4320", "nan-value", "values", help="correction=0"
)
def the_deviation_within_a_batch_of_one() -> Diagnosed:
    values = torch.ones(1, 3, requires_grad=True)
    with record(values=True) as recording:
        spread = values.std(dim=0)  # here
        loss = spread.sum()
    return loss, {"values": values}, recording


@stories("https://github.com/huggingface/trl/pull/7251", "nan-value", "scores", help="torch.xlogy(")
def an_entropy_over_masked_tokens() -> Diagnosed:
    scores = torch.tensor([[1.0, 2.0, 0.0]], requires_grad=True)
    mask = torch.tensor([[False, False, True]])
    with record(values=True) as recording:
        logs = scores.masked_fill(mask, -INFINITE).log_softmax(-1)
        loss = -(logs.exp() * logs).sum()  # here
    return loss, {"scores": scores}, recording


@stories(
    "https://github.com/vanderschaarlab/synthcity/issues/331",
    "nan-value",
    "encoder.weight",
    help=".clamp(max=80)",
)
def a_variance_that_is_the_exponential_of_anything() -> Diagnosed:
    encoder = nn.Linear(1, 1, bias=False)
    nn.init.constant_(encoder.weight, 100.0)
    with record(values=True) as recording:
        log_variance = encoder(torch.ones(1, 1))
        loss = (log_variance.exp() - log_variance - 1).sum()  # here
    return loss, {"encoder": encoder}, recording


@stories("https://github.com/pytorch/pytorch/issues/41508", "nan-value", "scores", help="finfo")
def an_attention_row_without_a_key() -> Diagnosed:
    scores = torch.zeros(2, 2, requires_grad=True)
    mask = torch.tensor([[False, False], [True, True]])
    with record(values=True) as recording:
        weights = scores.masked_fill(mask, -INFINITE).softmax(-1)  # here
        loss = weights.sum()
    return loss, {"scores": scores}, recording


@stories(
    "https://github.com/pytorch/pytorch/issues/160064", "nan-value", "in_proj_weight", help="finfo"
)
def an_attention_whose_keys_are_all_padding() -> Diagnosed:
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x, padding = torch.rand(1, 3, 4), torch.ones(1, 3, dtype=torch.bool)
    with record(values=True) as recording:
        mixed, _ = attention(x, x, x, key_padding_mask=padding)  # here
        loss = mixed.sum()
    return loss, attention, recording


@stories(
    "https://github.com/pytorch/pytorch/issues/70348", "nan-value", "scores", help="ignore_index"
)
def a_batch_of_which_every_label_is_ignored() -> Diagnosed:
    scores = torch.zeros(2, 3, requires_grad=True)
    with record(values=True) as recording:
        loss = functional.cross_entropy(scores, torch.tensor([-100, -100]))  # here
    return loss, {"scores": scores}, recording


@stories(
    "https://github.com/keras-team/keras/issues/23075",
    "nan-gradient",
    "vectors",
    help="infinite at 0",
)
def a_vector_of_zeros_that_is_normalised() -> Diagnosed:
    vectors = torch.zeros(2, 3, requires_grad=True)
    with record(values=True) as recording:
        inverse = torch.rsqrt(vectors.square().sum(1, keepdim=True))  # here
        loss = (vectors * inverse.clamp(max=1e12)).sum()
    return loss, {"vectors": vectors}, recording


@stories("", "nan-gradient", "shade", help="+ 1e-12")
def a_gamma_correction_of_black() -> Diagnosed:
    shade = torch.tensor([0.0, 0.5], requires_grad=True)
    with record(values=True) as recording:
        seen = shade ** (1 / 2.2)  # here
        loss = seen.sum()
    return loss, {"shade": shade}, recording


@stories("https://github.com/e3nn/e3nn/issues/112", "nan-value", "position", help="torch.where(")
def a_direction_between_equal_positions() -> Diagnosed:
    position = torch.zeros(3, requires_grad=True)
    with record(values=True) as recording:
        direction = position / position.norm()  # here
        loss = direction.sum()
    return loss, {"position": position}, recording


@pytest.mark.parametrize("story", stories, ids=lambda story: story.program.__name__)
def test_report_on_useless_gradients_names_cause_and_its_fix_works(story: Story) -> None:
    check(story)
