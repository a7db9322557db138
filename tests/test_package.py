"""The package as a whole."""

import ast
import importlib.metadata
import os
import re
import tomllib
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

import leafgrad
from tests.apart import RunApart

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "leafgrad"
LIBRARY = sorted(PACKAGE.rglob("*.py"))
DOOR = sorted((PACKAGE / "_autograd").rglob("*.py"))

# --- Public names


API = {
    **{name: getattr(leafgrad, name) for name in leafgrad.__all__},
    **{f"types.{name}": getattr(leafgrad.types, name) for name in leafgrad.types.__all__},
}


def test_public_names_are_documented() -> None:
    assert all(thing.__module__.startswith("leafgrad._") for thing in API.values())
    assert [name for name, thing in API.items() if not thing.__doc__] == []


def test_dir_of_package_has_public_names_only() -> None:
    shown = {name for name in dir(leafgrad) if not name.startswith("__")}
    assert shown == {*leafgrad.__all__, "types"}


def test_public_names_are_in_the_reference() -> None:
    pages = (ROOT / "docs" / "reference").glob("*.md")
    text = "\n".join(page.read_text("utf-8") for page in pages)
    named = {*re.findall(r"^\.\. auto\w+:: leafgrad\.([\w.]+)$", text, re.MULTILINE)}
    assert API.keys() <= named


def test_version_matches_metadata_and_citation() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert leafgrad.__version__ == declared == importlib.metadata.version("leafgrad")
    assert f"\nversion: {declared}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_torch_is_the_only_dependency() -> None:
    required = importlib.metadata.requires("leafgrad") or []
    assert [name for name in required if "extra ==" not in name] == ["torch>=2.10"]


# --- Imports that import-linter does not check


def imported_modules(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BEHIND_THE_SURFACE = re.compile(r"\b(?:from|import) leafgrad\.(?!testing\b)|\bleafgrad\._\w")


def test_pages_use_public_names_only() -> None:
    used = {page: BEHIND_THE_SURFACE.findall(page.read_text("utf-8")) for page in PAGES}
    assert {page: names for page, names in used.items() if names} == {}


# --- Private parts of PyTorch

BEHIND_THE_DOOR = {"next_functions"}
PUBLIC = {"_asdict", "_fields", "_replace"}  # members of named tuples are documented by Python
REFLECTION = {"getattr", "hasattr", "setattr", "delattr"}


def is_private(name: str) -> bool:
    by_its_name = name.startswith("_") and not name.endswith("_")
    return name in BEHIND_THE_DOOR or (by_its_name and name not in PUBLIC)


def private_accesses(source: str) -> Iterator[str]:
    """Yield private names that a source uses, except its own and those of `_autograd`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls" | "_autograd")):
                continue
            case ast.Attribute(attr=name) if is_private(name):
                yield name
            case ast.Call(
                func=ast.Name(id=reflection), args=[_, ast.Constant(value=str(name)), *_]
            ):
                if reflection in REFLECTION and is_private(name):
                    yield name
    for module in imported_modules(source):
        if module.startswith("torch.") and any(map(is_private, module.split("."))):
            yield module


WALLS = [module for module in LIBRARY if module not in DOOR]


def test_only_autograd_package_uses_private_names_of_pytorch() -> None:
    touched = {module: [*private_accesses(module.read_text("utf-8"))] for module in WALLS}
    assert {module: names for module, names in touched.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("t._version", ["_version"]),
        ("torch._C._functorch.unwrap(t)", ["_functorch", "_C"]),
        ("node.next_functions", ["next_functions"]),
        ("getattr(node, '_saved_self')", ["_saved_self"]),
        ("import torch._C", ["torch._C"]),
        ("from torch._C import _autograd", ["torch._C._autograd"]),
        ("self._cached, _autograd.next_functions(t.grad_fn), value.__class__", []),
        ("getattr(node, 'name'), sorted(t, '_version')", []),
    ],
)
def test_access_to_private_names_is_detected(source: str, names: list[str]) -> None:
    assert list(private_accesses(source)) == names


# --- Import

IMPORT_AND_COMPARE = """
import sys, warnings, random
import torch
warnings.simplefilter("error")

def state():
    return (
        torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(),
        torch.get_num_threads(), torch.initial_seed(), torch.get_rng_state().tolist(),
        random.getstate(), list(warnings.filters), sys.getrecursionlimit(),
    )

state_before, modules_before = state(), set(sys.modules)
import leafgrad
arrived = {name.split(".")[0] for name in set(sys.modules) - modules_before}
assert state() == state_before
print(*sorted(arrived - sys.stdlib_module_names))
"""


def test_import_changes_nothing_and_loads_leafgrad_only(run_apart: RunApart) -> None:
    run = run_apart(IMPORT_AND_COMPARE)
    assert (run.stdout, run.stderr, run.returncode) == ("leafgrad\n", "", 0)


# --- Wheel


def test_wheel_has_each_module_and_py_typed(tmp_path: Path) -> None:
    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {path.relative_to(ROOT / "src").as_posix() for path in LIBRARY}
    assert modules | {"leafgrad/py.typed"} <= names
    assert not [name for name in names if name.startswith(("tests", "docs"))]


NOT_FOR_THE_TREE = {
    "a path of one machine": re.compile(r"(?<![\w.~])/(?:work|root|home|Users|opt)/\w"),
    "a folder beside the tree": re.compile(r"\.\./shared\b"),
    "a registry's host": re.compile(
        r"\b(?:pypi|pythonhosted|npmjs|anaconda)\.(?:org|com)\b|\bdownload\.pytorch\b"
    ),
    "a number of an unpublished tracker": re.compile(r"\b[Ii]ssue #?\d"),
}


def own_files() -> Iterator[Path]:
    """Yield the files that git does not ignore."""
    lines = (ROOT / ".gitignore").read_text("utf-8").split()
    ignored = [".git", *(line.strip("/").rpartition("/")[2] for line in lines)]
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not any(fnmatch(name, i) for i in ignored)]
        kept = (name for name in files if not any(fnmatch(name, i) for i in ignored))
        yield from (Path(folder, name) for name in kept)


def test_repository_names_no_local_path_or_private_tracker() -> None:
    texts = {path: path.read_text("utf-8", errors="ignore") for path in own_files()}
    found = {
        path: [p.findall(text) for p in NOT_FOR_THE_TREE.values()] for path, text in texts.items()
    }
    assert {path: names for path, names in found.items() if any(names)} == {}
