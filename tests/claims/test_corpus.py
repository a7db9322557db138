"""Pages that are not true must be red, where and why they say; the others must be green.

Each page of `corpus/false` declares in its front matter what must be found: line and message.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from leafgrad.claims._verdict import PageVerdict

Judge = Callable[[str], PageVerdict]
CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize(
    "file", sorted((CORPUS / "false").glob("*.md")), ids=lambda file: file.stem
)
def test_a_false_page_is_red_where_it_is_false_and_nowhere_else(file: Path, judge: Judge) -> None:
    text = file.read_text(encoding="utf-8")
    declared = yaml.safe_load(text.split("---\n")[1])["red"]
    found = {problem.line: problem.message for problem in judge(text).problems}
    assert found.keys() == declared.keys(), found
    for line, message in declared.items():
        assert found[line].startswith(message)


@pytest.mark.parametrize("file", sorted((CORPUS / "true").glob("*.md")), ids=lambda file: file.stem)
def test_a_true_page_is_green(file: Path, judge: Judge) -> None:
    verdict = judge(file.read_text(encoding="utf-8"))
    assert verdict.problems == ()
    assert all(claim.is_true for claim in verdict.claims)
