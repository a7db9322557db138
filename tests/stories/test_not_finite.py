"""Values and gradients that become NaN or infinite."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from leafgrad import diagnose, record
from tests.stories.telling import Stories, Story, assert_told

stories = Stories()

INFINITE = float("inf")


@stories(
    "https://github.com/akanazawa/cmr/issues/11",
    cause=r"nan-gradient\].*`sqrt`",
    name="edges",
    cure=r"\+ 1e-12|eps",
)
def a_distance_of_two_points_that_are_the_same() -> object:
    edges = torch.zeros(2, 3, requires_grad=True)
    with record(values=True) as recording:
        length = edges.square().sum(1).sqrt()  # here
        loss = length.mean()
    return diagnose(loss, {"edges": edges}, recording=recording, gradients=True)


@stories(
    "https://github.com/pytorch/pytorch/issues/108618",
    cause=(r"nan-gradient\].*`log2`", r"slope of log\(\) at 0|where\(\)"),
    name=r"\bx\b",
    cure=r"where\(.* 1|before.*where",
)
def a_logarithm_that_where_drops() -> object:
    x = torch.tensor([0.0, 2.0, 3.0], requires_grad=True)
    with record(values=True) as recording:
        y = torch.where(x > 1, torch.log2(x), 2 * x)  # here
        loss = y.sum()
    return diagnose(loss, {"x": x}, recording=recording, gradients=True)


@stories(
    "https://github.com/pytorch/pytorch/issues/52248",
    cause=(r"nan-gradient\].*`div`", r"where\(\)"),
    name=r"\ba\b",
    cure=r"torch\.where\(y == 0, 1",
)
def a_division_by_zero_that_where_drops() -> object:
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    count = torch.tensor([0.0, 4.0])
    with record(values=True) as recording:
        mean = torch.where(count > 0, a / count, 1.0)  # here
        loss = mean.sum()
    return diagnose(loss, {"a": a}, recording=recording, gradients=True)


@stories(
    "https://github.com/banctilrobitaille/torch-vectorized/issues/7",
    cause=r"nan-gradient\].*`acos`",
    name="cosine",
    cure=r"clamp\(-1 \+ 1e-6, 1 - 1e-6\)|atan2",
)
def an_angle_of_a_rotation_that_is_none() -> object:
    cosine = torch.tensor([1.0, 0.5], requires_grad=True)
    with record(values=True) as recording:
        angle = torch.acos(cosine)  # here
        loss = angle.sum()
    return diagnose(loss, {"cosine": cosine}, recording=recording, gradients=True)


@stories(
    "https://github.com/pytorch/pytorch/issues/49886",
    cause=(r"nan-gradient\].*`linalg\.svd`", r"equal|twice|degenerate"),
    name="matrix",
    cure=r"svdvals|jitter|noise|apart",
)
def a_singular_value_decomposition_of_rank_one() -> object:
    matrix = torch.ones(3, 3, requires_grad=True)
    with record(values=True) as recording:
        u, s, vh = torch.linalg.svd(matrix)  # here
        loss = (u @ torch.diag_embed(s) @ vh).sum() + u.sum()
    return diagnose(loss, {"matrix": matrix}, recording=recording, gradients=True)


@stories(
    "https://github.com/XanaduAI/GradDFT/pull/38",
    cause=(r"nan-gradient\].*`linalg\.eigh`", r"equal|twice|degenerate"),
    name="matrix",
    cure=r"eigvalsh|jitter|noise|apart",
)
def eigenvectors_of_equal_eigenvalues() -> object:
    matrix = torch.eye(3).requires_grad_()
    with record(values=True) as recording:
        _, vectors = torch.linalg.eigh(matrix)  # here
        loss = vectors[0].sum()
    return diagnose(loss, {"matrix": matrix}, recording=recording, gradients=True)


@stories(
    "https://github.com/pytorch/pytorch/issues/4320",
    cause=r"nan-value\].*`std`",
    name="values",
    cure=r"correction=0",
)
def the_deviation_within_a_batch_of_one() -> object:
    values = torch.ones(1, 3, requires_grad=True)
    with record(values=True) as recording:
        spread = values.std(dim=0)  # here
        loss = spread.sum()
    return diagnose(loss, {"values": values}, recording=recording, gradients=True)


@stories(
    "https://github.com/summerlvsong/Aggregation-Cross-Entropy/issues/2",
    cause=(r"nan-value\].*`log`", r"at 0"),
    cure=r"log_softmax\(\)",
)
def the_logarithm_of_a_softmax() -> object:
    scores = torch.tensor([[200.0, 0.0]], requires_grad=True)
    with record(values=True) as recording:
        probabilities = scores.softmax(-1)
        loss = -probabilities.log()[0, 1]  # here
    return diagnose(loss, {"scores": scores}, recording=recording, gradients=True)


@stories(
    "https://github.com/huggingface/trl/pull/7251",
    cause=r"nan-value\].*`mul`",
    cure=r"xlogy|entr",
)
def an_entropy_over_masked_tokens() -> object:
    scores = torch.tensor([[1.0, 2.0, 0.0]], requires_grad=True)
    mask = torch.tensor([[False, False, True]])
    with record(values=True) as recording:
        logs = scores.masked_fill(mask, -INFINITE).log_softmax(-1)
        loss = -(logs.exp() * logs).sum()  # here
    return diagnose(loss, {"scores": scores}, recording=recording, gradients=True)


@stories(
    "https://github.com/vanderschaarlab/synthcity/issues/331",
    cause=(r"nan-value\].*`exp`", r"overflow"),
    name="encoder",
    cure=r"clamp|softplus",
)
def a_variance_that_is_the_exponential_of_anything() -> object:
    encoder = nn.Linear(1, 1, bias=False)
    nn.init.constant_(encoder.weight, 100.0)
    with record(values=True) as recording:
        log_variance = encoder(torch.ones(1, 1))
        loss = (log_variance.exp() - log_variance - 1).sum()  # here
    return diagnose(loss, {"encoder": encoder}, recording=recording, gradients=True)


@stories(
    "https://github.com/pytorch/pytorch/issues/41508",
    cause=(r"nan-value\].*`softmax`", r"softmax"),
    cure=r"Leave each row an entry|finfo",
)
def an_attention_row_without_a_key() -> object:
    scores = torch.zeros(2, 2, requires_grad=True)
    mask = torch.tensor([[False, False], [True, True]])
    with record(values=True) as recording:
        weights = scores.masked_fill(mask, -INFINITE).softmax(-1)  # here
        loss = weights.sum()
    return diagnose(loss, {"scores": scores}, recording=recording, gradients=True)


@stories(
    "https://github.com/pytorch/pytorch/issues/160064",
    cause=r"nan-value\].*`softmax`",
    name="in_proj_weight",
    cure=r"Leave each row an entry|finfo",
    never="came in with|Look at the data",
)
def an_attention_whose_keys_are_all_padding() -> object:
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x, padding = torch.rand(1, 3, 4), torch.ones(1, 3, dtype=torch.bool)
    with record(values=True) as recording:
        mixed, _ = attention(x, x, x, key_padding_mask=padding)  # here
        loss = mixed.sum()
    return diagnose(loss, attention, recording=recording, gradients=True)


@stories(
    "",
    cause=r"nan-value\].*`softmax`",
    cure=r"Leave each row an entry|finfo",
)
def a_mask_of_infinities_that_is_added() -> object:
    scores = torch.zeros(2, 2, requires_grad=True)
    mask = torch.tensor([[0.0, -INFINITE], [-INFINITE, -INFINITE]])
    with record(values=True) as recording:
        masked = scores + mask  # here
        loss = masked.softmax(-1).sum()
    return diagnose(loss, {"scores": scores}, recording=recording, gradients=True)


@stories(
    "https://github.com/pytorch/pytorch/issues/70348",
    cause=(r"nan-value\].*`cross_entropy`", r"ignore"),
    cure=r"ignore_index|reduction",
)
def a_batch_of_which_every_label_is_ignored() -> object:
    scores = torch.zeros(2, 3, requires_grad=True)
    with record(values=True) as recording:
        loss = functional.cross_entropy(scores, torch.tensor([-100, -100]))  # here
    return diagnose(loss, {"scores": scores}, recording=recording, gradients=True)


@stories(
    "https://github.com/philtabor/Actor-Critic-Methods-Paper-To-Code/issues/7",
    cause=(r"nan-value\].*`log`", r"at 0|below"),
    name="policy",
    cure=r"clamp",
)
def the_density_of_a_squashed_action() -> object:
    policy = nn.Linear(1, 1, bias=False)
    nn.init.constant_(policy.weight, 30.0)
    with record(values=True) as recording:
        action = policy(torch.ones(1, 1)).tanh()
        loss = -torch.log(1 - action.pow(2)).sum()  # here
    return diagnose(loss, {"policy": policy}, recording=recording, gradients=True)


@stories(
    "https://github.com/keras-team/keras/issues/23075",
    cause=(r"nan-gradient\].*`rsqrt`", r"infinite at 0"),
    name="vectors",
    cure=r"before|eps",
)
def a_vector_of_zeros_that_is_normalised() -> object:
    vectors = torch.zeros(2, 3, requires_grad=True)
    with record(values=True) as recording:
        inverse = torch.rsqrt(vectors.square().sum(1, keepdim=True))  # here
        loss = (vectors * inverse.clamp(max=1e12)).sum()
    return diagnose(loss, {"vectors": vectors}, recording=recording, gradients=True)


@stories(
    "https://github.com/kornia/kornia/issues/4183",
    cause=(r"nan-gradient\].*`log`", r"at 0"),
    name="image",
    cure="clamp",
)
def a_logarithm_that_nan_to_num_repairs() -> object:
    image = torch.zeros(3, requires_grad=True)
    with record(values=True) as recording:
        distance = torch.nan_to_num(-image.log(), posinf=0.0)  # here
        loss = distance.sum()
    return diagnose(loss, {"image": image}, recording=recording, gradients=True)


@stories(
    "https://github.com/RasmussenLab/vamb/issues/12",
    cause=(r"nan-value\].*`log`", r"at 0"),
    cure=r"with_logits|logsigmoid",
)
def a_cross_entropy_by_hand_behind_a_sigmoid() -> object:
    score = torch.tensor([200.0], requires_grad=True)
    with record(values=True) as recording:
        p = score.sigmoid()
        loss = -(1 - p).log().mean()  # here
    return diagnose(loss, {"score": score}, recording=recording, gradients=True)


@stories(
    "",
    cause=(r"nan-gradient\].*`pow`", r"power|0"),
    name="shade",
    cure=r"\+ 1e-12|clamp",
)
def a_gamma_correction_of_black() -> object:
    shade = torch.tensor([0.0, 0.5], requires_grad=True)
    with record(values=True) as recording:
        seen = shade ** (1 / 2.2)  # here
        loss = seen.sum()
    return diagnose(loss, {"shade": shade}, recording=recording, gradients=True)


@stories(
    "https://github.com/pytorch/pytorch/issues/37154",
    cause=(r"nan-gradient\].*`pow`", r"0"),
    name="points",
    cure=r"\+ 1e-12|eps",
)
def the_root_of_distances_of_points_to_themselves() -> object:
    points = torch.rand(3, 2, requires_grad=True)
    with record(values=True) as recording:
        squared = (points[:, None] - points[None]).square().sum(-1)
        loss = squared.pow(0.5).mean()  # here
    return diagnose(loss, {"points": points}, recording=recording, gradients=True)


@stories(
    "https://github.com/karpathy/makemore/issues/22",
    cause=r"nan-value\].*`var`",
    cure=r"correction=0|away from 0|shape",
)
def a_normalisation_over_a_batch_of_one() -> object:
    hidden = torch.ones(1, 3, requires_grad=True)
    with record(values=True) as recording:
        centred = hidden - hidden.mean(0)
        loss = (centred / hidden.var(0).sqrt()).sum()  # here
    return diagnose(loss, {"hidden": hidden}, recording=recording, gradients=True)


@stories(
    "https://github.com/e3nn/e3nn/issues/112",
    cause=(r"nan-value\].*`div`", r"0"),
    name="position",
    cure=r"away from 0|where",
)
def a_direction_between_equal_positions() -> object:
    position = torch.zeros(3, requires_grad=True)
    with record(values=True) as recording:
        direction = position / position.norm()  # here
        loss = direction.sum()
    return diagnose(loss, {"position": position}, recording=recording, gradients=True)


@pytest.mark.parametrize("story", stories, ids=lambda story: story.title)
def test_the_story_is_explained(story: Story) -> None:
    assert_told(story)
