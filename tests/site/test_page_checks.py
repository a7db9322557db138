"""The checks of every page of a built site; each test breaks one of them."""

import random
from pathlib import Path

import pytest
from page_checks import LIGHT, Site

HEAD = """\
<!doctype html><title>A</title>
<link rel="canonical" href="https://a.b/c"><link rel="stylesheet" href="_static/a.css?v=1">
<script src="_static/a.js"></script>
"""
BODY = """\
<h1 id="here">A</h1><a href="#here">1</a> <a href="b/c%20d.html#there">2</a>
<a href="https://a.b/c">3</a> <a href="mailto:a@b.c">4</a> <a href="_notebooks/a.ipynb">5</a>
<a href="/of/a.html">6</a>
<img src="data:image/png;base64,AA" alt="A curve"><svg><path d="M0 0"/></svg>
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name, text in {
        "a.html": HEAD + BODY,
        "b/c d.html": '<p id="there"><a href="../a.html#here">back</a></p>',
        "_static/a.css": "p { background: url(a.svg) }",
        "_static/a.js": "",
        "_notebooks/a.ipynb": "{}",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return tmp_path


def told(site: Path) -> list[str]:
    return [
        f"{file.relative_to(site)}: {problem}" for file, problem in Site(site, "/of/").problems()
    ]


ELSEWHERE = "nothing may be fetched from another site: "
NO_FILE = "a link must lead to a file of the site, not to "
NO_PLACE = "a link must lead to a place of its page, not to "
BROKEN = {
    '<script src="https://a.b/c"></script>': f"{ELSEWHERE}https://a.b/c",
    '<img alt="A" src="//a.b/c.png">': f"{ELSEWHERE}//a.b/c.png",
    '<link rel="preload" href="http://a.b/c">': f"{ELSEWHERE}http://a.b/c",
    '<p style="background: url(https://a.b/c)">': f"{ELSEWHERE}https://a.b/c",
    '<a href="gone.html">A</a>': f"{NO_FILE}gone.html",
    '<script src="gone.js"></script>': f"{NO_FILE}gone.js",
    '<a href="/of/gone.html">A</a>': f"{NO_FILE}/of/gone.html",
    '<a href="#gone">A</a>': f"{NO_PLACE}#gone",
    '<a href="b/c%20d.html#x">A</a>': f"{NO_PLACE}b/c%20d.html#x",
    '<img src="data:,">': "a picture must have an alternative text: data:,",
}


@pytest.mark.parametrize(("html", "problem"), BROKEN.items())
def test_broken_link_or_picture_is_reported_with_its_page(
    html: str, problem: str, site: Path
) -> None:
    assert told(site) == []
    (site / "a.html").write_text(HEAD + BODY + html)
    assert told(site) == [f"a.html: {problem}"]


@pytest.mark.parametrize("style", ["@import 'https://a.b/c';", "p { src: url(https://a.b/c) }"])
def test_style_from_another_site_is_reported(style: str, site: Path) -> None:
    (site / "_static" / "a.css").write_text(style)
    assert told(site) == ["_static/a.css: a style must stand on this site, not at https://a.b/c"]


@pytest.mark.parametrize("heavy", ["a.html", "_static/a.js"])
def test_heavy_page_is_reported_unless_its_pictures_are_heavy(heavy: str, site: Path) -> None:
    noise = random.Random(0).randbytes(LIGHT).hex()
    (site / "a.html").write_text(f"{HEAD}{BODY}<svg>{noise}</svg>")
    assert told(site) == []
    (site / heavy).write_text(noise if heavy.endswith(".js") else f"{HEAD}{BODY}{noise}")
    (problem,) = told(site)
    assert problem.startswith("a.html: a page must have at most 64,000 bytes compressed, not 7")
