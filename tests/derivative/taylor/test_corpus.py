"""Networks from the literature have right derivatives, or are refused for a reason."""

import subprocess
import sys
from pathlib import Path

import pytest

CORPUS = Path(__file__).parents[3] / "benchmarks" / "corpus.py"


@pytest.mark.sweep
def test_corpus_networks_have_right_derivatives_and_no_needless_refusal() -> None:
    command = [sys.executable, "-W", "ignore", str(CORPUS)]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    *lines, last = finished.stdout.splitlines()
    counts = {kind: int(count) for kind, count in (part.split() for part in last.split(", "))}
    assert {*counts} == {"taylor", "refused"}, finished.stdout
    assert counts["refused"] == 4
    assert counts["taylor"] >= 48
    assert sum(counts.values()) == len(lines)
