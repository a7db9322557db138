"""The claim that a check counts for, the version that judges it, and killed processes."""

from pathlib import Path

import pytest

from tests.proving import Judge, PageVerdict, Workers, find_docstrings, forked

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


# --- Checks inside functions count for the caller


TOLD = "claim is FALSE: number == 1, where number is 2"


@pytest.mark.parametrize(
    ("call", "red"), [("is_one(1)", {}), (">>> x = 2\n>>> is_one(x)", {18: TOLD})]
)
def test_check_in_a_function_counts_for_the_calling_claim(
    call: str, red: dict[int, str], judge: Judge
) -> None:
    calling = CLAIM.format("caller", call)
    if call.startswith(">>>"):
        calling = calling.replace("{code-cell} python", "pycon")
    verdict = judge(CLAIM.format("helper", f"{HELPER}\nis_one(1)") + calling)
    assert words(verdict) == ["true", "false" if red else "true"]
    assert {problem.line: problem.message for problem in verdict.problems} == red


def test_claim_that_only_defines_a_function_has_no_evidence(judge: Judge) -> None:
    verdict = judge(CLAIM.format("helper", HELPER) + CLAIM.format("caller", "is_one(1)"))
    assert words(verdict) == ["false", "true"]
    (problem,) = verdict.problems
    assert problem.message.startswith("claim numbers/helper has no evidence")


# --- Errors that do not refute


@pytest.mark.parametrize("slip", ["nonsense()", "one = 1 +"], ids=["name", "syntax"])
def test_name_or_syntax_error_does_not_refute_a_claim(slip: str, judge: Judge) -> None:
    claim = CLAIM.format("two\n:since: 99\n", f"{slip}\nassert 1 + 1 == 3")
    (problem,) = judge(claim).problems
    assert problem.message.endswith("that it is false here is shown by no such slip")
    assert problem.line == 9


@forked
def test_killed_fork_server_raises_an_error_with_its_exit_code(tmp_path: Path) -> None:
    with Workers([]) as workers:
        workers._forkserver.kill()
        workers._forkserver.wait()
        for _ in range(2):  # the second call finds a closed socket
            with pytest.raises(RuntimeError, match=r"is gone \(exit code -9\)"):
                workers.run(find_docstrings, "keyword", tmp_path, seconds=30)
        workers.stop()
