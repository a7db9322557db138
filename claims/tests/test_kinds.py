"""Kinds, scopes, exceptions and blind checks of claims."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sphinx_claims.__main__ import main
from tests.proving import Config, prove, read_pages

SCOPE = "`big`\n: Above a hundred.\n\nInside:\n\n`zero`\n: Nothing.\n"
ZOO = """\
NOUNS = {"number": "numbers?", "root": "roots?"}
MEMBERS = [
    (("number",), "nothing", lambda: 0, frozenset({"zero"})),
    (("number",), "two", lambda: 2, frozenset()),
    (("number",), "a thousand", lambda: 1000, frozenset({"big"})),
    (("root",), "square", lambda x: x**0.5, frozenset()),
    (("root",), "logarithm", lambda x: 1 / x, frozenset()),
]
"""
RULE = """
@for_all("number")
def is_small(number):
    assert number() < 3
"""
EXCEPTION = """
```{code-cell} python
:exception-to: number/small NAME

number = 100
assert number > 3
```
"""
TABLE = "[tool.claims]\npages = ['.']\nscope = 'scope.md'\nzoo = 'zoo.py'\n"


def page(sentence: str, options: str, code: str, exception: str = "") -> str:
    shown = EXCEPTION.replace("NAME", exception) if exception else ""
    claim = f":::{{claim}} number/small\n{options}\n\n{sentence}\n:::\n"
    return f"{claim}\n```{{code-cell}} python\n{code.strip()}\n```\n{shown}"


@pytest.fixture
def red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    for name, text in {"scope.md": SCOPE, "zoo.py": ZOO, "pyproject.toml": TABLE}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)

    def judge(text: str, **settings: Any) -> list[str]:
        (tmp_path / "page.md").write_text(text)
        config = Config(root=tmp_path, pages=(".",), scope="scope.md", zoo="zoo.py", **settings)
        site = prove(config, config.files(), report=lambda _: None)
        return [problem.message for _, problem in site.problems]

    return judge


ONE = "x = 1\nassert x == 1"
FOUND = {
    "rule": ("A number is below 3.", ":kind: rule", RULE, ""),
    "wider": ("A number is below 3.", ":kind: rule\n:scope: +big", RULE, "false for a thousand:"),
    "word": ("A number is below 3.", ":kind: rule\n:scope: +odd", RULE, "a word of a scope is"),
    "noun": ("It is below 3.", ":kind: rule", RULE, "names no number"),
    "subject": ("Roots of a number, 3.", ":kind: rule", RULE, ""),
    "other": ("A root is a number below 3.", ":kind: rule", RULE, "is about every root, and this"),
    "no zoo": ("A number is 1.", ":kind: rule", ONE, "a rule must be shown by @for_all"),
    "vague": ("It is so.", ":kind: instance", ONE, "an instance must name its instance"),
    "alone": ("It is 1.", ":kind: default", ONE, "a default needs a cell that shows"),
    "kind": ("A number is 1.", "", ONE, "must have a :kind:"),
    "blind": ("A number is below 3.", ":kind: rule", RULE, "a rule needs a blind check"),
    "few": (
        "A number is below 3.",
        ":kind: rule\n:scope: +big",
        RULE.replace("    assert", "    if number() == 2:\n        assert"),
        "fewer than half of every number",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_claim_must_meet_requirements_of_its_kind(name: str, red: Callable[..., list[str]]) -> None:
    sentence, options, code, message = FOUND[name]
    setting = {"kind": "without_kind", "blind": "unchecked"}.get(name)
    found = red(page(sentence, options, code), **({setting: "refuse"} if setting else {}))
    assert len(found) == bool(message), found
    assert all(message in one for one in found)


@pytest.mark.parametrize(
    ("sentence", "name", "is_named"),
    [
        ("By default, 1 is small, unless it is `heavy()`.", "`heavy()`", True),
        ("By default, 1 is small.", "big", True),
        ("By default, 1 is small.", "heavy", False),
    ],
)
def test_exceptions_must_be_named_in_sentence_or_scope(
    *, sentence: str, name: str, is_named: bool, red: Callable[..., list[str]]
) -> None:
    found = red(page(sentence, ":kind: default", ONE, name))
    assert len(found) == (0 if is_named else 1)
    assert all(repr(name) in one for one in found)


def test_changed_claim_is_reported_until_its_blind_check_passes_again(
    red: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = page("A number is below 3.", ":kind: rule", RULE)
    blind = tmp_path / "blind.md"
    blind.write_text("```{code-cell} python\n:checks: number/small new\n" + RULE + "```\n")
    changed = "the claim has changed since its blind check"
    assert red(rule)[0].startswith(changed)
    assert main(["check"]) == 1
    assert re.search(r"page.md:1: number/small \(rule\)\n    A number", capsys.readouterr().out)
    assert main(["check", "number/small"]) == 0
    assert red(rule) == []
    assert red(rule.replace("is below", "stays below"))[0].startswith(changed)
    blind.write_text(blind.read_text().replace("< 3", "< 1"))
    assert main(["check", "number/small"]) == 1
    assert "false for two: number() < 1" in capsys.readouterr().out
    assert main(["verify", "page.md"]) == 1
    assert "\nblind.md:4: rule is FALSE" in capsys.readouterr().out


def test_cell_for_an_exception_must_name_a_claim_and_contain_a_check(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("```{code-cell} python\n:exception-to: number/small odd\n\nx = 1\n```\n")
    (read,) = read_pages([file], Config(root=tmp_path))
    assert [problem.message for problem in read.problems] == [
        ":exception-to: must name a claim, and no page has number/small",
        "a cell with :exception-to: must hold a check",
    ]
