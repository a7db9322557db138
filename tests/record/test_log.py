"""Where code stands, and which writes led from one version to another."""

import inspect
from typing import Any

import torch

from leafgrad._record.log import Log
from leafgrad._record.place import part_of, place_of, source_at
from leafgrad._record.tape import Call, Value, WriteOnTape


def call(storage: int, before: int) -> Call:
    write = WriteOnTape(storage, Value(torch.ones(1)), before, before + 1, through_view=False)
    return Call(0, 0, None, "add_", writes=(write,))


def test_writes_between_versions_exclude_former_storage() -> None:
    log = Log(0)
    log.tape.calls = [call(7, 0), call(7, 1), call(8, 1), call(7, 0), call(7, 1)]
    first, second = log.writes[:2]
    assert log.writes_between(7, 0, 2) == (first, second)
    assert log.writes_between(7, 1, 2) == (second,)
    assert log.writes_between(7, 0, 1) == (first,)
    assert log.writes_between(7, 1, 1) == log.writes_between(None, 0, 1) == ()


def test_missing_frame_has_no_place() -> None:
    assert place_of(None) is None
    assert source_at(None) is None


def test_place_of_frame_is_its_running_line() -> None:
    source = source_at(place_of(inspect.currentframe()))
    assert source is not None
    assert source.file == __file__
    assert source.function == test_place_of_frame_is_its_running_line.__name__


def test_equal_code_in_two_files_has_two_sources() -> None:
    log, text = Log(0), "def here():\n    return inspect.currentframe()\n"
    for number, file in enumerate(("one.py", "two.py")):
        found: dict[str, Any] = {"inspect": inspect}
        exec(compile(text, file, "exec"), found)
        place = found["here"].__code__, 0, None
        log.tape.calls.append(Call(number, number + 1, place, "sin"))
    assert [source.file for source in log.sources()] == ["one.py", "two.py"]
    told = [log.source_of(number) for number in range(2)]
    assert told == list(log.sources())


def test_call_outside_of_module_has_no_part() -> None:
    assert part_of(None) == (None, None)
