"""Metadata, issue forms and CI of the repository."""

import platform
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hatchling.builders.wheel import WheelBuilder

import leafgrad
from tests.apart import RunApart

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
HOME = "https://github.com/leafgrad/leafgrad"
PROJECTS = {folder: ROOT / folder / "pyproject.toml" for folder in (".", "claims")}


def project(folder: str) -> dict[str, Any]:
    declared: dict[str, Any] = tomllib.loads(PROJECTS[folder].read_text("utf-8"))["project"]
    return declared


# --- Repository and addresses


@pytest.mark.parametrize("folder", PROJECTS)
def test_distributions_have_urls_and_version(folder: str) -> None:
    urls = project(folder)["urls"]
    assert {"Documentation", "Changelog", "Issues", "Source"} <= urls.keys()
    assert urls["Source"] == HOME
    assert project(folder)["version"] == leafgrad.__version__


@pytest.mark.parametrize("folder", PROJECTS)
def test_packaged_readme_has_absolute_links_only(folder: str) -> None:
    readme = WheelBuilder(str(ROOT / folder)).metadata.core.readme
    links = re.findall(r"\]\(([^)]*)\)", readme)
    pictures = re.findall(r'src(?:set)?="([^"]*)"', readme)
    assert [link for link in links + pictures if not link.startswith("https://")] == []
    assert len(links) == (ROOT / folder / "README.md").read_text("utf-8").count("](")
    assert "$" not in re.sub(r"```.*?```", "", readme, flags=re.DOTALL)  # formulas stay source


def test_files_linked_in_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    links = re.findall(r"\]\(([^):]*)\)", readme) + re.findall(r'src(?:set)?="([^"]*)"', readme)
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_release_date_is_the_same_in_changelog_and_citation() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    day = citation["date-released"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## [{leafgrad.__version__}] - {day}\n" in changelog
    tag = f"{HOME}/releases/tag/v{leafgrad.__version__}"
    assert f"\n[{leafgrad.__version__}]: {tag}\n" in changelog
    assert citation["repository-code"] == HOME


def test_links_to_the_site_lead_to_pages() -> None:
    for file in (*GITHUB.rglob("*.md"), *GITHUB.rglob("*.yml"), *PROJECTS.values()):
        for page in re.findall(r"github\.io/leafgrad/([\w/-]+)\.html", file.read_text("utf-8")):
            assert (ROOT / "docs" / f"{page.removeprefix('zh-cn/')}.md").is_file(), (file, page)


# --- Issue forms


def commands_of_forms() -> Iterator[Any]:
    for form in sorted(GITHUB.glob("ISSUE_TEMPLATE/*.yml")):
        for command in re.findall(r"^ *(python -c .*)$", form.read_text("utf-8"), re.MULTILINE):
            yield pytest.param(command, id=form.stem)


@pytest.mark.parametrize("command", [*commands_of_forms()])
def test_command_of_issue_form_prints_versions(command: str, run_apart: RunApart) -> None:
    *python, program = shlex.split(command)
    assert python == ["python", "-c"]
    run = run_apart(program)
    assert {torch.__version__, platform.python_version()} <= set(run.stdout.split())


# --- CI


def jobs(workflow: str) -> dict[str, Any]:
    text = (GITHUB / "workflows" / f"{workflow}.yml").read_text("utf-8")
    declared: dict[str, Any] = yaml.safe_load(text)["jobs"]
    return declared


@pytest.mark.parametrize("folder", PROJECTS)
def test_ci_runs_on_each_supported_python(folder: str) -> None:
    marks = project(folder)["classifiers"]
    promised = {mark.rpartition(" ")[2] for mark in marks if re.search(r":: 3\.\d+$", mark)}
    versions = jobs("tests")["versions"]["strategy"]["matrix"]["include"]
    assert {version["python"] for version in versions} == promised
    assert project(folder)["requires-python"] == f">={min(promised, key=_as_numbers)}"


def _as_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
