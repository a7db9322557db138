"""The names of functions, from those of the nodes that are their backwards."""

from dataclasses import replace

import pytest
import torch

from leafgrad import trace_graph
from leafgrad._graph.nodes import CustomFunction
from leafgrad._picture.forward_name import forward_name

NODE = trace_graph(torch.ones(2, requires_grad=True).sin()).nodes[0]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("SinBackward0", "sin"),
        ("AddmmBackward0", "addmm"),
        ("TBackward0", "t"),
        ("LogSoftmaxBackward0", "log_softmax"),
        ("NativeLayerNormBackward0", "native_layer_norm"),
        ("MaxPool2DWithIndicesBackward0", "max_pool2d_with_indices"),
        ("NllLoss2DBackward0", "nll_loss2d"),
        ("FftR2CBackward0", "fft_r2c"),
        ("Expm1Backward0", "expm1"),
        ("TanhBackwardBackward0", "tanh_backward"),
        ("CopySlices", "CopySlices"),
        ("AccumulateGrad", "AccumulateGrad"),
    ],
)
def test_it_is_what_was_called(name: str, function: str) -> None:
    assert forward_name(replace(NODE, name=name)) == function


def test_every_word_of_a_function_of_pytorch_is_found_again() -> None:
    # PyTorch capitalises each word of the function, and each letter that follows a digit.
    for function in (
        "conv_transpose3d",
        "index_put_impl",
        "upsample_nearest2d",
        "log10",
        "hardtanh",
    ):
        node = "".join(word.title() for word in function.split("_"))
        assert forward_name(replace(NODE, name=f"{node}Backward0")) == function


def test_a_custom_function_keeps_the_name_of_its_class() -> None:
    custom = CustomFunction(name="my.layers.FlashAttention", file=None, line=None)
    made = replace(NODE, name="FlashAttentionBackward", custom_function=custom)
    assert forward_name(made) == "FlashAttention"
