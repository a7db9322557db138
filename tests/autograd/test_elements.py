"""The numbers in tensors: which can be read, unseen, and to which output they belong."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from leafgrad import _autograd


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values, requires_grad=True)


def fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.ones(2)


def nested() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)


def emptied(nbytes: int) -> torch.Tensor:
    tensor = torch.ones(2)
    tensor.untyped_storage().resize_(nbytes)
    return tensor


READABLE: dict[str, Callable[[], torch.Tensor]] = {
    "float": lambda: torch.ones(2),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "complex view": lambda: torch.ones(2, dtype=torch.complex64).conj(),
    "boolean": lambda: torch.ones(2, dtype=torch.bool),
    "inference": lambda: torch.inference_mode()(torch.ones)(2),
    "empty": lambda: torch.ones(0),
    "expanded": lambda: torch.ones(1).expand(1000),
    "at the end of its memory": lambda: torch.ones(9)[8:],
    "transposed": lambda: torch.ones(2, 3).T,
}
UNREADABLE: dict[str, Callable[[], torch.Tensor]] = {
    "meta": lambda: torch.ones(2, device="meta"),
    "sparse": lambda: torch.ones(2).to_sparse(),
    "fake": fake,
    "jagged": nested,
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8),
    "packed bits": lambda: torch.ones(2, dtype=torch.uint8).view(torch.bits8),
    "functionalized": lambda: torch._to_functional_tensor(torch.ones(2)),
    "without memory": lambda: emptied(0),
    "with too little memory": lambda: emptied(4),
}


@pytest.mark.parametrize("made", READABLE.values(), ids=READABLE)
def test_numbers_of_ordinary_tensors_can_be_read(made: Callable[[], torch.Tensor]) -> None:
    assert _autograd.why_unread(made()) is None


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("made", UNREADABLE.values(), ids=UNREADABLE)
def test_numbers_that_are_elsewhere_cannot(made: Callable[[], torch.Tensor]) -> None:
    assert _autograd.why_unread(made()) is not None


WITHOUT_ONE_STORAGE: dict[str, Callable[[], torch.Tensor]] = {
    "sparse": UNREADABLE["sparse"],
    "fake": fake,
    "jagged": nested,
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("made", WITHOUT_ONE_STORAGE.values(), ids=WITHOUT_ONE_STORAGE)
def test_what_has_no_single_storage_lacks_none(made: Callable[[], torch.Tensor]) -> None:
    assert _autograd.lacking_memory(made()) is None


@pytest.mark.parametrize(
    ("nbytes", "why"), [(0, "its storage holds nothing"), (4, "its storage holds too little")]
)
def test_a_storage_that_was_made_smaller_lacks_memory(nbytes: int, why: str) -> None:
    assert _autograd.why_unread(emptied(nbytes)) == why


def test_numbers_inside_a_transform_cannot_be_read() -> None:
    seen = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(_autograd.why_unread(x))
        return x * x

    torch.func.grad(look)(torch.tensor(2.0))
    assert seen == ["it is inside torch.func"]


def test_what_is_computed_below_autograd_is_seen_by_no_mode_and_has_no_graph() -> None:
    calls = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            calls.append(func)
            return func(*args, **(kwargs or {}))

    x = leaf(1.0)
    watch: Any = Watch
    with watch():
        with _autograd.below_autograd():
            y = x + 1.0
        assert calls == []
        assert (x + 1.0).requires_grad
        assert calls != []
    assert not y.requires_grad
