"""Which leaves are known to have been used, and what they cost."""

import gc
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from leafgrad import record
from tests.diagnosis.programs import code_of
from tests.tensors import leaf


def test_recording_keeps_no_tensor_and_no_storage_alive() -> None:
    with record() as recording:
        for _ in range(300):
            torch.ones(1000).exp()
    gc.collect()
    values = recording.log.tape.values.values()
    assert all(value() is None for value in values)
    assert all(value.storage is None or value.storage.expired() for value in values)


def test_parameter_read_only_for_its_shape_is_unused() -> None:
    parameter, x = torch.nn.Parameter(torch.ones(2, 2)), leaf(2)
    with record() as recording:
        loss = x.expand_as(parameter).sum()
    assert code_of(parameter, loss, recording) == "unused"


class Other(TorchFunctionMode):
    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_write_under_no_grad_is_a_cut_inside_another_function_mode() -> None:
    x, z = leaf(2), leaf(2)
    with Other(), record() as recording:
        with torch.no_grad():
            z.copy_(x)
        loss = (z * 2).sum()
    assert code_of(x, loss, recording) == "copied"
