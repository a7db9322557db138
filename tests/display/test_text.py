"""Pieces of text and markup: widths, tables, units, escaping."""

import pytest

from leafgrad._display.markup import element, path, text
from leafgrad._display.table import table
from leafgrad._display.text_width import cells, elide, width, wrap
from leafgrad._display.units import count, size


@pytest.mark.parametrize(
    ("content", "columns", "pixels"),
    [
        ("abc", 3, 18.9),
        ("", 0, 0),
        ("\u5f20\u91cf", 4, 25),
        ("e\u0301", 1, 6.3),
        ("×12 …", 5, 31.5),
    ],
)
def test_width_counts_wide_letters_twice(content: str, columns: int, pixels: float) -> None:
    assert cells(content) == columns
    assert width(content, 10) == pytest.approx(pixels, abs=6)


@pytest.mark.parametrize(
    ("content", "elided"),
    [
        ("abcdefghij", "abcdefghij"),
        ("abcdefghijk", "ab...ghijk"),
        ("\u5f20" * 10, "\u5f20...\u5f20\u5f20"),
        ("a" * 10**6 + "z", "aa...aaaaz"),
        ("[-1.5, -2.75]", "[...]"),
        ("[0, 1, 2, 3]", "[0...2, 3]"),
    ],
)
def test_long_text_is_cut_in_the_middle_but_not_within_numbers(content: str, elided: str) -> None:
    assert elide(content, 10) == elided


ROWS = [("name", "number", "other"), ("n" * 40, "1" * 20, "o" * 30), ("m", "2", "p")]


@pytest.mark.parametrize(
    ("options", "widths"),
    [
        ({"width": 80}, [32, 20, 24]),
        ({"width": 70}, [24, 20, 22]),
        ({"width": 70, "whole": (2,)}, [16, 20, 30]),
        ({"width": 60, "least": 24}, [24, 20, 24]),
    ],
)
def test_table_narrows_its_last_column_first_and_never_numbers(
    options: dict[str, int], widths: list[int]
) -> None:
    lines = table(ROWS, right=(1,), **options)  # type: ignore[arg-type]
    assert [*map(len, lines[1].split())] == widths


@pytest.mark.parametrize(
    ("nbytes", "expected"),
    [
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (-1536, "-1.5 KiB"),
        (16 * 1024**2, "16.0 MiB"),
        (5000 * 1024**4, "5000.0 TiB"),
    ],
)
def test_number_of_bytes_is_shown_in_a_fitting_unit(nbytes: int, expected: str) -> None:
    assert size(nbytes) == expected


def test_counted_noun_is_in_the_plural_unless_count_is_one() -> None:
    assert [count(number, "node") for number in range(3)] == ["0 nodes", "1 node", "2 nodes"]


@pytest.mark.parametrize(
    ("content", "markup"),
    [
        ("a < b & 'c' > \"d\"", "a &lt; b &amp; &#x27;c&#x27; &gt; &quot;d&quot;"),
        (7, "7"),
        ("\x00\x1f\x7f\n\u202e\u200f\u2066\ud800\ufffe\ue000", "\ufffd" * 10),
        ("α × 重 ש é 🔥", "α × 重 ש é 🔥"),
    ],
)
def test_text_in_markup_is_escaped_and_visible(content: object, markup: str) -> None:
    assert text(content) == markup


def test_elements_and_paths_are_written_as_markup() -> None:
    assert element("g", element("b"), text("<")) == "<g><b/>&lt;</g>"
    written = '<a class="x y" aria-label="&quot;" x="1.2" y="2" z="3"/>'
    assert element("a", class_="x y", aria_label='"', x=1.25, y=2.0, z=3) == written
    assert path((1.0, 2.26), "h3", "v4") == "M1 2.3h3v4"


@pytest.mark.parametrize("width", [10, 17, 40])
def test_wrapped_chinese_line_does_not_begin_with_punctuation(width: int) -> None:
    text = "反向传播（从 `loss` 开始）：把 `x` 换成“叶子”，因此 `.grad` 为 None；请重试。"
    lines = wrap(text, width, "  ")
    assert max(map(cells, lines)) <= width
    assert not any(line.lstrip()[0] in "，。、；：）" or line[-1] in "（“" for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
