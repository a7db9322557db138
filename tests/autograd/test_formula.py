"""Facts about the formulas of nodes and their operators, one test each."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.autograd.graph import Node
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from leafgrad import _autograd
from tests.tensors import holding, node_of, outcome_of


class Cube(torch.autograd.Function):
    """A custom function whose backward autograd tracks completely."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, None)
        ctx.label, ctx.kept, ctx.places = "cube", x, [torch.tensor([0])]
        return x**3

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * gradients[0]


class CubeOnce(Cube):
    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (3 * ctx.saved_tensors[0] ** 2 * gradients[0], None)


def test_nodes_that_hide_their_saved_tensors_are_detected() -> None:
    x = torch.ones(2, requires_grad=True)
    written = x * 1
    written[:1].mul_(x[:1])
    hiding = [node_of(torch._foreach_exp([x])[0]), node_of(written)]
    showing = [
        node_of(x.exp()),
        node_of(outcome_of(Cube, x)),
        node_of(torch._foreach_div([x], [x])[0]),
    ]
    assert [_autograd.hides_saved(node) for node in hiding + showing] == [True] * 2 + [False] * 3
    assert not any(_autograd.saved_slots(node) for node in hiding)
    assert all(_autograd.saved_slots(node) for node in showing)


def test_write_into_view_is_not_a_builtin_formula() -> None:
    x = torch.ones(2, requires_grad=True)
    result = x * 1
    result[0] = 3.0
    assert _autograd.is_write_into_view(node_of(result))
    assert not _autograd.is_own_formula(node_of(result))
    assert not _autograd.is_write_into_view(node_of(x * 1))
    gradients = _autograd.sample_gradients(node_of(result))
    assert [(gradient > 0).tolist() for gradient in gradients] == [[False, True]]


def test_call_backward_runs_no_hook() -> None:
    x = torch.ones(2, requires_grad=True)
    result = x * 3
    node = node_of(result)
    node.register_hook(lambda *_: pytest.fail("a hook ran"))
    to_x, to_number = _autograd.call_backward(node, torch.tensor([1.0, 2.0]))
    assert to_x is not None
    assert to_x.tolist() == [3.0, 6.0]
    assert to_number is None
    (to_x,) = _autograd.call_backward(node_of(x.sin()), torch.zeros(2))
    assert to_x is not None
    assert to_x.tolist() == [0.0, 0.0]


def test_gradient_of_once_differentiable_function_has_a_node_that_raises() -> None:
    x = torch.ones(2, requires_grad=True)
    cube = outcome_of(CubeOnce, x)
    (gradient,) = _autograd.sample_gradients(node_of(cube))
    assert _autograd.is_refusal(node_of(gradient))
    assert not _autograd.is_refusal(node_of(x.exp()))


def test_kept_tensors_include_saved_and_ctx() -> None:
    x = torch.ones(2, requires_grad=True)
    cube = outcome_of(Cube, x)
    assert [kept is x for kept in _autograd.kept_tensors(node_of(cube))] == [True, True]


class Settings(Cube):
    """A custom function that keeps its arguments on ctx."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, *kept: Any) -> torch.Tensor:
        ctx.kept = kept
        return x**3


def test_array_on_ctx_is_detected() -> None:
    x = torch.ones(2, requires_grad=True)
    numbers = x.detach().numpy()
    kept = [(numbers,), (numbers[0],), (numbers.astype(int),), (x, 2.0)]
    results = [_autograd.keeps_array(node_of(outcome_of(Settings, x, *one))) for one in kept]
    assert results == [True, False, False, False]


def test_sample_gradients_have_a_graph_and_call_no_hook() -> None:
    x = torch.full((2,), 2.0, requires_grad=True)
    result = outcome_of(Cube, x)
    result.register_hook(lambda _: pytest.fail("a hook ran"))
    (gradient,) = _autograd.sample_gradients(node_of(result))
    assert torch.equal(gradient, 12 * _autograd.sample_backward(node_of(result))[0][0])
    assert gradient.requires_grad
    assert x.grad is None


def test_sample_backward_returns_a_gradient_for_each_edge() -> None:
    x = torch.ones(3, requires_grad=True)
    for result in (x * torch.ones(3), outcome_of(Cube, x)):
        sent, gradients = _autograd.sample_backward(node_of(result))
        assert sent[0].requires_grad
        assert len({*sent[0].tolist(), 1.0, 2.0}) == 5
        assert [g is not None and g.requires_grad for g in gradients] == [
            edge[0] is not None for edge in _autograd.next_functions(node_of(result))
        ]


def leaf(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, requires_grad=True)


def attention() -> torch.Tensor:
    q = leaf(1, 2, 4, 8)
    return functional.scaled_dot_product_attention(q, q, q)


def ctc() -> torch.Tensor:
    targets, lengths = (
        torch.ones(2, 3, dtype=torch.long),
        (torch.tensor([5, 5]), torch.tensor([3, 3])),
    )
    return functional.ctc_loss(leaf(5, 2, 4).log_softmax(-1), targets, *lengths)


ONCE: dict[str, Callable[[], torch.Tensor]] = {
    "EmbeddingBagBackward0": lambda: functional.embedding_bag(
        torch.tensor([[0, 1]]), leaf(3, 2)
    ).square(),
    "FakeQuantizeLearnablePerTensorAffineBackward0": lambda: (
        torch._fake_quantize_learnable_per_tensor_affine(
            leaf(4), torch.ones(1), torch.zeros(1), 0, 255, 1.0
        )
    ),
    "HardsigmoidBackward0": lambda: functional.hardsigmoid(leaf(3)),
    "MaskedSoftmaxBackward0": lambda: torch._masked_softmax(
        leaf(2, 2), torch.zeros(2, 2, dtype=torch.bool)
    ),
    "SparseSoftmaxBackward0": lambda: torch.sparse.softmax(
        torch.eye(2).to_sparse().requires_grad_(), 0
    ).to_dense(),
    "StandardGammaBackward0": lambda: torch._standard_gamma(leaf(3)),
    "CtcLossBackward0": ctc,
    "MultiMarginLossBackward0": lambda: functional.multi_margin_loss(
        leaf(2, 3), torch.tensor([0, 1])
    ),
    "ScaledDotProductFlashAttentionForCpuBackward0": attention,
    "SegmentReduceBackward0": lambda: torch.segment_reduce(
        leaf(4), "sum", lengths=torch.tensor([2, 2])
    ),
}


@pytest.mark.parametrize("name", ONCE)
def test_once_differentiable_operation_is_detected(name: str) -> None:
    y = ONCE[name]()
    graph = _autograd.walk([node_of(y)])
    once = [node for node in graph if _autograd.is_once_differentiable(node)]
    assert [_autograd.node_name(node) for node in once] == [name]
    for _ in range(2):  # The facts about each kind of node are cached.
        assert not _autograd.all_twice_differentiable(graph)
        assert _autograd.all_twice_differentiable([node for node in graph if node not in once])
    leaves: Any = [x for x in map(_autograd.leaf_variable, graph) if x is not None]
    gradients = torch.autograd.grad(y.sum(), leaves, create_graph=True)
    with pytest.raises(RuntimeError, match="is not implemented"):
        torch.autograd.grad((gradients[0] ** 2).sum(), leaves, allow_unused=True)


DISTANCES = {
    "CdistBackward0": lambda: torch.cdist(leaf(2, 3), torch.ones(2, 3)),
    "PdistBackward0": lambda: functional.pdist(leaf(3, 2)),
}


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_are_reported_once_differentiable_where_pytorch_raises(name: str) -> None:
    y = DISTANCES[name]()
    graph = _autograd.walk([node_of(y)])
    once = [node for node in graph if _autograd.is_once_differentiable(node)]
    leaves: Any = [x for x in map(_autograd.leaf_variable, graph) if x is not None]
    (gradient,) = torch.autograd.grad(y.sum(), leaves, create_graph=True)
    refusing = [node for node in _autograd.walk([node_of(gradient)]) if _autograd.refuses(node)]
    raised = ""
    try:
        torch.autograd.grad((gradient**2).sum(), leaves)
    except RuntimeError as error:
        raised = str(error)
    assert bool(once) is bool(refusing) is ("is not implemented" in raised)


REFUSING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "AcoshBackward1": lambda x: (x * 1).acosh_(),
    "AsinhBackward1": lambda x: (x * 1).asinh_(),
    "AtanhBackward1": lambda x: (x * 1).atanh_(),
    "GeqrfBackward0": lambda x: torch.geqrf(torch.outer(x, x))[0],
    "IgammaBackward0": lambda x: torch.igamma(x, x.detach()),
    "IgammacBackward0": lambda x: torch.igammac(x, x.detach()),
    "SpecialZetaBackward0": lambda x: torch.special.zeta(x, x.detach()),
    "Unique2Backward0": torch.unique,
    "UniqueBackward0": lambda x: torch._unique(x)[0],
    "UniqueConsecutiveBackward0": torch.unique_consecutive,
    "UniqueDimBackward0": lambda x: torch.unique(x, dim=0),
    "StandardGammaGradBackward0": lambda x: torch.autograd.grad(
        torch._standard_gamma(x).square().sum(), x, create_graph=True
    )[0],
}


def named(y: torch.Tensor, name: str) -> Node:
    """Return the node with this name."""
    (node,) = (one for one in _autograd.walk([node_of(y)]) if _autograd.node_name(one) == name)
    return node


@pytest.mark.parametrize("name", REFUSING)
def test_formula_that_raises_is_detected(name: str) -> None:
    y = REFUSING[name](torch.tensor([1.2, 1.7], requires_grad=True))
    assert _autograd.refuses(named(y, name))
    with pytest.raises(RuntimeError, match="is not implemented"):
        y.sum().backward()


def test_formula_that_raises_for_first_input_only_is_accepted() -> None:
    y = torch.igamma(torch.ones(2), torch.tensor([1.2, 1.7], requires_grad=True))
    assert not _autograd.refuses(named(y, "IgammaBackward0"))
    y.sum().backward()


# --- Custom functions, operators and checkpoints


@torch.library.custom_op("leafgrad_tests::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    """Return twice the argument."""
    return x * 2


def test_registered_backward_of_operator_is_found() -> None:
    x = torch.ones(2, requires_grad=True)
    function = _autograd.forward_class(double(x).grad_fn)
    assert _autograd.registered_backward(function) == (None,)

    def backward(_: Any, gradient: Tensor) -> Tensor:
        return gradient * 2

    double.register_autograd(backward)
    assert _autograd.registered_backward(function) == (backward,)
    assert _autograd.registered_backward(torch.autograd.Function) is None


def test_checkpointed_block_contains_its_nodes() -> None:
    y = checkpoint(torch.exp, torch.ones(2, requires_grad=True) * 1, use_reentrant=False)
    (block,) = _autograd.checkpointed_blocks([y.grad_fn])
    assert block == [y.grad_fn]


def test_tensors_that_share_memory_have_the_same_memory_address() -> None:
    x = torch.ones(2)
    again = torch.utils.dlpack.from_dlpack(x)
    assert _autograd.storage_identity(x) != _autograd.storage_identity(again)
    assert _autograd.memory_address(x) == _autograd.memory_address(again) is not None


# --- Operators behind nodes


@pytest.mark.parametrize(
    ("node", "stem", "own_stem"),
    [
        ("MulBackward0", "Mul", "Mul"),
        ("CopyBackwards", "CopyBackwards", "Copy"),
        ("ZeroBackward", "Zero", "ZeroBackward"),  # the name of a custom function
        ("ThresholdBackwardBackward0", "ThresholdBackward", "ThresholdBackward"),
        ("AccumulateGrad", "AccumulateGrad", "AccumulateGrad"),
    ],
)
def test_stem_of_node_name_drops_backward_and_number(node: str, stem: str, own_stem: str) -> None:
    assert (_autograd.stem(node), _autograd.own_stem(node)) == (stem, own_stem)


# --- Formulas that return zeros


ZERO: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "BernoulliBackward0": lambda x: torch.bernoulli(x / 2),
    "BernoulliBackward2": lambda x: (x * 1).bernoulli_(0.5),
    "CauchyBackward0": lambda x: (x * 1).cauchy_(),
    "CeilBackward0": torch.ceil,
    "DivBackward2": lambda x: torch.div(x, 2, rounding_mode="floor"),
    "EqBackward0": lambda x: (x * 1).eq_(2),
    "ExponentialBackward0": lambda x: (x * 1).exponential_(),
    "FillBackward2": lambda x: (x * 1).fill_(2.0),
    "FloorBackward0": torch.floor,
    "GeometricBackward0": lambda x: (x * 1).geometric_(0.5),
    "LogNormalBackward0": lambda x: (x * 1).log_normal_(),
    "NormalBackward0": lambda x: (x * 1).normal_(),
    "NormalBackward1": lambda x: torch.normal(x, 1.0),
    "PoissonBackward0": torch.poisson,
    "RandomBackward2": lambda x: (x * 1).random_(),
    "RoundBackward0": torch.round,
    "RoundBackward1": lambda x: x.round(decimals=1),
    "SgnBackward0": torch.sgn,
    "SignBackward0": torch.sign,
    "TruncBackward0": torch.trunc,
    "UniformBackward0": lambda x: (x * 1).uniform_(),
    "ZeroBackward0": lambda x: (x * 1).zero_(),
}
PASSING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "DivBackward0": lambda x: x / 2,
    "FracBackward0": torch.frac,
    "SgnBackward0": lambda x: torch.sgn(torch.complex(x, x)).real,
}


@pytest.mark.parametrize("name", ZERO)
def test_zero_derivative_is_detected(name: str) -> None:
    x = holding(1.2, 1.7)
    y = ZERO[name](x)
    node = named(y, name)
    assert _autograd.may_give_zeros(node)
    assert _autograd.gives_zeros(node, 0)
    y.backward(torch.ones(2))
    assert torch.equal(x.grad, torch.zeros(2)) if x.grad is not None else False


@pytest.mark.parametrize("name", PASSING)
def test_nonzero_derivative_is_not_reported_as_zero(name: str) -> None:
    x = holding(1.2, 1.7)
    y = PASSING[name](x)
    assert not _autograd.gives_zeros(named(y, name), 0)
    y.backward(torch.ones(2))
    assert name == "SgnBackward0" or (x.grad is not None and bool(x.grad.all()))


def test_copy_is_reported_to_give_the_overwritten_tensor_zeros() -> None:
    node = named((holding(1.2, 1.7) * 1).copy_(holding(1.2, 1.7)), "CopyBackwards")
    assert [_autograd.gives_zeros(node, place) for place in (0, 1)] == [True, False]


STRAIGHT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "HardshrinkBackwardBackward0": torch.nn.functional.hardshrink,
    "HardtanhBackwardBackward0": lambda x: torch.nn.functional.hardtanh(x, -2, 2),
    "LeakyReluBackwardBackward0": torch.nn.functional.leaky_relu,
    "RreluWithNoiseBackwardBackward0": lambda x: torch.nn.functional.rrelu(x, training=True),
    "SoftshrinkBackwardBackward0": torch.nn.functional.softshrink,
    "ThresholdBackwardBackward0": torch.relu,
}


@pytest.mark.parametrize("name", STRAIGHT)
def test_second_derivative_of_piecewise_linear_is_zero(name: str) -> None:
    x = holding(1.2, 1.7)
    (slope,) = torch.autograd.grad(STRAIGHT[name](x).sum(), x, create_graph=True)
    node = named(slope, name)
    assert _autograd.may_give_zeros(node)
    assert [_autograd.gives_zeros(node, place) for place in (0, 1)] == [False, True]
    slope.sum().backward()
    assert x.grad is not None
    assert not x.grad.any()
