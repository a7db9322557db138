"""Widths of text that no font is at hand for."""

import pytest

from leafgrad._display.text_width import shorten, width


@pytest.mark.parametrize(
    ("text", "letters"),
    [("", 0), ("MulBackward0", 12), ("×12 …", 5), ("e\u0301", 1)],
)
def test_latin_text_is_as_wide_as_its_letters(text: str, letters: int) -> None:
    assert width(text, 10) == pytest.approx(6.3 * letters)


@pytest.mark.parametrize(("wider", "text"), [("ש", "s"), ("重", "ש"), ("🔥", "ש")])
def test_letters_of_other_fonts_may_be_wider(wider: str, text: str) -> None:
    assert width(wider, 10) > width(text, 10)


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("short", "short"),
        ("just eight", "just eight"),
        ("rather longer", "rath…onger"),
        ("a" * 10**7 + "z", "aaaa…aaaaz"),
        ("重" * 10, "重重…重重"),
    ],
)
def test_a_long_text_loses_its_middle(text: str, short: str) -> None:
    assert shorten(text, 10) == short
