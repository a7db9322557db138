"""The writes that lead from one version of a tensor to another."""

import torch

from leafgrad._record.log import Log
from leafgrad._record.tape import Call, Value, WriteOnTape


def call(storage: int, before: int) -> Call:
    write = WriteOnTape(storage, Value(torch.ones(1)), before, before + 1, through_view=False)
    return Call(0, 0, None, "add_", writes=(write,))


def test_writes_between_versions_exclude_an_earlier_storage_of_equal_identity() -> None:
    log = Log(0)
    log.tape.calls = [call(7, 0), call(7, 1), call(8, 1), call(7, 0), call(7, 1)]
    first, second = log.writes[:2]
    assert log.writes_between(7, 0, 2) == (first, second)
    assert log.writes_between(7, 1, 2) == (second,)
    assert log.writes_between(7, 0, 1) == (first,)
    assert log.writes_between(7, 1, 1) == log.writes_between(None, 0, 1) == ()
