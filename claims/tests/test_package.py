"""The prover as a package: what it imports, in which direction, and what is shipped."""

import ast
import importlib.metadata
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "sphinx_claims"
MODULES = sorted(PACKAGE.rglob("*.py"))


def name(module: Path) -> str:
    return module.relative_to(PACKAGE).with_suffix("").as_posix()


def imported_modules(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} says where from"
            yield node.module or ""


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_the_prover_imports_nothing_of_the_library(module: Path) -> None:
    assert "leafgrad" not in {path.partition(".")[0] for path in imported_modules(module)}


def test_the_wheel_holds_every_module_the_command_and_the_plugin(tmp_path: Path) -> None:
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


def test_the_version_and_the_needs_are_the_ones_of_the_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert importlib.metadata.version("sphinx-claims") == project["version"]
    required = importlib.metadata.requires("sphinx-claims") or []
    needed = sorted(name for name in required if "extra ==" not in name)
    assert needed == project["dependencies"]
