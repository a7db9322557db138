"""Where the routes through a small tutorial lead, and what is said of one that is broken."""

import re
from io import StringIO
from pathlib import Path

import pytest
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from tests.sphinx_builds import build

CONF = """
extensions = ["myst_parser", "routes"]
source_suffix = {".md": "markdown"}  # the default dict is shared between sites
root_doc = "tutorial/index"
"""
TREE = "\n```{toctree}\n:numbered: 2\n:hidden:\n\none\ntwo\n```\n"
LEARNER = "# Tutorial\n\n```{route} learner\n```\n"
INDEX = LEARNER + "\n```{route} pinn\n\na\nc\n```\n" + TREE
PAGES = {
    "one": "# Begin\n\n```{toctree}\na\nb\n```\n",
    "two": "# Go on\n\n```{toctree}\nc\n```\n",
    **{name: f"# Chapter `{name}` & more\n\n## A heading\n" for name in "abc"},
}


class Site:
    """A tutorial of two parts. `site(index)` builds it, and `site.warnings` are the warnings."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "tutorial").mkdir()
        (folder / "conf.py").write_text(CONF)
        for name, text in PAGES.items():
            (folder / "tutorial" / f"{name}.md").write_text(text)
        self.warnings: list[str] = []

    def __call__(self, index: str, **pages: str) -> None:
        for name, text in {**pages, "index": index}.items():
            (self._folder / "tutorial" / f"{name}.md").write_text(text)
        out, said = self._folder / "_build", StringIO()
        where = (self._folder, self._folder, out, out, "html")
        with docutils_namespace():
            build(Sphinx(*where, status=None, warning=said, parallel=2))
        lines = re.sub("\x1b[^m]*m", "", said.getvalue()).splitlines()
        self.warnings = [line.removeprefix(f"{self._folder}/tutorial/") for line in lines]

    def page(self, name: str) -> str:
        """Return the text of a page, with the icons as @."""
        text = (self._folder / "_build" / "tutorial" / f"{name}.html").read_text()
        return re.sub("<svg.*?</svg>", "@", text)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_chapters_show_their_places_on_routes_and_the_tutorial_lists_them(site: Site) -> None:
    site(INDEX)
    assert site.warnings == []
    learner = '<a href="index.html#route-learner">@Learner: 3 of 3</a>'
    pinn = '<a href="index.html#route-pinn">@PINN practitioner: 2 of 2</a>'
    a, b, c = map(site.page, "abc")
    assert f'</h1>\n<p class="routes">{learner} {pinn}</p>' in c
    assert "@Learner: 2 of 3" in b
    assert "@PINN" not in b
    assert '<p>@Learner, next: <a href="b.html">Chapter b &amp; more</a></p>' in a
    assert '<p>@Learner, next: <a href="two.html">Go on</a></p>' in b  # each part has a page
    assert '<p>@PINN practitioner, next: <a href="c.html">Chapter c &' in a
    assert "<p>@PINN practitioner: the route ends here." in c
    learner, pinn = re.findall(r'<div class="route-list.*?</div>', site.page("index"), re.DOTALL)
    assert re.findall(r'href="(\w+)\.html"', learner) == ["one", "a", "b", "two", "c"]
    numbers = re.findall(r'<span class="number">(.*?) </span>', learner)
    assert numbers == ["1", "1.1", "1.2", "2", "2.1"]
    assert re.findall(r'href="(\w)\.html"', pinn) == ["a", "c"]
    assert "<ol" in pinn
    assert 'class="pre">b</span></code> &amp; more</a>' in learner


def test_route_includes_part_without_chapters_and_omits_excluded_chapter(site: Site) -> None:
    index = INDEX.replace("a\nc", "a").replace("learner\n", "learner\n\n-b\n")
    site(index, two=PAGES["c"], c="---\norphan: 1\n---\n\n# C\n")
    assert site.warnings == []
    assert "@Learner: 2 of 2" in site.page("two")
    assert 'next: <a href="two.html">Chapter c &amp; more</a></p>' in site.page("a")
    assert "@Learner" not in site.page("b")


def test_list_omits_a_part_without_chapters_on_the_route(site: Site) -> None:
    site(INDEX.replace("learner\n", "learner\n\n-c\n"))
    learner = re.findall(r'<div class="route-list.*?</div>', site.page("index"), re.DOTALL)[0]
    assert re.findall(r'href="(\w+)\.html"', learner) == ["one", "a", "b"]


def test_second_heading_of_a_part_is_reported(site: Site) -> None:
    site(INDEX, two=f"{PAGES['two']}\n## A heading\n")
    (warning,) = site.warnings
    assert warning.startswith("two.md: WARNING: the page of a part must have one heading:")


NAMED = "index.md:6: WARNING: a route must name each chapter once, in the order of the tutorial"


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        ("a\nc", "a\nd", "index.md:6: WARNING: a route must lead to chapters, not to tutorial/d"),
        ("a\nc", "c\na", f"{NAMED}: a c"),
        ("a\nc", "a\na", f"{NAMED}: a"),
        ("} pinn", "} expert", "index.md:6: ERROR: a route must be one of learner, pinn, not"),
    ],
    ids=["elsewhere", "back", "twice", "unknown route"],
)
def test_broken_route_is_reported(site: Site, old: str, new: str, warning: str) -> None:
    site(INDEX.replace(old, new))
    assert warning in "\n".join(site.warnings)
