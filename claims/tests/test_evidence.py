"""Whose evidence a check is, which version judges a claim, and what a killed process leaves."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sphinx_claims._executing.docstrings import find_docstrings
from sphinx_claims._executing.spawned import usual_kind
from sphinx_claims._executing.workers import Workers
from sphinx_claims._judging.verdict import PageVerdict

Judge = Callable[[str], PageVerdict]

CLAIM = """
:::{{claim}} numbers/{0}
It is so.
:::

```{{code-cell}} python
{1}
```
"""
HELPER = "def is_one(number):\n    assert number == 1"


def words(verdict: PageVerdict) -> list[str]:
    return [claim.word for claim in verdict.claims]


# --- What a function asserts is the evidence of who calls it


TOLD = "claim is FALSE: number == 1, where number is 2"


@pytest.mark.parametrize(
    ("call", "red"), [("is_one(1)", {}), (">>> x = 2\n>>> is_one(x)", {18: TOLD})]
)
def test_a_check_is_charged_to_the_claim_that_calls_it(
    call: str, red: dict[int, str], judge: Judge
) -> None:
    calling = CLAIM.format("caller", call)
    if call.startswith(">>>"):
        calling = calling.replace("{code-cell} python", "pycon")
    verdict = judge(CLAIM.format("helper", f"{HELPER}\nis_one(1)") + calling)
    assert words(verdict) == ["true", "false" if red else "true"]
    assert {problem.line: problem.message for problem in verdict.problems} == red


def test_a_claim_whose_function_only_others_call_has_no_evidence(judge: Judge) -> None:
    verdict = judge(CLAIM.format("helper", HELPER) + CLAIM.format("caller", "is_one(1)"))
    assert words(verdict) == ["false", "true"]
    (problem,) = verdict.problems
    assert problem.message.startswith("claim numbers/helper has no evidence")


# --- Which version judges it


@pytest.mark.parametrize("slip", ["nonsense()", "one = 1 +"], ids=["name", "syntax"])
def test_a_slip_does_not_prove_that_a_claim_is_false_elsewhere(slip: str, judge: Judge) -> None:
    claim = CLAIM.format("two\n:since: 99\n", f"{slip}\nassert 1 + 1 == 3")
    (problem,) = judge(claim).problems
    assert problem.message.endswith("that it is false here is shown by no such slip")
    assert problem.line == 9


@pytest.mark.skipif(usual_kind() == "spawn", reason="of forked processes")
def test_whoever_finds_that_the_process_of_all_pages_is_gone_says_so(tmp_path: Path) -> None:
    with Workers([]) as workers:
        workers._forkserver.kill()
        workers._forkserver.wait()
        for _ in range(2):  # the second finds closed what the first has closed
            with pytest.raises(RuntimeError, match=r"is gone \(exit code -9\)"):
                workers.run(find_docstrings, "keyword", tmp_path, seconds=30)
        workers.stop()
