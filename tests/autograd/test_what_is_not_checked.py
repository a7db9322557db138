"""Facts that hold the findings on functions, operators and checkpoints."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from leafgrad import _autograd


class Keeps(torch.autograd.Function):
    """Keeps its input, or something computed from it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, what: str) -> Tensor:
        if what == "result":
            ctx.save_for_backward(x * 2)
        elif what == "attribute":
            ctx.doubled = x * 2
        elif what == "input":
            ctx.save_for_backward(x)
        return x * 1


def test_a_function_that_keeps_a_tensor_without_a_graph_shows_it() -> None:
    x = torch.ones(2, requires_grad=True)
    nodes = {
        what: Keeps.apply(x, what).grad_fn  # type: ignore[no-untyped-call]
        for what in ("result", "attribute", "input", "")
    }
    found = {what: _autograd.keeps_without_graph(node) for what, node in nodes.items()}
    assert found == {"result": True, "attribute": True, "input": False, "": None}


@torch.library.custom_op("leafgrad_tests::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    """Double."""
    return x * 2


def test_an_operator_shows_the_backward_that_was_registered() -> None:
    x = torch.ones(2, requires_grad=True)
    function = _autograd.forward_class(double(x).grad_fn)
    assert _autograd.registered_backward(function) == (None,)

    def backward(_: Any, gradient: Tensor) -> Tensor:
        return gradient * 2

    double.register_autograd(backward)
    assert _autograd.registered_backward(function) == (backward,)
    assert _autograd.registered_backward(Keeps) is None


def test_a_checkpointed_block_shows_whether_it_draws_the_same_numbers() -> None:
    x = torch.ones(2, requires_grad=True) * 1
    for restores in (True, False):
        y = checkpoint(torch.exp, x, use_reentrant=False, preserve_rng_state=restores)
        (block,) = _autograd.checkpointed_blocks([y.grad_fn])
        assert (block.nodes, block.restores_random_state) == ([y.grad_fn], restores)


def test_memory_shared_with_another_library_has_the_same_address() -> None:
    x = torch.ones(2)
    again = torch.utils.dlpack.from_dlpack(x)
    assert _autograd.storage_identity(x) != _autograd.storage_identity(again)
    assert _autograd.memory_address(x) == _autograd.memory_address(again) is not None
