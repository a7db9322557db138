"""No verdict outlives what it was taken from: a build is as true as the files it was built of.

Each experiment builds a true site, changes one thing that no file of the page itself shows, and
builds again in the same folders: the second build must be red.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

Building = Any
"""The fixture `build`: a small site that builds itself."""

INDEX = "# Site\n\n```{toctree}\n:glob:\n*\n```\n"
PAGE = """\
# Page

:::{{claim}} page/true
It is two.
:::

```{{code-cell}} python
{0}
```
"""


def _page(*lines: str) -> str:
    return PAGE.format("\n".join(lines))


TRUE = _page("x = 2", "assert x == 2")
FALSE = _page("x = 2", "assert x == 3")
ACCUSED = "page/true: claim is FALSE: x == 3, where x is 2"


def _change(folder: Path, number: int) -> None:
    """Change what the pages use: modules, a file and the environment.

    `number` is a number that differs between changes.
    """
    (folder / "outside" / "torch").mkdir(exist_ok=True, parents=True)
    (folder / "outside" / "torch" / "__init__.py").write_text(f"__version__ = '{number}.0'\n")
    (folder / "outside" / "library.py").write_text(f"NUMBER = {number}\n")
    (folder / "helper.py").write_text(f"NUMBER = {number}\n")
    (folder / "number.txt").write_text(str(number))
    os.environ["LEAFGRAD_NUMBER"] = str(number)


PAGES = {
    "library": _page("from library import NUMBER", "assert NUMBER == 2"),
    "helper": _page("import helper", "assert helper.NUMBER == 2"),
    "data": _page("number = open('number.txt').read()", "assert int(number) == 2"),
    "environment": _page("import os", "assert os.environ['LEAFGRAD_NUMBER'] == '2'"),
    "torch": _page("import torch", "assert torch.__version__ == '2.0'"),
}
FLAGS: dict[str, dict[str, Any]] = {
    "once-more": {},
    "all": {"force": True},
    "fresh": {"options": {"freshenv": True}},
    "two-jobs": {"jobs": 2},
}


@pytest.fixture(autouse=True)
def _outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: Building) -> None:
    build.has_its_own_processes = True
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "outside"), *sys.path]))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("LEAFGRAD_NUMBER", "2")


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_page_is_false_in_each_build_after_its_dependency_changed(
    flags: dict[str, Any], build: Building, tmp_path: Path
) -> None:
    pages = {name: page.replace("page/true", f"{name}/true") for name, page in PAGES.items()}
    toml = "package = 'torch'\npreload = ['torch']\n"
    for number, status in ((2, 0), (3, 1), (3, 1)):
        _change(tmp_path, number)
        found, told = build(toml=toml, index=INDEX, **pages, **flags)
        red = {line.partition(".md:")[0] for line in told.splitlines() if "FALSE" in line}
        assert (found, red) == (status, set(PAGES) if status else set())
        assert build.ledger()["torch"] == f"{number}.0"


def test_page_is_reported_after_an_included_file_becomes_false(
    build: Building, tmp_path: Path
) -> None:
    page = "# Page\n\n```{include} _part.md\n```\n"
    (tmp_path / "_part.md").write_text("Nothing yet.\n")
    assert build(index=page) == (0, "")
    (tmp_path / "_part.md").write_text("{claim}`1 > 2`\n")
    assert build(index=page)[0] == 1


SILENT = "suppress_warnings = ['*', 'claims', 'myst', 'ref', 'toc', '', 'any', 'myst.xref_missing']"


def test_excluded_page_is_listed_and_not_judged(build: Building) -> None:
    pages = {"index": INDEX, "gone": FALSE, "other": "# Other\n"}
    assert build(**pages)[0] == 1
    assert build(conf="exclude_patterns += ['gone.md']", **pages) == (0, "")
    assert build.ledger()["excluded"] == ["gone.md"]
    assert build.ledger()["built"] == ["index", "other"]
    excluded = "excluded, so nobody judges 1 Markdown file: gone.md"
    assert excluded in build.status.splitlines()


# Settings that could hide a false page, in compatible groups.
CONFIGURATIONS = {
    "force": [
        SILENT,
        "nb_execution_mode = 'force'",
        "nb_execution_allow_errors = True",
        "nb_execution_raise_on_error = False",
        "nb_output_stderr = 'remove'",
        "nb_remove_code_outputs = True",
        "source_suffix = {'.md': 'myst-nb'}",
    ],
    "off": [
        "nb_execution_mode = 'off'",
        "nb_custom_formats = {'.md': 'json.loads', '.txt': 'json.loads'}",
        "source_suffix = {'.rst': 'restructuredtext'}",
    ],
}


@pytest.mark.parametrize("conf", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_no_sphinx_configuration_hides_a_false_page(conf: list[str], build: Building) -> None:
    true = TRUE.replace("page/true", "index/true")
    status, told = build(conf="\n".join(conf), index=INDEX + true, false=FALSE)
    red = [line for line in told.splitlines() if "ERROR" in line]
    assert (status, red) == (1, [f"false.md:9: ERROR: {ACCUSED}"])


OTHERS = {
    "cell.rst": "Page\n====\n\n.. code-cell:: python\n\n   assert False\n",
    "claim.rst": "Page\n====\n\n.. claim:: rst/true\n\n   It is three.\n",
    "include.md": "# Page\n\n```{eval-rst}\n.. claim:: include/true\n\n   It is three.\n```\n",
    "text.txt": FALSE.replace("page/true", "text/true"),
    "book.ipynb": """{"cells": [{"cell_type": "code", "execution_count": 1, "metadata": {},
        "outputs": [{"name": "stdout", "output_type": "stream", "text": ["3"]}],
        "source": ["print(2)"]}], "metadata": {"kernelspec": {"display_name": "Python 3",
        "language": "python", "name": "python3"}}, "nbformat": 4, "nbformat_minor": 4}""",
}


def test_unjudged_source_with_cells_or_claims_is_reported(build: Building, tmp_path: Path) -> None:
    for name, text in OTHERS.items():
        (tmp_path / name).write_text(text)
    conf = "source_suffix = {'.md': 'myst-nb', '.rst': 'restructuredtext', '.txt': 'myst-nb'}"
    status, told = build(conf=conf, index=TRUE)
    lines = [
        line for line in told.splitlines() if "is not executed" in line or "nobody judges" in line
    ]
    red = {name for name in OTHERS if any(f"{name}:" in line for line in lines)}
    assert (status, red) == (1, set(OTHERS))


def test_asserts_are_executed_under_python_with_optimization(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(FALSE)
    command = [sys.executable, "-OO", "-m", "sphinx_claims", "verify", "page.md"]
    (tmp_path / "pyproject.toml").write_text("[tool.claims]\n")
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"page.md:9: {ACCUSED}\n" in done.stdout
