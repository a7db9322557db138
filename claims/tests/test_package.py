"""The prover as a package: its imports, their direction, and the files of its wheel."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "sphinx_claims"
MODULES = sorted(PACKAGE.rglob("*.py"))


def name(module: Path) -> str:
    return module.relative_to(PACKAGE).with_suffix("").as_posix()


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_the_prover_imports_neither_leafgrad_nor_torch(module: Path) -> None:
    imported = re.findall(r"^ *(?:from|import) ([\w.]+)", module.read_text("utf-8"), re.MULTILINE)
    assert not {path.partition(".")[0] for path in imported} & {"", "leafgrad", "torch"}


def test_the_wheel_contains_every_module_the_command_and_the_plugin(tmp_path: Path) -> None:
    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
        (entries,) = (name for name in names if name.endswith("entry_points.txt"))
        declared = files.read(entries).decode()
    modules = {path.relative_to(ROOT / "src").as_posix() for path in MODULES}
    assert modules | {"sphinx_claims/py.typed"} <= names
    assert not [name for name in names if name.startswith("tests")]
    assert "[console_scripts]\nclaims = sphinx_claims.__main__:main" in declared
    assert "[pytest11]\nsphinx-claims = sphinx_claims." in declared


def test_version_and_dependencies_match_the_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert importlib.metadata.version("sphinx-claims") == project["version"]
    required = importlib.metadata.requires("sphinx-claims") or []
    needed = sorted(name for name in required if "extra ==" not in name)
    assert needed == project["dependencies"]


@pytest.mark.skipif(sys.platform == "win32", reason="its commands are for a POSIX shell")
def test_the_quick_start_of_the_readme_has_ten_lines_and_works(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
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
