"""The pytest plugin: an item for each claim, and no items without the table in pyproject.toml.

The plugin is installed with the project, so every `pytester` run has it.
"""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("shared_processes")

pytest_plugins = ["pytester"]

TABLE = '[tool.claims]\npages = ["docs"]\npackage = "torch"\n'
PAGE = """\
# Sums

:::{claim} sums/two
Two is two.
:::

{claim}`1 + 1 == 2`

:::{claim} sums/three
Two is three.
:::

{claim}`1 + 1 == 3`

## Outside

{claim}`2 > 3`
"""
FALSE = "docs/page.md:13: sums/three: claim is FALSE: 1 + 1 == 3, where it is False"
UNRUN = "docs/page.md:17: claim is FALSE: 2 > 3, where it is False"


@pytest.fixture(autouse=True)
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    pytester.makepyprojecttoml(TABLE)
    pytester.mkdir("docs")
    pytester.path.joinpath("docs", "page.md").write_text(PAGE)
    return pytester


def _red(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith("docs/page.md:")]


def test_each_claim_is_a_test_item_and_the_rest_of_a_page_another(project: pytest.Pytester) -> None:
    result = project.runpytest("docs", "--verbose")
    result.stdout.fnmatch_lines(
        [
            "docs/page.md::sums/two PASSED*",
            "docs/page.md::sums/three FAILED*",
            "docs/page.md::page FAILED*",
        ]
    )
    result.assert_outcomes(passed=1, failed=2)
    assert _red(result)[3:] == [FALSE, UNRUN]
    assert "Traceback" not in result.stdout.str()
    assert ">  " not in result.stdout.str()


def test_collection_executes_nothing_and_a_run_executes_each_page_once(
    project: pytest.Pytester,
) -> None:
    counts = "```{code-cell} python\nopen('count', 'a').write('x');\n```\n\n"
    project.path.joinpath("docs", "page.md").write_text(counts + PAGE)
    project.runpytest("docs", "--collect-only").stdout.fnmatch_lines(["*<_ClaimItem page>"])
    assert not project.path.joinpath("docs", "count").exists()
    project.runpytest("docs").assert_outcomes(passed=1, failed=2)
    assert project.path.joinpath("docs", "count").read_text() == "x"


def test_claim_fails_if_the_page_exits_before_it(project: pytest.Pytester) -> None:
    ends = "```{code-cell} python\nimport os; os._exit(0)\n```\n\n"
    project.path.joinpath("docs", "page.md").write_text(ends + PAGE)
    result = project.runpytest("docs/page.md::sums/two")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["not proven: an earlier line of the page failed"])


def test_claims_of_other_versions_skip_and_repeated_ids_fail(project: pytest.Pytester) -> None:
    page = PAGE.replace("sums/three\n", "sums/three\n:until: 1.0\n\n")
    project.path.joinpath("docs", "page.md").write_text(page)
    project.path.joinpath("docs", "second.md").write_text(page)
    result = project.runpytest("docs")
    result.assert_outcomes(passed=1, skipped=1, failed=4)
    result.stdout.fnmatch_lines(["*claim sums/two stands at docs/page.md:3 already"])


def test_problems_are_annotated_on_github(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.path.parent))
    result = project.runpytest("docs")
    place = f"::error file={project.path.name}/docs/page.md,line=13,title=sums/three::"
    sentence = '%0A    not proven: "Two is three."'
    text = "sums/three: claim is FALSE: 1 + 1 == 3, where it is False"
    assert place + text + sentence in result.outlines


def test_invalid_setting_is_reported_by_pytest_without_traceback(project: pytest.Pytester) -> None:
    project.makepyprojecttoml(TABLE.replace("docs", "gone"))
    result = project.runpytest("docs")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*a page or folder of pages must exist: */gone*"])
    assert "Traceback" not in result.stdout.str()


def test_page_outside_the_table_is_not_collected(project: pytest.Pytester) -> None:
    project.makepyprojecttoml(TABLE.replace("docs", "other.md"))
    project.path.joinpath("other.md").write_text("# Other\n")
    project.runpytest("docs").assert_outcomes()
    project.makepyprojecttoml("[tool.pytest]\n")
    project.runpytest(".").assert_outcomes()


def test_missing_dependency_breaks_the_pages_and_no_other_test(project: pytest.Pytester) -> None:
    project.makepyfile("def test_this(): pass")
    without = "import sys; sys.modules['yaml'] = None; import pytest; "
    options = "sys.exit(pytest.main(['-q', '--continue-on-collection-errors']))"
    result = project.run(sys.executable, "-c", without + options)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["this page cannot be judged: something is missing: run `python3 -m pip install*"]
    )


def test_plugin_imports_nothing_heavy_without_pages() -> None:
    heavy = "{'docutils', 'IPython', 'myst_parser', 'sphinx', 'torch', 'yaml'}"
    imported = f"import sys, sphinx_claims._pytest; print({heavy} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", imported], text=True) == "set()\n"


@pytest.mark.parametrize(("option", "failed"), [("--update", 0), ("-q", 2)])
def test_update_rewrites_pages_and_snapshots(
    project: pytest.Pytester, option: str, failed: int
) -> None:
    project.path.joinpath("docs", "page.md").write_text("```pycon\n>>> 1 + 1\n3\n```\n")
    kept = project.path / "kept.txt"
    kept.write_text("old\n")
    project.makepyfile(
        """
        from pathlib import Path

        def test_kept(snapshot):
            snapshot(Path(__file__).with_name("kept.txt"), "new\\n")
        """
    )
    result = project.runpytest(option)
    result.assert_outcomes(passed=2 - failed, failed=failed)
    assert kept.read_text() == ("old\n" if failed else "new\n")
