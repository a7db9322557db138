"""Each code has a section on its page, with a program, PyTorch's message and the report."""

import tomllib
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from diagnoses import ON_PAGE, results

import leafgrad
from tests.diagnosis.programs import PROGRAMS, ROOT
from tests.site.built import SITE, needs_site

FILES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
PAGES = {file.stem: ON_PAGE.findall(file.read_text("utf-8")) for file in FILES}
WORDS = tomllib.loads(
    Path(leafgrad.__file__).parent.joinpath("_messages", "en.toml").read_text("utf-8")
)
RAISED = [code for code, words in WORDS.items() if "pytorch" in words]


def test_each_code_has_its_section_once() -> None:
    explained = [code for codes in PAGES.values() for code in codes]
    provoked = {file.stem for file in PROGRAMS.glob("*.py")}
    assert sorted(explained) == sorted(provoked | {*RAISED})


@needs_site
@pytest.mark.parametrize("code", RAISED)
def test_section_of_code_quotes_its_error_messages(code: str) -> None:
    (page,) = (page for page, codes in PAGES.items() if code in codes)
    text = Path(SITE, "how-to", f"{page}.html").read_text("utf-8")
    (section,) = BeautifulSoup(text, "html.parser").select(f"section#{code}")
    said = " ".join(section.get_text().split()).lower()
    assert [message for message in WORDS[code]["pytorch"] if message.lower() not in said] == []


def test_example_has_the_report_and_the_error_of_its_program() -> None:
    found = results(("freed", "detached", "step-before-backward"), "en")
    report, error = found["freed"]
    assert report.startswith("error[freed]: an earlier backward pass")
    assert "backward through the graph a second time" in error
    report, error = found["detached"]
    assert (report.partition(":")[0], error) == ("error[detached]", "")
    report, error = found["step-before-backward"]
    assert report.startswith("error[step-before-backward]: ")
    assert "inplace operation" in error


def test_chinese_page_has_the_chinese_report() -> None:
    report, error = results(("freed",), "zh_CN")["freed"]
    assert report.startswith("错误[freed]")
    assert "backward through the graph a second time" in error  # the wording of PyTorch
