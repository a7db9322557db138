"""Whatever PyTorch's operators compute, the two methods never give different derivatives."""

import subprocess
import sys
from pathlib import Path

from tests.processes import unmeasured

SWEEP = Path(__file__).parents[3] / "benchmarks" / "operators.py"


def test_no_operator_has_other_derivatives_in_taylor_mode_than_in_reverse_mode() -> None:
    # In a process of its own, as PyTorch's table of operators changes settings and warns.
    command = [sys.executable, "-W", "ignore", str(SWEEP), "--samples", "2"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, env=unmeasured())
    *lines, operators, _ = finished.stdout.splitlines()
    assert [line for line in lines if line.startswith("differs")] == []
    counts = dict(part.rsplit(" ", 1) for part in operators.partition(": ")[2].split(", "))
    assert int(counts["rule"]) + int(counts["rule alone"]) > 240
    assert sum(map(int, counts.values())) == len(lines) > 500
