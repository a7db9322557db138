"""The ledger contains the verdicts on other versions of torch until the claim changes."""

import json
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.proving import digest, parse_page

CLAIM = ":::{{claim}} {id}\n{sentence}\n:::\n\n{{claim}}`1 + 1 == {number}`\n\n"
TWO = CLAIM.format(id="sums/two", sentence="A sum.", number=2)
THREE = CLAIM.format(id="sums/three", sentence="Another sum.", number="2 + 0")
PAGE = "# Page\n\n" + TWO + THREE
Claims: TypeAlias = Any
Verified: TypeAlias = Any
"""Fixtures: `claims` runs the command, and `verified` also reads the ledger."""
TOML = "[tool.claims]\npages = ['page.md']\npackage = 'torch'\nversions = 'runs'\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    Path("pyproject.toml").write_text(TOML)
    Path("page.md").write_text(PAGE)
    return tmp_path


def digest_of(text: str) -> str:
    page = parse_page(text, "page.md")
    return digest(page, page.claims[0])


def keep(version: str, claims: Any = None, **facts: Any) -> None:
    run = {
        "python": "3.11.7",
        "date": "2026-11-21",
        "tests": {"passed": 5, "failed": 0, "skipped": 1},
        "problems": 0,
        "claims": claims or {},
    }
    Path("runs", f"{version}.json").write_text(json.dumps({**run, **facts}, indent=1))


@pytest.fixture
def verified(claims: Claims) -> Callable[..., tuple[int, dict[str, Any], list[str]]]:
    """Return the status, the ledger and the lines about runs."""

    def run(*arguments: str) -> tuple[int, dict[str, Any], list[str]]:
        status, lines, _ = claims("verify", "--json", "claims.json", *arguments)
        ledger = json.loads(Path("claims.json").read_text())
        return status, ledger, [line for line in lines if line.startswith("runs/")]

    return run


# --- The ledger


def test_ledger_lists_verdicts_by_version_oldest_first(verified: Verified) -> None:
    assert verified()[1]["versions"] == []
    two, three = digest_of(TWO), digest_of(THREE)
    keep("2.10.0", {"sums/two": f"skipped {two}", "sums/three": f"true {three}"}, problems=2)
    keep("2.9.1", {"sums/two": f"false {two}"})
    keep("2.15.0", {"sums/two": "true 0123", "sums/three": f"true {three}"})
    status, ledger, _ = verified()
    assert status == 0
    assert {claim["id"]: list(claim["versions"].items()) for claim in ledger["claims"]} == {
        "sums/two": [("2.9.1", "false"), ("2.10.0", "skipped"), ("2.15.0", "changed")],
        "sums/three": [("2.9.1", "changed"), ("2.10.0", "true"), ("2.15.0", "true")],
    }
    run = ledger["versions"][1]
    assert (run["torch"], run["python"], run["date"]) == ("2.10.0", "3.11.7", "2026-11-21")
    assert run["tests"] == {"passed": 5, "failed": 0, "skipped": 1}
    assert (run["claims"], run["problems"]) == (
        {"true": 1, "skipped": 1, "false": 0, "changed": 0},
        2,
    )


@pytest.mark.parametrize("package", ["torch", "packaging", None])
def test_the_ledger_has_the_version_of_the_package(
    package: str | None, folder: Path, verified: Verified
) -> None:
    named = f"package = '{package}'\n" if package else ""
    (folder / "pyproject.toml").write_text(f"[tool.claims]\npages = ['page.md']\n{named}")
    ledger = verified()[1]
    assert ledger["package"] == package
    if package:
        assert ledger[package] == version(package).partition("+")[0]
    assert len({"torch", "packaging"} & {*ledger}) == bool(package)


CELL = "```{code-cell} python\n\n1 / 0\n```\n"
CHANGED = [
    TWO.replace("A sum", "One sum"),
    TWO.replace("== 2", "== 3 - 1"),
    TWO.replace("\nA sum", "\n:since: 2.12\n\nA sum"),
    TWO.replace("{claim}`", "{value}`"),
    TWO + CELL,
    TWO + CELL.replace("\n\n", '\n:raises: "ZeroDivisionError: division"\n\n'),
    TWO + CELL.replace("\n\n", '\n:warns: "Warning: odd"\n\n'),
]
SAME = [
    "# Title\n\n" + TWO,
    TWO + THREE,
    TWO + "## Next\n\n" + CELL,
    TWO.replace("\nA sum", "\n:sources: note L1\n\nA sum"),
    TWO.replace(":::\n\n", ":::\n\nMore prose: "),
]


def test_digest_changes_with_its_claim_only() -> None:
    assert {digest_of(text) for text in SAME} == {digest_of(TWO)}
    assert len({digest_of(text) for text in (TWO, *CHANGED)}) == len(CHANGED) + 1


# --- Invalid files of runs


@pytest.mark.parametrize(
    ("version", "facts", "what"),
    [
        ("latest", {}, "InvalidVersion: Invalid version: 'latest'"),
        ("2.10.0", {"tests": {"passed": 5}}, "KeyError: 'failed'"),
        ("2.10.0", {"problems": "none"}, "ValueError: "),
        ("2.10.0", {"claims": {"sums/two": "true"}}, "ValueError: not enough values to unpack"),
        ("2.10.0", {"claims": ["sums/two"]}, "AttributeError: "),
        ("2.10.0", None, "UnicodeDecodeError: "),
    ],
    ids=["name", "count", "number", "digest", "list", "bytes"],
)
def test_invalid_file_of_an_earlier_run_is_reported(
    version: str, facts: dict[str, Any] | None, what: str, verified: Verified
) -> None:
    keep(version, **facts or {})
    if facts is None:
        Path(f"runs/{version}.json").write_bytes(b"\xff")
    status, _, (line,) = verified()
    message = f"runs/{version}.json:1: this must be what a run on another torch has found: {what}"
    assert (status, line[: len(message)]) == (1, message)


# --- Ledger page


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_ledger_page_shows_versions_and_differing_verdicts(build: Any) -> None:
    Path("page.md").unlink()
    two, three = digest_of(TWO), digest_of(THREE)
    keep("2.9.1", {"sums/two": f"false {two}", "sums/three": f"true {three}"})
    keep("2.10.0", {"sums/two": "true 0123", "sums/three": f"true {three}"}, problems=2)
    index = "# Page\n\n```{claims-ledger}\n```\n\n" + TWO + THREE
    assert build(index=index, toml="versions = 'runs'\n") == (0, "")
    page = text_of(build.page())
    here = build.ledger()
    assert "torch run on Python tests claims" in page
    assert f"{here['torch']} this build {here['python']} 2 true" in page
    assert "2.9.1 2026-11-21 3.11.7 5 passed, 1 skipped 1 true, 1 false" in page
    changed = "1 true, 1 not run since it changed, 2 false lines"
    assert f"2.10.0 2026-11-21 3.11.7 5 passed, 1 skipped {changed}" in page
    different = "1 check · false on torch 2.9.1 · not run since it changed on torch 2.10.0"
    assert f"A sum. {different}" in page
    assert "Another sum. 1 check" in page
    assert page.count("on torch") == 2


def test_ledger_page_shows_the_version_range_of_a_claim(build: Any) -> None:
    Path("page.md").unlink()
    ranged = TWO.replace("\nA sum", "\n:since: 1.0\n:until: 99\n\nA sum")
    assert build(index="# Page\n\n```{claims-ledger}\n```\n\n" + ranged) == (0, "")
    page = text_of(build.page())
    assert "A sum. 1 check · since torch 1.0 · until torch 99" in page
    assert "run on" not in page
