"""What compiled code saved is as it was after a backward of it was looked at."""

from typing import Any

import torch

from leafgrad import _autograd


def is_donating() -> bool:
    return bool(torch._functorch.config.donated_buffer)


def test_what_compiled_code_saved_is_written_back_behind_the_versions() -> None:
    def waves(x: torch.Tensor) -> torch.Tensor:
        return x.sin().exp().sin()

    faster: Any = torch.compile(waves, backend="aot_eager")
    x = torch.ones(2, requires_grad=True)
    y = faster(x)  # older versions of PyTorch let the node of an output go with it
    node = y.grad_fn
    kept = [*node.saved_tensors]
    before = [(tensor.clone(), tensor._version) for tensor in kept]
    with _autograd.donated_buffers_kept([node]):
        assert not is_donating()
        for tensor in kept:
            tensor.detach().untyped_storage().fill_(0)
    assert is_donating()
    for (numbers, version), tensor in zip(before, kept, strict=True):
        assert torch.equal(numbers, tensor)
        assert tensor._version == version


def test_a_graph_without_compiled_code_is_left_alone() -> None:
    y = torch.ones(2, requires_grad=True).exp()
    assert y.grad_fn is not None
    with _autograd.donated_buffers_kept([y.grad_fn]):
        assert is_donating()
