"""The operators behind nodes, and what they take."""

import pytest
import torch

from leafgrad import _autograd


@pytest.mark.parametrize(
    ("node", "edges", "by_edge"),
    [
        ("AddmmBackward0", 3, ("self", "mat1", "mat2")),
        ("ConvolutionBackward0", 3, ("input", "weight", "bias")),
        ("EmbeddingBackward0", 1, ("weight",)),
        ("NativeBatchNormBackward0", 3, ("input",)),
        ("MaxPool2DWithIndicesBackward0", 1, ("self",)),
        ("OfNobodyBackward0", 1, ()),
        ("AccumulateGrad", 0, ()),
    ],
)
def test_the_arguments_that_edges_stand_for(
    node: str, edges: int, by_edge: tuple[str, ...]
) -> None:
    assert _autograd.tensor_arguments(node, edges).by_edge == by_edge


def test_the_edges_of_a_node_follow_its_arguments() -> None:
    bias, data, weight = torch.ones(2), torch.ones(1, 3), torch.ones(3, 2, requires_grad=True)
    node = torch.addmm(bias, data, weight).grad_fn
    assert node is not None
    ends = [successor for successor, _ in node.next_functions]
    names = _autograd.tensor_arguments("AddmmBackward0", len(ends)).by_edge
    assert dict(zip(names, ends, strict=True))["mat2"] is not None
    assert ends[:2] == [None, None]


def test_results_are_no_arguments() -> None:
    known = _autograd.tensor_arguments("NativeLayerNormBackward0", 3).known
    assert known == {"input", "weight", "bias"}


@pytest.mark.parametrize(
    ("node", "stem", "own_stem"),
    [
        ("MulBackward0", "Mul", "Mul"),
        ("CopyBackwards", "CopyBackwards", "Copy"),
        ("ZeroBackward", "Zero", "ZeroBackward"),  # a custom function's
        ("ThresholdBackwardBackward0", "ThresholdBackward", "ThresholdBackward"),
        ("AccumulateGrad", "AccumulateGrad", "AccumulateGrad"),
    ],
)
def test_what_a_name_says_of_an_operation(node: str, stem: str, own_stem: str) -> None:
    assert (_autograd.stem(node), _autograd.own_stem(node)) == (stem, own_stem)
