"""In an environment of another library, without torch, its pages are proven out of the box."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
NO_TORCH = """\
import sys

class Forbidding:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"leafgrad", "torch"}:
            raise ModuleNotFoundError(f"{name} is not for this environment", name=name)

sys.meta_path.insert(0, Forbidding())
"""
FILES = {
    "elsewhere/sitecustomize.py": NO_TORCH,
    "areas.py": '__all__ = []\n__version__ = "3.1"\n\n\ndef square(a):\n    return a * a\n',
    "conf.py": "extensions = ['sphinx_claims']\n",
    "pyproject.toml": "[tool.claims]\npages = ['index.md']\npackage = 'areas'\n",
    "index.md": """\
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

{claim}`square(3) == 10`

## Alone

```{code-cell} python
:raises: "ModuleNotFoundError: torch is not for this environment"

import torch
```
""",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write the docs of a library, and what keeps torch out of every process that they start."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
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


def test_its_pages_are_proven_in_every_way(project: Path) -> None:
    told = run(project, "sphinx_claims", "verify", "--json", "claims.json")
    assert "1 page, 2 claims, 3 checks: all true" in told
    ledger = json.loads((project / "claims.json").read_text())
    assert (ledger["package"], ledger["areas"]) == ("areas", "3.1")
    words = {claim["id"]: claim["verdict"] for claim in ledger["claims"]}
    assert words == {"areas/square": "true", "areas/old": "skipped"}
    plugins = ("-p", "no:cacheprovider", "-p", "no:xdist")
    told = run(project, "pytest", "-q", "--color=no", *plugins, "index.md")
    assert "2 passed, 1 skipped" in told


# --- The quick start


@pytest.mark.skipif(sys.platform == "win32", reason="its commands are for a POSIX shell")
def test_the_quick_start_of_the_readme_is_ten_lines_that_work(tmp_path: Path) -> None:
    text = README.read_text("utf-8")
    (script,) = re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(script.splitlines()) == 10

    commands = f'claims() {{ {sys.executable} -m sphinx_claims "$@"; }}\n'
    commands += f'sphinx-build() {{ {sys.executable} -m sphinx "$@"; }}\n'
    (tmp_path / "pyproject.toml").write_text("[tool.claims]\n")

    def done(text: str) -> subprocess.CompletedProcess[str]:
        bash = ["bash", "-c", commands + text]
        return subprocess.run(bash, cwd=tmp_path, check=False, capture_output=True, text=True)

    right = done(f"set -e\n{script}")
    assert right.returncode == 0, right.stderr
    assert "1 page, 1 claim, 1 check: all true" in right.stdout
    html = tmp_path / "docs" / "_build"
    assert "claim-true" in (html / "index.html").read_text()
    assert (html / "_static" / "sphinx-claims.css").is_file()
    wrong = done(script.replace("mkdir docs && ", "").replace("== 2", "== 3"))
    assert wrong.returncode == 1
    assert "docs/index.md:5: roots/four: claim is FALSE: 4**0.5 == 3" in wrong.stdout
    assert "roots/four: claim is FALSE: 4**0.5 == 3" in wrong.stderr
