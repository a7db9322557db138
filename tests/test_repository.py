"""What stands around the code: where it lives, what is asked of who reports, what CI runs."""

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


# --- Where it lives


@pytest.mark.parametrize("folder", PROJECTS)
def test_both_distributions_say_where_they_live(folder: str) -> None:
    urls = project(folder)["urls"]
    assert {"Documentation", "Changelog", "Issues", "Source"} <= urls.keys()
    assert urls["Source"] == HOME
    assert project(folder)["version"] == leafgrad.__version__


@pytest.mark.parametrize("folder", PROJECTS)
def test_a_readme_that_stands_alone_leads_to_whole_addresses_only(folder: str) -> None:
    readme = WheelBuilder(str(ROOT / folder)).metadata.core.readme
    links = re.findall(r"\]\(([^)]*)\)", readme)
    assert [link for link in links if not link.startswith("https://")] == []
    assert len(links) == (ROOT / folder / "README.md").read_text("utf-8").count("](")
    assert "$" not in re.sub(r"```.*?```", "", readme, flags=re.DOTALL)  # formulas stay source


def test_files_that_the_readme_names_are_there() -> None:
    links = re.findall(r"\]\(([^):]*)\)", (ROOT / "README.md").read_text("utf-8"))
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_release_has_one_day_in_the_changelog_and_the_citation() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    day = citation["date-released"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## [{leafgrad.__version__}] - {day}\n" in changelog
    tag = f"{HOME}/releases/tag/v{leafgrad.__version__}"
    assert f"\n[{leafgrad.__version__}]: {tag}\n" in changelog
    assert citation["repository-code"] == HOME


def test_every_link_to_the_repository_is_to_this_one() -> None:
    kept = [*PROJECTS.values(), *GITHUB.rglob("*.md"), *GITHUB.rglob("*.yml")]
    for file in (*kept, ROOT / "CITATION.cff", ROOT / "CHANGELOG.md"):
        owners = re.findall(r"github\.com/([\w-]+/leafgrad)|//(\w+)\.github\.io", file.read_text())
        assert {"".join(owner) for owner in owners} <= {"leafgrad/leafgrad", "leafgrad"}, file


def test_a_link_to_the_site_is_to_a_page_of_it() -> None:
    for file in (*GITHUB.rglob("*.md"), *GITHUB.rglob("*.yml"), *PROJECTS.values()):
        for page in re.findall(r"github\.io/leafgrad/([\w/-]+)\.html", file.read_text("utf-8")):
            assert (ROOT / "docs" / f"{page}.md").is_file(), (file, page)


# --- What is asked of who reports


def commands_of_forms() -> Iterator[Any]:
    for form in sorted(GITHUB.glob("ISSUE_TEMPLATE/*.yml")):
        for command in re.findall(r"^ *(python -c .*)$", form.read_text("utf-8"), re.MULTILINE):
            yield pytest.param(command, id=form.stem)


@pytest.mark.parametrize("command", [*commands_of_forms()])
def test_the_command_for_versions_prints_them(command: str, run_apart: RunApart) -> None:
    *python, program = shlex.split(command)
    assert python == ["python", "-c"]
    run = run_apart(program)
    assert {torch.__version__, platform.python_version()} <= set(run.stdout.split())


def test_there_is_such_a_command_in_each_form() -> None:
    forms = {form.stem for form in GITHUB.glob("ISSUE_TEMPLATE/*.yml")} - {"config"}
    assert {case.id for case in commands_of_forms()} == forms != set()


# --- What CI runs


def jobs(workflow: str) -> dict[str, Any]:
    text = (GITHUB / "workflows" / f"{workflow}.yml").read_text("utf-8")
    declared: dict[str, Any] = yaml.safe_load(text)["jobs"]
    return declared


@pytest.mark.parametrize("folder", PROJECTS)
def test_ci_runs_on_every_python_that_is_promised(folder: str) -> None:
    marks = project(folder)["classifiers"]
    promised = {mark.rpartition(" ")[2] for mark in marks if re.search(r":: 3\.\d+$", mark)}
    versions = jobs("tests")["versions"]["strategy"]["matrix"]["include"]
    assert {version["python"] for version in versions} == promised
    assert project(folder)["requires-python"] == f">={min(promised, key=_as_numbers)}"


def test_ci_runs_on_the_oldest_the_pinned_and_the_newest_pytorch_and_on_other_systems() -> None:
    matrices = {
        name: job["strategy"]["matrix"] for name, job in jobs("tests").items() if "strategy" in job
    }
    torches = {version["torch"] for version in matrices["versions"]["include"]}
    assert torches == {"oldest", "pinned", "newest"}
    assert matrices["systems"]["system"] == ["macos-latest", "windows-latest"]


def test_only_the_job_that_publishes_can_and_only_after_the_wheels_were_tried() -> None:
    build, publish = jobs("release")["build"], jobs("release")["publish"]
    assert build["permissions"] == {"contents": "read"}
    assert any(step.get("run") == "uvx nox -s wheel" for step in build["steps"])
    assert (publish["needs"], publish["environment"]) == ("build", "release")
    assert publish["permissions"] == {"id-token": "write"}


def _as_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
