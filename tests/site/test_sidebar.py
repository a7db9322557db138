"""The list of pages beside a page: it is open where the reader is, and only there."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
from docutils import nodes
from sidebar import Sidebar

TITLES = {"a": "A & co", "b": "B", "a/one": "One", "a/two": "Two", "a/two/x": "X"}
BELOW = {"index": ["a", "b"], "a": ["a/one", "a/two"], "a/two": ["a/two/x"]}


@pytest.fixture
def listed() -> Sidebar:
    titles = {page: nodes.title("", title) for page, title in TITLES.items()}
    titles["a/one"] += nodes.literal("", "<grad>")
    env: Any = SimpleNamespace(
        toctree_includes=BELOW,
        titles=titles,
        toc_secnumbers={"a/one": {"": (1, 2), "#x": (1, 2, 1)}},
        config=SimpleNamespace(root_doc="index"),
    )
    return Sidebar(env)


LISTED = {
    "index": ["a", "b"],
    "b": ["a", "b"],
    "a": ["a", "a/one", "a/two", "b"],
    "a/one": ["a", "a/one", "a/two", "b"],
    "a/two": ["a", "a/one", "a/two", "a/two/x", "b"],
    "a/two/x": ["a", "a/one", "a/two", "a/two/x", "b"],
    "search": ["a", "b"],
}


@pytest.mark.parametrize(("here", "expected"), LISTED.items())
def test_sidebar_lists_parents_and_siblings(
    listed: Sidebar, here: str, expected: list[str]
) -> None:
    assert re.findall('href="([^"]*)"', listed.write(here, str)) == expected


def test_sidebar_nests_pages_with_their_numbers_and_code_in_titles(listed: Sidebar) -> None:
    html = listed.write("a/two", str)
    assert '>1.2 One<code class="literal">&lt;grad&gt;</code></a>' in html
    shape = re.sub(r"<a [^>]*>|</a>| class=\"[^\"]*\"", "", html)
    one = "1.2 One<code>&lt;grad&gt;</code>"
    assert shape == (
        f"<ul><li>A &amp; co<ul><li>{one}</li><li>Two<ul><li>X</li></ul></li></ul></li>"
        "<li>B</li></ul>"
    )


def test_sidebar_marks_the_page_and_its_parents(listed: Sidebar) -> None:
    html = listed.write("a/two/x", str)
    current = re.findall('<li class="[^"]*\\bcurrent\\b[^"]*"><a [^>]*href="([^"]*)"', html)
    assert current == ["a", "a/two", "a/two/x"]
    assert html.count('aria-current="page"') == html.count("current-page") == 1
    assert '<li class="current current-page"><a class="reference" href="a/two/x" aria' in html
    assert "current" not in listed.write("search", str)
