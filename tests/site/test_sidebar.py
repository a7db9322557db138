"""The list of all pages beside a page: all of them, and open where the reader is."""

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


def test_each_page_is_listed_once_in_its_order(listed: Sidebar) -> None:
    html = listed.write("b", "{}.html".format)
    assert re.findall('href="([^"]*)"', re.sub("<use.*?>", "", html)) == [
        *("a.html", "a/one.html", "a/two.html", "a/two/x.html", "b.html")
    ]


def test_a_title_has_its_number_and_its_code(listed: Sidebar) -> None:
    html = listed.write("b", str)
    assert '>1.2 One<code class="literal">&lt;grad&gt;</code></a>' in html
    assert ">A &amp; co</a>" in html
    assert 'aria-label="Toggle navigation of A &amp; co"' in html


def test_what_leads_to_the_page_is_open(listed: Sidebar) -> None:
    html = listed.write("a/two/x", str)
    opened = re.findall('<input [^>]* aria-label="Toggle navigation of ([^"]*)"[^>]* checked', html)
    assert opened == ["A &amp; co", "Two"]
    assert html.count('aria-current="page"') == html.count("current-page") == 1
    assert '<li class="current current-page"><a class="reference" href="a/two/x" aria' in html
    assert " checked" not in listed.write("search", str)
