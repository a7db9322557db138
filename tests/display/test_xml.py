"""Markup: every text is escaped, and only what can be seen is in it."""

import pytest

from leafgrad._display.markup import element, path, text, visible


@pytest.mark.parametrize(
    ("content", "markup"),
    [
        ("a < b & 'c' > \"d\"", "a &lt; b &amp; &#x27;c&#x27; &gt; &quot;d&quot;"),
        (7, "7"),
        ("\x00\x1f\x7f\n", "\ufffd" * 4),
        ("\u202e\u200f\u2066", "\ufffd" * 3),
        ("\ud800\ufffe\ue000", "\ufffd" * 3),
        ("重 ש é", "重 ש é"),
    ],
)
def test_a_text_reads(content: object, markup: str) -> None:
    assert text(content) == markup


def test_what_can_be_seen_stays() -> None:
    assert visible("α × 🔥") == "α × 🔥"


@pytest.mark.parametrize(
    ("markup", "written"),
    [
        (element("g"), "<g/>"),
        (element("g", element("b"), text("<")), "<g><b/>&lt;</g>"),
        (element("a", class_="x y", aria_label='"', x=1.25, y=2.0, z=3), None),
    ],
)
def test_an_element_reads(markup: str, written: str | None) -> None:
    assert markup == (written or '<a class="x y" aria-label="&quot;" x="1.2" y="2" z="3"/>')


def test_a_path_starts_at_its_point() -> None:
    assert path((1.0, 2.26), "h3", "v4") == "M1 2.3h3v4"
