"""The Sphinx extension: what it judges, what it shows, and that nothing is taken from a cache."""

import io
import json
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

Build = Callable[..., tuple[int, str]]

TRUE = """\
# Leaves

```{code-cell} python
import torch

x = torch.ones(2, requires_grad=True)
```

:::{claim} leaf/made-here
:sources: article L1

A tensor of rank {value}`x.dim()` is **made** here.
:::

```{code-cell} python
assert x.is_leaf
print(x.dim())  #> 1
```

- {claim}`x.requires_grad`, and in a list:

  ```{code-cell} python
  :raises: "RuntimeError: grad can be"

  (x * x).backward()
  ```

```pycon
>>> x.dim()
1
```
"""


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def built(extensions: Sequence[str] = ("leafgrad.claims",), **pages: str) -> tuple[int, str]:
        (tmp_path / "conf.py").write_text(
            f"extensions = {list(extensions)}\nexclude_patterns = ['_*']\n"
        )
        (tmp_path / "pyproject.toml").write_text(PYPROJECT)
        for name, text in pages.items():
            (tmp_path / f"{name}.md").write_text(text)
        warnings = io.StringIO()
        with docutils_namespace():
            out, trees = tmp_path / "_build" / "html", tmp_path / "_build" / "trees"
            app = Sphinx(tmp_path, tmp_path, out, trees, "html", status=None, warning=warnings)
            app.build()
        return app.statuscode, re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue())

    return built


PYPROJECT = """\
[tool.leafgrad.claims.documents]
article = "An article"
"""


def _html(folder: Path, page: str = "index") -> str:
    return (folder / "_build" / "html" / f"{page}.html").read_text()


def test_a_true_site_is_green_and_shows_what_was_executed(build: Build, tmp_path: Path) -> None:
    ledger = "\n```{claims-ledger}\n```\n"
    assert build(index=TRUE + ledger) == (0, "")
    html = _html(tmp_path)
    assert '<div class="claim claim-true docutils container" id="claim-leaf-made-here">' in html
    assert 'A tensor of rank <span class="value">1</span> is <strong>made</strong> here.' in html
    assert "✓ leaf/made-here" in html
    text = re.sub("<[^>]*>", "", html)
    assert text.count("RuntimeError: grad can be implicitly created only for scalar outputs") == 1
    assert "#&gt;" not in html
    assert 'href="#claim-leaf-made-here"' in html
    assert "5 checks · An article L1" in html


def test_the_ledger_says_of_each_claim_what_proves_it(build: Build, tmp_path: Path) -> None:
    build(index=TRUE)
    ledger = json.loads((tmp_path / "_build" / "html" / "claims.json").read_text())
    (claim,) = ledger["claims"]
    evidence = [(found["line"], found["kind"], found["verdict"]) for found in claim.pop("evidence")]
    assert ledger["torch"].startswith("2.")
    assert ledger["documents"] == {"article": "An article"}
    assert claim == {
        "id": "leaf/made-here",
        "statement": "A tensor of rank 1 is **made** here.",
        "page": "index.md",
        "line": 9,
        "verdict": "true",
        "sources": ["article L1"],
    }
    assert evidence == [
        (16, "assert", "true"),
        (17, "output", "true"),
        (20, "inline", "true"),
        (22, "raises", "true"),
        (29, "example", "true"),
    ]


def test_every_red_line_of_every_page_is_told_in_one_build(build: Build, tmp_path: Path) -> None:
    status, told = build(
        index="# A\n\n```{toctree}\nb\n```\n\n{claim}`1 > 2`\n",
        b="# B\n\n:::{claim} leaf/b\nNo evidence.\n:::\n\n```python\nx = 1\n```\n",
    )
    nothing = "nothing is checked between it and the next claim or heading"
    assert status == 1
    assert told.splitlines() == [
        f"b.md:3: ERROR: claim leaf/b has no evidence: {nothing} [claims]",
        "b.md:7: ERROR: nobody executes this python snippet: make it a {code-cell} [claims]",
        "index.md:7: ERROR: claim is FALSE: 1 > 2, where it is False [claims]",
    ]
    assert "✗ leaf/b" in _html(tmp_path, "b")


UNREAD = {
    "rst-code": "```{eval-rst}\n.. code-block:: python\n\n   x = 1\n```\n",
    "rst-literal": "```{eval-rst}\nSee::\n\n   import torch\n```\n",
    "rst-doctest": "```{eval-rst}\n>>> 1 + 1\n3\n```\n",
    "literalinclude": "```{literalinclude} conf.py\n:language: python\n```\n",
    "rst-claim": "```{eval-rst}\nOne is :claim:`1 > 2`.\n```\n",
    "rst-cell": "```{eval-rst}\n.. code-cell:: python\n\n   x = 1\n```\n",
}


@pytest.mark.parametrize("page", UNREAD.values(), ids=UNREAD)
def test_what_only_the_built_page_shows_is_in_the_census(page: str, build: Build) -> None:
    status, told = build(index=f"# Page\n\n{page}")
    assert status == 1
    assert re.search(r"^index.md:\d: ERROR: .*nobody (executes|evaluates)", told)


def test_a_page_that_did_not_change_is_red_once_its_library_does(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    library = tmp_path / "lib" / "doubling.py"
    library.parent.mkdir()
    library.write_text("def double(x):\n    return 2 * x\n")
    page = "# P\n\n```{code-cell} python\nfrom doubling import double\nassert double(2) == 4\n```\n"
    assert build(index=page) == (0, "")
    library.write_text("def double(x):\n    return 3 * x\n")
    status, told = build(index=page)
    assert status == 1
    assert (
        told == "index.md:5: ERROR: claim is FALSE: double(2) == 4, where double(2) is 6 [claims]\n"
    )
    assert build(index=page)[0] == 1


LIBRARY = '''\
"""Doubling. ``>>> 1``"""

__all__ = ["Twice", "double", "undocumented"]


def double(x):
    """Double it.

    >>> from doubling import double
    >>> double(2)
    5
    """
    return 2 * x


def undocumented(x):
    return x


class Twice:
    """Twice."""

    def of(self, x):
        """Double it.

        >>> from doubling import Twice
        >>> Twice().of(2)
        4
        """
        return 2 * x
'''


def test_docstring_examples_are_judged_in_the_same_run(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "doubling.py").write_text(LIBRARY)
    listed = "[tool.leafgrad.claims]\ndocstrings = ['doubling']\n" + PYPROJECT
    monkeypatch.setattr(f"{__name__}.PYPROJECT", listed)
    status, told = build(index="# Page\n")
    assert status == 1
    wrong = "example is FALSE: double(2) -> 5, but it gives '4'"
    assert told == f"doubling.py:10: ERROR: {wrong} [claims]\n"


def test_a_docstring_that_a_page_shows_and_nobody_executes_is_red(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "shown.py").write_text(LIBRARY)
    page = "# Page\n\n```{eval-rst}\n.. autofunction:: shown.double\n```\n"
    status, told = build(index=page, extensions=["leafgrad.claims", "sphinx.ext.autodoc"])
    assert status == 1
    assert "ERROR: nobody executes the examples of shown.double: name its module under" in told


def test_a_page_that_stops_is_told_once_and_still_shown(build: Build, tmp_path: Path) -> None:
    cell = "```{code-cell} python\n@\n```\n\n"
    stops = cell.replace("@", "import os; os._exit(1)")
    page = "# Page\n\n" + stops + cell.replace("@", "x = 1  #> 1 +") + "- {value}`x`\n"
    status, told = build(index=page)
    assert status == 1
    assert told.startswith("index.md:4: ERROR: the page stopped here: its process ended with exit")
    assert len(told.splitlines()) == 1
    assert "os._exit" in re.sub("<[^>]*>", "", _html(tmp_path))


def test_cells_in_tabs_and_quotes_keep_their_order(build: Build, tmp_path: Path) -> None:
    cell = "```{code-cell} python\nn = globals().get('n', 0) + 1\nprint(n)\n```"
    quoted = textwrap.indent(cell, "> ", lambda _: True)
    assert build(index=f"# Page\n\n{cell}\n\n{quoted}\n\n:::{{note}}\n{cell}\n:::\n") == (0, "")
    shown = re.findall(r'<div class="cell_output.*?<span></span>(\d)', _html(tmp_path), re.DOTALL)
    assert shown == ["1", "2", "3"]
