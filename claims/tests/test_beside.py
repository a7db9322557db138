"""A page imports the modules beside it, as they are now."""

import os
import py_compile
from pathlib import Path

import pytest

from sphinx_claims._config import Config
from sphinx_claims._executing import processes
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.prover import judge_page
from sphinx_claims._page import Page
from sphinx_claims._reading.read import parse_page

pytestmark = pytest.mark.covered_elsewhere

PAGE = "```{code-cell} python\nfrom helper import number\nassert number == 1\n```\n"


def _problems(folder: Path, workers: Workers, page: Page | None = None) -> list[str]:
    verdict = judge_page(page or parse_page(PAGE, "docs/page.md"), Config(root=folder), workers)
    return [problem.message for problem in verdict.problems]


@pytest.mark.parametrize("name", ["helper.py", "helper/__init__.py"])
def test_a_module_changed_behind_its_compiled_code_is_the_changed_one(
    name: str, tmp_path: Path, workers: Workers
) -> None:
    helper = tmp_path / "docs" / name
    helper.parent.mkdir(parents=True)
    helper.write_text("number = 1\n")
    before = helper.stat()
    py_compile.compile(str(helper))
    assert _problems(tmp_path, workers) == []
    helper.write_text("number = 2\n")
    os.utime(helper, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert helper.stat().st_size == before.st_size
    assert _problems(tmp_path, workers) == ["claim is FALSE: number == 1, where number is 2"]


def test_a_submodule_changed_behind_its_compiled_code_is_the_changed_one(
    tmp_path: Path, workers: Workers
) -> None:
    package = tmp_path / "docs" / "helper"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from helper.inner import number\n")
    (package / "inner.py").write_text("number = 1\n")
    before = (package / "inner.py").stat()
    py_compile.compile(str(package / "inner.py"))
    (package / "inner.py").write_text("number = 2\n")
    os.utime(package / "inner.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert _problems(tmp_path, workers) == ["claim is FALSE: number == 1, where number is 2"]


def test_no_compiled_code_is_left_beside_a_page(tmp_path: Path, workers: Workers) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "helper.py").write_text("number = 1\n")
    assert _problems(tmp_path, workers) == []
    assert [file.name for file in (tmp_path / "docs").iterdir()] == ["helper.py"]


def test_what_was_installed_below_a_page_is_imported_as_ever(
    tmp_path: Path, workers: Workers
) -> None:
    installed = tmp_path / "docs" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "helper.py").write_text("number = 1\n")
    path = f"```{{code-cell}} python\nimport sys\nsys.path.append({str(installed)!r})\n```\n\n"
    assert _problems(tmp_path, workers, parse_page(path + PAGE, "docs/page.md")) == []


def test_the_folder_of_a_docstring_is_no_place_to_import_from(
    tmp_path: Path, workers: Workers
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "helper.py").write_text("number = 1\n")
    told = _problems(tmp_path, workers, parse_page(PAGE, "docs/module.py"))
    assert told[0] == "ModuleNotFoundError: No module named 'helper'"


def test_a_module_on_the_path_already_is_the_changed_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = tmp_path / "docs" / "helper.py"
    helper.parent.mkdir()
    helper.write_text("number = 1\n")
    before = helper.stat()
    py_compile.compile(str(helper))
    helper.write_text("number = 2\n")
    os.utime(helper, ns=(before.st_atime_ns, before.st_mtime_ns))
    monkeypatch.setenv("PYTHONPATH", str(helper.parent))
    with processes.workers([], None) as running:
        assert _problems(tmp_path, running) == ["claim is FALSE: number == 1, where number is 2"]


def test_a_process_that_a_page_starts_finds_what_stands_beside_it(
    tmp_path: Path, workers: Workers
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "helper.py").write_text("def double(number):\n    return 2 * number\n")
    code = "import multiprocessing\nfrom helper import double\n"
    code += "with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
    code += "    assert pool.map(double, [1, 2]) == [2, 4]"
    page = parse_page(f"```{{code-cell}} python\n{code}\n```\n", "docs/page.md")
    assert _problems(tmp_path, workers, page) == []
