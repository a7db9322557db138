"""Sphinx's output is judged too, and the build agrees with the reader of pages."""

import io
import re
import shutil
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch
from warnings import catch_warnings

import yaml
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from tests.proving import Workers, WorkersFor

Building = Any
"""The fixture `build`: a small site that builds itself."""

CORPUS = Path(__file__).parent / "corpus"


ESCAPES = """\
# Page

```{unproven} python
:because: pseudocode of the engine's loop

for node in ready: visit(node)
```

:::{unproven}
:because: what someone else says

| x | True |
|---|---|
:::

```{claims-ledger}
```
"""


def test_ledger_counts_unproven_blocks_and_pages_show_their_reasons(build: Building) -> None:
    assert build(index=ESCAPES) == (0, "")
    shown = re.sub("<[^>]*>", "", build.page())
    assert "not proven: pseudocode of the engine’s loop" in shown.replace("'", "’")
    assert "not proven: what someone else says" in shown
    assert "Shown and not proven: 2" in shown
    assert "index.md:9: what someone else says" in shown
    assert build.ledger()["escapes"] == [
        {"page": "index.md", "line": 3, "because": "pseudocode of the engine's loop"},
        {"page": "index.md", "line": 9, "because": "what someone else says"},
    ]


def told_by_sphinx(kind: str, folder: Path, workers: Workers) -> dict[str, set[int]]:
    """Build the pages of the corpus that build quickly; return the lines of the problems of each.

    `kind` is the folder of the corpus.
    """
    shutil.copytree(CORPUS / kind, folder, dirs_exist_ok=True)
    for page in [*folder.glob("*.md"), *folder.glob("*/page.md")]:
        if "code-cell} python" in page.read_text(encoding="utf-8"):
            shutil.rmtree(page.parent) if page.name == "page.md" else page.unlink()
    files = [file for file in folder.glob("*/*.*") if file.suffix in {".md", ".rst"}]
    sides = [str(file.relative_to(folder)) for file in files if file.name != "page.md"]
    texts = {
        "index.md": "# Site\n",
        "conf.py": f"extensions = ['sphinx_claims']\nexclude_patterns = ['_*'] + {sides}\n",
        "pyproject.toml": "[tool.claims]\npython_fences = 'refuse'\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    warnings = io.StringIO()
    with (
        docutils_namespace(),
        catch_warnings(action="ignore"),
        patch("sphinx_claims._sphinx.extension.workers", lambda *_: nullcontext(workers)),
    ):
        where = (folder, folder, folder / "_out", folder / "_trees", "dummy")
        Sphinx(*where, status=None, warning=warnings).build()
    red = defaultdict(set)
    text = re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue())
    for path, line, message in re.findall(r"^(\S+\.md):(\d+): ERROR: (.*)", text, re.MULTILINE):
        if "[docutils]" not in message:
            red[path].add(int(line))
    return red


def test_sphinx_build_reports_the_lines_that_verify_reports(
    tmp_path: Path, workers_for: WorkersFor
) -> None:
    red = told_by_sphinx("false", tmp_path, workers_for(""))
    for file in (*tmp_path.glob("*.md"), *tmp_path.glob("*/page.md")):
        if file.name != "index.md":
            declared = yaml.safe_load(file.read_text(encoding="utf-8").split("---\n")[1])["red"]
            assert declared.keys() <= red[file.relative_to(tmp_path).as_posix()], file


def test_build_of_true_pages_reports_no_problem(tmp_path: Path, workers_for: WorkersFor) -> None:
    assert told_by_sphinx("true", tmp_path, workers_for("")) == {}


FOLD = """\
# Page

:::{claim} fold/sum
One plus one is 2.
:::

:::{fold} The proof of `1 + 1`
Count on your fingers.

```{code-cell} python
assert 1 + 1 == 2
```
:::
"""


def test_proof_is_folded_in_html_and_open_in_text(build: Building) -> None:
    assert build(index=FOLD) == (0, "")
    page = build.page()
    folded = re.search('<details class="proof">(.*?)</details>\n</div>', page, re.DOTALL)
    assert folded
    shown = re.sub("<[^>]*>", "", folded[1])
    assert shown.split("\n")[1:3] == ["The proof of 1 + 1", "Count on your fingers."]
    assert "assert 1 + 1 == 2" in shown
    assert build(index=FOLD, builder="text") == (0, "")
    assert "Count on your fingers." in (build.html / "index.txt").read_text()
