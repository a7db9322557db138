"""How wide a terminal is, and what fits in it."""

import os
import sys
from io import StringIO
from struct import pack

import pytest

from leafgrad._display.table import table
from leafgrad._display.text_width import cells, elide, terminal_width


@pytest.mark.parametrize(("columns", "width"), [(120, 120), (60, 60), (40, 60), (0, 80)])
def test_the_width_is_that_of_the_terminal_but_never_below_60(
    columns: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pty, fcntl, termios = map(pytest.importorskip, ("pty", "fcntl", "termios"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "w") as output, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", output)
        assert terminal_width() == width


def closed() -> StringIO:
    output = StringIO()
    output.close()
    return output


@pytest.mark.parametrize("output", [StringIO(), closed(), None], ids=["text", "closed", "none"])
def test_the_width_is_80_where_output_goes_elsewhere(
    output: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", output)
    assert terminal_width() == 80


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("", 0), ("\u5f20\u91cf", 4), ("e\u0301", 1), ("é", 1)]
)
def test_letters_take_one_column_or_two_and_marks_none(text: str, columns: int) -> None:
    assert cells(text) == columns


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("abcdefghij", "abcdefghij"),
        ("abcdefghijk", "ab...ghijk"),
        ("\u5f20" * 6, "\u5f20...\u5f20\u5f20"),
    ],
)
def test_a_text_that_is_too_long_loses_its_middle(text: str, shown: str) -> None:
    assert elide(text, 10) == shown
    assert cells(shown) <= 10


ROWS = [("name", "number", "other"), ("n" * 40, "1" * 20, "o" * 30), ("m", "2", "p")]


def test_the_last_column_gives_way_first_and_numbers_never() -> None:
    widths = [[*map(len, line.split())] for line in table(ROWS, right=(1,), width=80)]
    assert widths[1] == [32, 20, 24]
    assert [*map(len, table(ROWS, right=(1,), width=80)[1].split())] == [32, 20, 24]
    assert [*map(len, table(ROWS, right=(1,), width=70)[1].split())] == [24, 20, 22]


def test_a_column_that_is_to_stay_whole_does() -> None:
    line = table(ROWS, right=(1,), whole=(2,), width=70)[1]
    assert [*map(len, line.split())] == [16, 20, 30]


def test_a_table_may_be_wider_than_asked_where_all_is_as_narrow_as_it_may_be() -> None:
    assert len(table(ROWS, right=(1,), width=60, least=24)[1]) == 24 + 20 + 24 + 4
