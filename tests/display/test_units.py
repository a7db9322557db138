"""Numbers with their units, to the letter."""

import pytest

from leafgrad._display.units import count, size


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (-1536, "-1.5 KiB"),
        (16 * 1024**2, "16.0 MiB"),
        (3 * 1024**3, "3.0 GiB"),
        (5000 * 1024**4, "5000.0 TiB"),
    ],
)
def test_bytes_are_written_in_the_unit_that_fits(nbytes: int, text: str) -> None:
    assert size(nbytes) == text


def test_a_noun_has_a_plural_unless_there_is_one() -> None:
    assert [count(number, "node") for number in range(3)] == ["0 nodes", "1 node", "2 nodes"]
