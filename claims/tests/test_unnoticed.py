"""What the evidence of a claim leaves unnoticed is kept with the counts, and may have a reason."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sphinx_claims.__main__ import main
from sphinx_claims._config import Config
from sphinx_claims._judging.digest import digest
from sphinx_claims._judging.history import read_history
from sphinx_claims._judging.verdict import PageVerdict
from sphinx_claims._mutating.causes import CAUSES
from sphinx_claims._reading.read import parse_page

pytestmark = pytest.mark.usefixtures("shared_processes")

Judge = Callable[..., PageVerdict]
Building = Any

PAGE = """\
# Numbers

:::{claim} numbers/small
OPTION
It is small.
:::

```{code-cell} python
x = 3.0

assert x < 1e9
```

```{claims-ledger}
```
"""
GAP = f"any other value of `x`: {CAUSES['vacuous'][1]}"
COUNT = {"made": 3, "killed": 1, "equivalent": 1, "outside": 0, "gaps": 1, "can_fail": True}


def page(option: str = "") -> str:
    return PAGE.replace("OPTION\n", option and f"{option}\n\n")


def kept(folder: Path, option: str = "", **changes: Any) -> None:
    parsed = parse_page(page(option), "page.md")
    entry = {"digest": digest(parsed, parsed.claims[0]), **COUNT, "unnoticed": [[7, GAP]]}
    (folder / "kept.json").write_text(json.dumps({"numbers/small": {**entry, **changes}}))


def red(verdict: PageVerdict, folder: Path) -> list[str]:
    found = read_history(Config(root=folder, mutants="kept.json")).gaps(verdict.claims)
    return [f"{path}:{problem.line}: {problem.message}" for path, problem in found]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="mutants are forked processes")
def test_mutation_keeps_each_gap_with_its_distance_from_the_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(
        "[tool.claims]\nsurvivors = { 'numbers/small' = 'It is so.' }"
    )
    (tmp_path / "page.md").write_text(page())
    main(["mutate", "page.md", "--json", "kept.json"])
    told = capsys.readouterr().out
    (entry,) = json.loads((tmp_path / "kept.json").read_text()).values()
    assert (entry["gaps"], entry["unnoticed"]) == (1, [[7, GAP]])
    assert f"page.md:10: gap in claim numbers/small: {GAP}" in told

    (tmp_path / "page.md").write_text(page(":unnoticed: it is an example"))
    main(["mutate", "page.md"])
    assert f"numbers/small: {GAP} (unnoticed: it is an example)\n" in capsys.readouterr().out

    (tmp_path / "page.md").write_text(page().replace("1e9", "4.0"))
    main(["mutate", "page.md", "--json", "kept.json"])
    (entry,) = json.loads((tmp_path / "kept.json").read_text()).values()
    assert entry["gaps"] == 0
    assert "unnoticed" not in entry


def test_a_gap_is_red_where_it_is_unless_the_claim_says_why_it_may_be(
    judge: Judge, tmp_path: Path
) -> None:
    kept(tmp_path)
    told = f"page.md:10: gap in claim numbers/small: {GAP}"
    assert red(judge(page()), tmp_path) == [told]
    assert red(judge(page(":unnoticed: it is an example")), tmp_path) == []
    moved = judge(f"A line more.\n\n{page()}")
    assert red(moved, tmp_path) == [told.replace(":10:", ":12:")]


def test_a_reason_for_no_gap_is_red(judge: Judge, tmp_path: Path) -> None:
    kept(tmp_path, gaps=0, unnoticed=[])
    told = "claim numbers/small has no gap: :unnoticed: need not give a reason for one"
    assert red(judge(page()), tmp_path) == []
    assert red(judge(page(":unnoticed: it is an example")), tmp_path) == [f"page.md:3: {told}"]


def test_only_a_claim_that_has_not_changed_has_gaps(judge: Judge, tmp_path: Path) -> None:
    verdict, excused = judge(page()), judge(page(":unnoticed: it is an example"))
    kept(tmp_path, digest="another")
    assert red(verdict, tmp_path) == red(excused, tmp_path) == []
    (tmp_path / "kept.json").unlink()
    assert red(verdict, tmp_path) == red(excused, tmp_path) == []


def test_what_an_older_run_kept_tells_of_no_gap(judge: Judge, tmp_path: Path) -> None:
    kept(tmp_path, unnoticed=[])
    assert red(judge(page()), tmp_path) == []
    assert red(judge(page(":unnoticed: it is an example")), tmp_path) == []


def test_a_reason_must_be_one(judge: Judge) -> None:
    (problem,) = judge(page(":unnoticed:")).problems
    message = ":unnoticed: must hold the reason why its gaps need not be closed"
    assert (problem.line, problem.message) == (3, message)


def test_the_reason_is_no_part_of_what_was_mutated() -> None:
    pages = [parse_page(page(option), "page.md") for option in ("", ":unnoticed: so it is")]
    assert len({digest(one, one.claims[0]) for one in pages}) == 1


@pytest.mark.covered_elsewhere
def test_a_site_with_a_gap_is_red(build: Building) -> None:
    kept(build.folder)
    told = f"gap in claim numbers/small: {GAP}"
    status, red = build(toml="mutants = 'kept.json'\n", index=page())
    assert status == 1
    assert f"index.md:10: ERROR: {told}" in red
    (problem,) = build.ledger()["claims"][0]["problems"]
    assert problem == {"line": 10, "message": told}
    assert build(index=page()) == (0, "")


def test_verify_tells_of_a_gap_and_of_a_reason_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.claims]\nmutants = 'kept.json'\n")
    kept(tmp_path)
    (tmp_path / "page.md").write_text(page())
    assert main(["verify", "page.md"]) == 1
    assert f"page.md:10: gap in claim numbers/small: {GAP}" in capsys.readouterr().out
    (tmp_path / "page.md").write_text(page(":unnoticed: it is an example"))
    assert main(["verify", "page.md"]) == 0
    kept(tmp_path, gaps=0, unnoticed=[])
    assert main(["verify", "page.md"]) == 1
    assert ":unnoticed: need not give a reason" in capsys.readouterr().out


def test_the_ledger_shows_the_reason(build: Building) -> None:
    kept(build.folder)
    option = ":unnoticed: it is an example"
    assert build(toml="mutants = 'kept.json'\n", index=page(option)) == (0, "")
    (claim,) = build.ledger()["claims"]
    assert claim["unnoticed"] == "it is an example"
    assert claim["mutants"]["unnoticed"] == [[7, GAP]]
    assert "1 equivalent, 1 gap · unnoticed: it is an example" in build.page()
