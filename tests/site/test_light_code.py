"""Highlighted code with fewer tags says the same, in the same colours."""

import pytest
from light_code import lighter, plain

STYLES = ("a11y-high-contrast-light", "github-dark")
CASES = {
    "a name": ('<span class="n">x</span>', "x"),
    "punctuation": ('<span class="p">(</span><span class="n">x</span>', "(x"),
    "a keyword": ('<span class="k">for</span>', '<span class="k">for</span>'),
    "coloured in the dark only": ('<span class="nn">torch</span>',) * 2,
    "a dot": (
        '<a href="#"><span class="n">a</span><span class="o">.</span><span class="n">b</span></a>',
        '<a href="#">a.b</a>',
    ),
    "neighbours": (
        '<span class="s2">"</span><span class="s2">a</span> <span class="s2">"</span>',
        '<span class="s2">"a "</span>',
    ),
    "neighbours of two colours": ('<span class="s2">a</span><span class="mi">1</span>',) * 2,
}


@pytest.mark.parametrize(("code", "expected"), CASES.values(), ids=CASES)
def test_a_tag_stays_where_a_style_knows_it(code: str, expected: str) -> None:
    assert lighter(code, plain(*STYLES)) == expected
