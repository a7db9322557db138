"""The package as a whole: its surface, who imports whom, and what the tree may not contain."""

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

# --- The surface


API = {
    **{name: getattr(leafgrad, name) for name in leafgrad.__all__},
    **{f"types.{name}": getattr(leafgrad.types, name) for name in leafgrad.types.__all__},
}


def test_every_public_name_comes_from_the_package_and_is_documented() -> None:
    assert all(thing.__module__.startswith("leafgrad._") for thing in API.values())
    assert [name for name, thing in API.items() if not thing.__doc__] == []


def test_dir_shows_the_public_names_and_nothing_private() -> None:
    shown = {name for name in dir(leafgrad) if not name.startswith("__")}
    assert shown == {*leafgrad.__all__, "types"}


@pytest.mark.parametrize("name", API)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    pages = (ROOT / "docs" / "reference").glob("*.md")
    named = re.compile(rf"^\.\. auto\w+:: leafgrad\.{name}$", re.MULTILINE)
    assert any(named.search(page.read_text("utf-8")) for page in pages)


def test_the_version_is_the_one_of_the_metadata_and_of_the_citation() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert leafgrad.__version__ == declared == importlib.metadata.version("leafgrad")
    assert f"\nversion: {declared}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_torch_is_the_only_dependency_at_run_time() -> None:
    required = importlib.metadata.requires("leafgrad") or []
    assert [name for name in required if "extra ==" not in name] == ["torch>=2.10"]


# --- What imports what: import-linter holds the rest, in pyproject.toml


def imported_modules(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BEHIND_THE_SURFACE = re.compile(r"\b(?:from|import) leafgrad\.|\bleafgrad\._\w")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_uses_the_public_surface_only(page: Path) -> None:
    assert BEHIND_THE_SURFACE.findall(page.read_text("utf-8")) == []


# --- One door to what PyTorch keeps private

BEHIND_THE_DOOR = {"next_functions"}
PUBLIC = {"_fields", "_replace"}  # of a named tuple, documented by Python
REFLECTION = {"getattr", "hasattr", "setattr", "delattr"}


def is_private(name: str) -> bool:
    by_its_name = name.startswith("_") and not name.endswith("_")
    return name in BEHIND_THE_DOOR or (by_its_name and name not in PUBLIC)


def private_accesses(source: str) -> Iterator[str]:
    """Private names that a source takes from something other than itself or the door."""
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


def test_only_the_door_touches_private_parts() -> None:
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
def test_a_private_part_is_seen_however_it_is_reached(source: str, names: list[str]) -> None:
    assert list(private_accesses(source)) == names


# --- Importing it changes nothing

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


def test_importing_it_warns_of_nothing_changes_nothing_and_brings_only_itself(
    run_apart: RunApart,
) -> None:
    run = run_apart(IMPORT_AND_COMPARE)
    assert (run.stdout, run.stderr, run.returncode) == ("leafgrad\n", "", 0)


# --- What is shipped


def test_the_wheel_holds_every_module_and_says_that_it_is_typed(tmp_path: Path) -> None:
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
    """Every file of the tree that git does not ignore."""
    lines = (ROOT / ".gitignore").read_text("utf-8").split()
    ignored = [".git", *(line.strip("/").rpartition("/")[2] for line in lines)]
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not any(fnmatch(name, i) for i in ignored)]
        kept = (name for name in files if not any(fnmatch(name, i) for i in ignored))
        yield from (Path(folder, name) for name in kept)


@pytest.mark.parametrize("pattern", NOT_FOR_THE_TREE.values(), ids=NOT_FOR_THE_TREE)
def test_the_tree_stands_alone(pattern: re.Pattern[str]) -> None:
    texts = {path: path.read_text("utf-8", errors="ignore") for path in own_files()}
    assert {
        path: pattern.findall(text) for path, text in texts.items() if pattern.search(text)
    } == {}


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a path of one machine", "see /" + "home/ada/torch"),
        ("a folder beside the tree", "see ../" + "shared/notes.md"),
        ("a registry's host", "from py" + "pi.org"),
        ("a number of an unpublished tracker", "as in issue " + "7"),
    ],
)
def test_what_does_not_stand_alone_is_seen(what: str, text: str) -> None:
    assert NOT_FOR_THE_TREE[what].search(text)


# --- CI runs what the README says

COMMAND = re.compile(r"^python3 -m venv .*$", re.MULTILINE)


def test_the_readme_gives_two_commands_and_ci_runs_the_one_for_the_tests() -> None:
    site, tests = COMMAND.findall((ROOT / "README.md").read_text("utf-8"))
    assert site.endswith("nox -s docs")
    assert tests.endswith("nox -s tests")
    assert tests in (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
