"""In an environment of another library, without torch, its pages are proven out of the box."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TICK = '✓<span class="claim-word"> true</span>'

README = Path(__file__).parent.parent / "README.md"
NO_TORCH = """\
import sys

class Forbidding:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"leafgrad", "torch"}:
            raise ModuleNotFoundError(f"{name} is not for this environment", name=name)

sys.meta_path.insert(0, Forbidding())
"""
LIBRARY = '''\
"""Areas."""

__all__ = ["square"]
__version__ = "3.1"


def square(side):
    """Return the area of a square.

    >>> from areas import square
    >>> square(3)
    9
    """
    return side * side
'''
INDEX = """\
# Areas

:::{claim} areas/square
:since: 3.0

The area of a square of side 3 is 9.
:::

```{code-cell} python
from areas import square

assert square(3) == 9
```

:::{claim} areas/old
:until: 3.0

Areas were once off by one.
:::

```{code-cell} python
assert square(3) == 10
```

## Alone

```{code-cell} python
:raises: "ModuleNotFoundError: torch is not for this environment"

import torch
```

```{claims-ledger}
```
"""
TOML = """\
[tool.claims]
pages = ["index.md"]
docstrings = ["areas"]
package = "areas"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write the docs of a library, and what keeps torch out of every process that they start."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "sitecustomize.py").write_text(NO_TORCH)
    (tmp_path / "areas.py").write_text(LIBRARY)
    (tmp_path / "index.md").write_text(INDEX)
    (tmp_path / "conf.py").write_text("extensions = ['sphinx_claims']\n")
    (tmp_path / "pyproject.toml").write_text(TOML)
    return tmp_path


def run(folder: Path, *command: str) -> str:
    path = [str(folder / "elsewhere"), str(folder), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.stderr, done.returncode) == ("", 0), done.stdout
    return done.stdout


def test_its_pages_and_examples_are_proven(project: Path) -> None:
    told = run(project, "sphinx_claims", "verify", "--json", "claims.json")
    assert "2 pages, 2 claims, 4 checks: all true" in told
    ledger = json.loads((project / "claims.json").read_text())
    assert (ledger["package"], ledger["areas"]) == ("areas", "3.1")
    words = {claim["id"]: claim["verdict"] for claim in ledger["claims"]}
    assert words == {"areas/square": "true", "areas/old": "skipped"}


def test_its_site_is_built_and_has_a_look(project: Path) -> None:
    run(project, "sphinx", "-q", "-W", ".", "_build/html")
    page = (project / "_build" / "html" / "index.html").read_text()
    assert "2 claims, 2 checks, areas 3.1" in page
    assert page.count(TICK) == 2
    assert 'href="_static/sphinx-claims.css' in page
    assert (project / "_build" / "html" / "_static" / "sphinx-claims.css").is_file()


def test_its_claims_are_tests(project: Path) -> None:
    plugins = ("-p", "no:cacheprovider", "-p", "no:xdist")
    told = run(project, "pytest", "-q", "--color=no", *plugins, "index.md")
    assert "2 passed, 1 skipped" in told


# --- The quick start


@pytest.mark.skipif(sys.platform == "win32", reason="its commands are for a POSIX shell")
def test_the_quick_start_of_the_readme_is_ten_lines_that_work(tmp_path: Path) -> None:
    text = README.read_text("utf-8")
    (script,) = re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(script.splitlines()) == 10

    def done(text: str) -> subprocess.CompletedProcess[str]:
        commands = f'claims() {{ {sys.executable} -m sphinx_claims "$@"; }}\n'
        commands += f'sphinx-build() {{ {sys.executable} -m sphinx "$@"; }}\n'
        (tmp_path / "pyproject.toml").write_text("[tool.claims]\n")
        return subprocess.run(
            ["bash", "-c", commands + text],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
        )

    right = done(f"set -e\n{script}")
    assert right.returncode == 0, right.stderr
    assert "1 page, 1 claim, 1 check: all true" in right.stdout
    page = (tmp_path / "docs" / "_build" / "index.html").read_text()
    assert "claim-true" in page
    again = script.replace("mkdir docs && ", "").replace("== 2", "== 3")
    wrong = done(f"set +e\n{again}")
    assert wrong.returncode == 1
    assert "docs/index.md:5: roots/four: claim is FALSE: 4**0.5 == 3" in wrong.stdout
    assert "roots/four: claim is FALSE: 4**0.5 == 3" in wrong.stderr
