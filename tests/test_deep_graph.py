"""Graphs so deep that freeing one step inside the other would overflow the stack."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

DEEP_GRAPHS = Path(__file__).with_name("deep_graphs.py")
SCENARIOS = runpy.run_path(str(DEEP_GRAPHS))["SCENARIOS"]
UNGUARDED = "nothing guards it"

# On such a stack some 3,000 steps are too many.
PYTHON_ON_A_SMALL_STACK = ["/bin/sh", "-c", 'ulimit -s 512 && exec "$0" "$@"', sys.executable]


@pytest.fixture(scope="module")
def exits() -> dict[str, int]:
    """Tell how the process of each scenario ended: 0, or minus the signal that killed it."""
    unworried = ["-W", "ignore::DeprecationWarning"]  # of fork: no thread is running
    command = [*PYTHON_ON_A_SMALL_STACK, *unworried, str(DEEP_GRAPHS)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stderr == ""
    lines = (line.split(": ") for line in run.stdout.splitlines())
    return {name: int(code) for name, code in lines}


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != UNGUARDED])
def test_a_deep_graph_that_was_traced_can_be_freed(scenario: str, exits: dict[str, int]) -> None:
    assert exits[scenario] == 0


def test_a_deep_graph_whose_nodes_own_what_python_saw_kills_the_process_without_a_guard(
    exits: dict[str, int],
) -> None:
    result = torch.ones(1, requires_grad=True).sin()
    references = sys.getrefcount(result.grad_fn)  # the argument's, and from 2.13 on the node's
    assert (exits[UNGUARDED] < 0) is (references == 2)


A_MILLION = """
import torch
from leafgrad import _autograd

x = torch.ones(1, requires_grad=True)
for _ in range(1_000_000):
    x = x.sin()
print(len(_autograd.walk([x.grad_fn])))
del x
print("freed")
"""


def test_a_million_operations_in_a_chain_can_be_looked_at_and_freed() -> None:
    run = subprocess.run(
        [*PYTHON_ON_A_SMALL_STACK, "-c", A_MILLION], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "1000001\nfreed\n", "")
