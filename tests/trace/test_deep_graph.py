"""Graphs so deep that freeing them recursively would overflow the stack."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.apart import PYTHON_ON_A_SMALL_STACK, RunApart
from tests.processes import needs_fork

pytestmark = needs_fork

DEEP_GRAPHS = Path(__file__).with_name("deep_graphs.py")
SCENARIOS = runpy.run_path(str(DEEP_GRAPHS))["SCENARIOS"]
UNGUARDED = "nothing guards it"


@pytest.fixture(scope="module")
def exits() -> dict[str, int]:
    """Return the exit code of each scenario, negative for a signal."""
    unworried = [
        "-W",
        "ignore::DeprecationWarning",
    ]  # Python warns about fork in a process with threads, but there are none.
    command = [*PYTHON_ON_A_SMALL_STACK, *unworried, str(DEEP_GRAPHS)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stderr == ""
    lines = (line.split(": ") for line in run.stdout.splitlines())
    return {name: int(code) for name, code in lines}


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != UNGUARDED])
def test_traced_deep_graph_can_be_freed(scenario: str, exits: dict[str, int]) -> None:
    assert exits[scenario] == 0


def test_deep_graph_without_guard_kills_the_process(exits: dict[str, int]) -> None:
    result = torch.ones(1, requires_grad=True).sin()
    references = sys.getrefcount(
        result.grad_fn
    )  # one from the argument, and from 2.13 on one from the node
    assert (exits[UNGUARDED] < 0) is (references == 2)


CHAIN = """
import torch
from leafgrad import trace_graph

x = torch.ones(1, requires_grad=True)
for _ in range(30_000):
    x = x.sin()
trace = trace_graph(x, saved=False)
del x
print("freed")
del trace
"""


def test_chain_of_thirty_thousand_operations_is_traced_and_freed(run_apart: RunApart) -> None:
    run = run_apart(CHAIN)
    assert (run.returncode, run.stdout, run.stderr) == (0, "freed\n", "")
