"""Markup without what nothing asks for: its words and its links are the same."""

import pytest
from light_markup import lighter, tight

CASES = {
    "a link": ('<a class="reference internal" href="#a">A</a>', '<a href="#a">A</a>'),
    "a link to another site": ('<a class="reference external" href="b">B</a>', '<a href="b">B</a>'),
    "a button": ('<a class="headerlink" href="#a">A</a>',) * 2,
    "a term": (
        '<a href="#a"><span class="xref std std-term">gradient mode</span></a>',
        '<a href="#a">gradient mode</a>',
    ),
    "a page": ('<a href="a"><span class="std std-doc">A</span></a>', '<a href="a">A</a>'),
    "code in a link": ('<a href="a"><span class="std std-ref"><code>A</code></span></a>',) * 2,
    "words beside a link": ('<span class="std std-ref">A</span>',) * 2,
    "a cell": ('<div class="cell tag_a tag_b-c container">', '<div class="cell container">'),
    "a signature": ('tuple<span class="p">[</span><span class="w"> </span>', "tuple[ "),
    "a name in one": ('<span class="n">other</span>',) * 2,
}


@pytest.mark.parametrize(("html", "expected"), CASES.values(), ids=CASES)
def test_a_name_stays_where_something_asks_for_it(html: str, expected: str) -> None:
    assert lighter(html) == expected


def test_only_the_article_is_indented_on_purpose() -> None:
    article = "<article>\n  <pre>\n  A</pre>\n\n</article>"
    assert tight(f"<p>\n    <b>\n\n{article}\n   <i>\n") == f"<p>\n<b>\n{article}\n<i>\n"
