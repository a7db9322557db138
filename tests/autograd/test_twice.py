"""One test a fact about what a gradient cannot be differentiated through."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from leafgrad import _autograd


def leaf(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, requires_grad=True)


def recorded(tensor: torch.Tensor) -> Any:
    """Give the node of a result."""
    assert tensor.grad_fn is not None
    return tensor.grad_fn


class Marked(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    @once_differentiable
    def backward(_: Any, *gradients: Any) -> Any:
        return 2 * gradients[0]


class Unmarked(Marked):
    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return 2 * gradients[0]


def test_a_custom_function_shows_its_mark() -> None:
    marked: Any = Marked
    unmarked: Any = Unmarked
    assert _autograd.is_marked_once_differentiable(recorded(marked.apply(leaf(2))))
    assert not _autograd.is_marked_once_differentiable(recorded(unmarked.apply(leaf(2))))
    assert not _autograd.is_marked_once_differentiable(recorded(leaf(2).sin()))


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
    "SparseSumBackward0": lambda: torch.sparse.sum(
        torch.eye(2).to_sparse().requires_grad_(), 0
    ).to_dense(),
    "StandardGammaBackward0": lambda: torch._standard_gamma(leaf(3)),
    "CtcLossBackward0": ctc,
    "MultiMarginLossBackward0": lambda: functional.multi_margin_loss(
        leaf(2, 3), torch.tensor([0, 1])
    ),
    "MultilabelMarginLossBackward0": lambda: functional.multilabel_margin_loss(
        leaf(2, 3), torch.tensor([[0, 1, -1], [1, -1, 0]])
    ),
    "ScaledDotProductFlashAttentionForCpuBackward0": attention,
    "SegmentReduceBackward0": lambda: torch.segment_reduce(
        leaf(4), "sum", lengths=torch.tensor([2, 2])
    ),
}


@pytest.mark.parametrize("name", ONCE)
def test_an_operation_without_a_second_derivative_is_known_by_name(name: str) -> None:
    y = ONCE[name]()
    graph = _autograd.walk([recorded(y)])
    once = [node for node in graph if _autograd.is_once_differentiable(node)]
    assert [_autograd.node_name(node) for node in once] == [name]
    leaves: Any = [x for x in map(_autograd.leaf_variable, graph) if x is not None]
    gradients = torch.autograd.grad(y.sum(), leaves, create_graph=True)
    with pytest.raises(RuntimeError, match="is not implemented"):
        torch.autograd.grad((gradients[0] ** 2).sum(), leaves, allow_unused=True)


DISTANCES = {
    "CdistBackward0": lambda: torch.cdist(leaf(2, 3), torch.ones(2, 3)),
    "PdistBackward0": lambda: functional.pdist(leaf(3, 2)),
}


@pytest.mark.parametrize("name", DISTANCES)
def test_whether_distances_have_a_second_derivative_is_as_pytorch_has_it(name: str) -> None:
    y = DISTANCES[name]()
    graph = _autograd.walk([recorded(y)])
    once = [node for node in graph if _autograd.is_once_differentiable(node)]
    leaves: Any = [x for x in map(_autograd.leaf_variable, graph) if x is not None]
    (gradient,) = torch.autograd.grad(y.sum(), leaves, create_graph=True)
    refusing = [node for node in _autograd.walk([recorded(gradient)]) if _autograd.refuses(node)]
    raised = ""
    try:
        torch.autograd.grad((gradient**2).sum(), leaves)
    except RuntimeError as error:
        raised = str(error)
    assert bool(once) is bool(refusing) is ("is not implemented" in raised)
