"""Each code has a check, messages, a program that triggers it, and one that does not."""

import contextlib
import gc
import html
import io
import re
from pathlib import Path

import pytest
import torch

from leafgrad import Report, _messages
from leafgrad._diagnosis.situation import CHECKS
from tests.diagnosis.programs import (
    EDIT,
    NEAR_MISSES,
    PROGRAMS,
    apply_printed_edits,
    report_of,
    run,
)

COLUMNS = 80
CODES = sorted(file.stem for file in PROGRAMS.glob("*.py"))


def report_on(code: str, folder: Path = PROGRAMS, text: str | None = None) -> Report:
    if code == "detached-in-place" and torch.__version__ < "2.12":
        pytest.skip("before 2.12, PyTorch does not show that a saved tensor was detached")
    with contextlib.redirect_stdout(io.StringIO()):
        return report_of(run(folder / f"{code}.py", text))


def test_each_code_has_a_program_and_a_near_miss() -> None:
    codes = sorted(code for check in CHECKS for code in check.codes)
    assert codes == CODES
    assert codes == sorted(file.stem for file in NEAR_MISSES.glob("*.py"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", CODES)
def test_first_finding_on_each_program_has_its_code_and_line(code: str) -> None:
    found = next(iter(report_on(code)))
    assert found.code == code
    assert found.help
    if found.primary is not None:
        assert found.primary.source.file == str(PROGRAMS / f"{code}.py")
        assert found.primary.source.column is not None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", CODES)
def test_sentences_fit_into_80_columns(code: str) -> None:
    with_code = re.compile(r" *\d+ [-+| ] | *\| +[-^]| +\+ ")
    lines = [line for line in str(report_on(code)).splitlines() if not with_code.match(line)]
    assert [line for line in lines if len(line) > COLUMNS] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", CODES)
def test_report_follows_a_later_change_of_language(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = report_on(code)
    gc.collect()  # some checks count the living optimizers
    monkeypatch.setattr(_messages, "_chosen", ["zh_CN"])
    assert str(report) == str(report_on(code))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", CODES)
def test_printed_edit_never_replaces_a_line_by_itself(code: str) -> None:
    edits = [match for line in str(report_on(code)).splitlines() if (match := EDIT.match(line))]
    removed, added = ({(m[1], m[3]) for m in edits if m[2] == sign} for sign in "-+")
    assert removed.isdisjoint(added)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", CODES)
def test_near_miss_does_not_trigger_the_code(code: str) -> None:
    assert code not in report_on(code, NEAR_MISSES).codes


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", CODES)
def test_printed_fix_cures_the_program(code: str) -> None:
    report = report_on(code)
    assert code in report.codes
    if not any(help_text.edits for one in report for help_text in one.help):
        pytest.skip("its fix does not edit a line")
    original = (PROGRAMS / f"{code}.py").read_text("utf-8")
    fixed = apply_printed_edits(str(report), original)
    assert fixed != original
    assert code not in report_on(code, PROGRAMS, fixed).codes


def test_html_report_leaves_line_breaks_of_sentences_to_the_browser() -> None:
    report = report_on("missing-create-graph")
    (found,) = report
    page = report._repr_html_()
    assert found.headline in html.unescape(page)
    assert found.headline not in str(report)  # The text breaks it at 80 columns.
    assert page.count("white-space: pre-wrap") == 1 + len(found.help)
