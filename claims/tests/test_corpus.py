"""Pages that are not true must be red, where and why they say; the others must be green.

Each page of `corpus/false` declares in its front matter what must be found: line and message.
A page that needs other files is `page.md` in a folder of its own.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.processes import needs_fork
from tests.proving import (
    Config,
    Context,
    Judge,
    PageVerdict,
    Release,
    WorkersFor,
    judge_page,
    parse_page,
    unjudged_includes,
)

CORPUS = Path(__file__).parent / "corpus"
FORKS = re.compile(r'os\.fork\(|get_context\("fork"\)')


def pages(folder: str) -> list[Any]:
    alone, beside = (CORPUS / folder).glob("*.md"), (CORPUS / folder).glob("*/page.md")
    named = {file.stem: file for file in alone} | {file.parent.name: file for file in beside}
    return [
        pytest.param(file, id=name, marks=[needs_fork] if FORKS.search(text) else [])
        for name, file in sorted(named.items())
        for text in [file.read_text(encoding="utf-8")]
    ]


def front_matter(file: Path) -> Mapping[str, Any]:
    _, text, *_ = file.read_text(encoding="utf-8").split("---\n")
    declared: Mapping[str, Any] = yaml.safe_load(text)
    return declared


@pytest.fixture
def judge_file(workers_for: WorkersFor, release: Release | None, tmp_path: Path) -> Judge:
    """Return a function that judges a page of the corpus as if its folder were empty."""

    def judged(file: Path) -> PageVerdict:
        text = file.read_text(encoding="utf-8")
        page = parse_page(text, "page.md", Context((file,), "refuse"))
        config = Config(root=tmp_path, timeout=30, package="torch")
        return judge_page(page, config, workers_for(text), release)

    return judged


@pytest.mark.parametrize("file", pages("false"))
def test_false_page_is_reported_at_its_false_lines_only(file: Path, judge_file: Judge) -> None:
    verdict = judge_file(file)
    declared = front_matter(file)["red"]
    found = defaultdict(list)
    for problem in (*verdict.problems, *unjudged_includes(verdict.page, tuple)):
        found[problem.line].append(problem.message)
    assert found.keys() == declared.keys(), dict(found)
    for line, message in declared.items():
        assert any(told.startswith(message) for told in found[line]), found[line]


@pytest.mark.parametrize("file", pages("true"))
def test_true_page_has_no_problems(file: Path, judge_file: Judge) -> None:
    verdict = judge_file(file)
    assert verdict.problems == ()
    assert all(claim.is_true for claim in verdict.claims)
