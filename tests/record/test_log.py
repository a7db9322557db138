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


def test_the_writes_between_two_versions_are_those_of_the_storage_that_lives() -> None:
    log = Log(0)
    log.tape.calls = [call(7, 0), call(7, 1), call(8, 1), call(7, 0), call(7, 1)]
    first, second = log.writes[:2]
    assert log.writes_between(7, 0, 2) == (first, second)
    assert log.writes_between(7, 1, 2) == (second,)
    assert log.writes_between(7, 0, 1) == (first,)
    assert log.writes_between(7, 1, 1) == log.writes_between(None, 0, 1) == ()


def test_code_that_nobody_called_has_no_place() -> None:
    assert place_of(None) is None
    assert source_at(None) is None


def test_a_place_is_the_line_that_runs() -> None:
    source = source_at(place_of(inspect.currentframe()))
    assert source is not None
    assert source.file == __file__
    assert source.function == test_a_place_is_the_line_that_runs.__name__


def test_code_that_two_files_have_in_common_is_told_apart() -> None:
    log, text = Log(0), "def here():\n    return inspect.currentframe()\n"
    for number, file in enumerate(("one.py", "two.py")):
        found: dict[str, Any] = {"inspect": inspect}
        exec(compile(text, file, "exec"), found)
        place = found["here"].__code__, 0, None
        log.tape.calls.append(Call(number, number + 1, place, "sin"))
    assert [source.file for source in log.sources()] == ["one.py", "two.py"]
    told = [log.source_of(number) for number in range(2)]
    assert told == list(log.sources())


def test_what_runs_outside_of_all_code_has_no_place() -> None:
    assert part_of(None) == (None, None)
