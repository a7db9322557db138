"""Deep graphs that are traced and then freed in various orders; `test_deep_graph.py` runs this.

Each scenario runs in a process forked from this one.
"""

import gc
import os
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

from leafgrad import describe_tensor, trace_graph

STEPS = 5_000


def chain(steps: int = STEPS, start: torch.Tensor | None = None) -> list[torch.Tensor]:
    """Apply an operation `steps` times and return all results. `start` is the first input."""
    steps_made = [torch.ones(1, requires_grad=True) if start is None else start]
    for _ in range(steps):
        steps_made.append(steps_made[-1].sin())
    return steps_made


def tangle(seed: int) -> list[torch.Tensor]:
    """Give each node up to three successors among the last four."""
    choose = random.Random(seed)
    steps = chain(3)
    for _ in range(2 * STEPS):
        steps.append(torch.stack(choose.choices(steps[-4:], k=choose.randint(1, 3))).sum(0))
    return steps


def a_tensor_is_kept_in_the_middle() -> None:
    steps = chain()
    middle, y = steps[STEPS // 2], steps[-1]
    del steps
    trace_graph(y)
    del y
    middle.backward()
    del middle


def a_rail_is_kept_beside_a_rail() -> None:
    """Keep one half of a ladder alive while the other one is freed."""
    rail, ladder = chain(), [torch.ones(1, requires_grad=True)]
    for step in rail:
        ladder.append(ladder[-1] * step)
    y, kept = ladder[-1], [rail[-1], ladder[STEPS // 2]]
    del rail, ladder, step
    trace_graph(y)
    del y
    kept.pop()
    kept.pop()


def a_backward_comes_in_between() -> None:
    y = chain()[-1]
    trace_graph(y)
    y.backward(retain_graph=True)
    trace_graph(y)
    y.backward()
    assert trace_graph(y).is_freed
    del y


def gradients_of_gradients() -> None:
    steps = chain()
    (gradient,) = torch.autograd.grad(steps[-1], steps[0], create_graph=True)
    del steps
    trace_graph(gradient)
    del gradient


def tangles_go_in_any_order() -> None:
    for seed in range(2):
        steps = tangle(seed)
        trace_graph(steps[-1])
        random.Random(seed).shuffle(steps)
        while steps:
            steps.pop()


def another_thread_frees_it() -> None:
    threading.stack_size(512 * 1024)
    y = [chain()[-1]]
    trace_graph(y)
    thread = threading.Thread(target=y.clear)
    thread.start()
    thread.join()


def every_step_was_described() -> None:
    steps = chain()
    for step in steps:
        describe_tensor(step)
    y = steps[-1]
    del step, steps
    trace_graph(y)
    del y


SURVIVORS: list[torch.Tensor] = []


def it_lives_until_the_process_ends() -> None:
    SURVIVORS.append(chain()[-1])
    trace_graph(SURVIVORS)


def nothing_guards_it() -> None:
    """Visit each node from Python, which makes the graph unsafe to free."""
    y: Any = chain(30_000)[-1]
    seen: set[object] = set()
    ahead = [y.grad_fn]
    while ahead:
        node = ahead.pop()
        seen.add(node)
        ahead += [successor for successor, _ in node.next_functions if successor is not None]
    del node
    seen.clear()
    del y


SCENARIOS: dict[str, Callable[[], None]] = {
    "a tensor is kept in the middle": a_tensor_is_kept_in_the_middle,
    "a rail is kept beside a rail": a_rail_is_kept_beside_a_rail,
    "a backward comes in between": a_backward_comes_in_between,
    "gradients of gradients": gradients_of_gradients,
    "tangles go in any order": tangles_go_in_any_order,
    "another thread frees it": another_thread_frees_it,
    "every step was described": every_step_was_described,
    "it lives until the process ends": it_lives_until_the_process_ends,
    "nothing guards it": nothing_guards_it,
}


def run_apart(scenario: Callable[[], None]) -> int:
    """Run a scenario in a new process. Return 0, or minus the signal that killed it."""
    child = os.fork()
    if not child:
        scenario()
        if not SURVIVORS:  # This skips Python's shutdown, which takes longer than most scenarios.
            gc.collect()  # Python would also collect cycles at shutdown.
            os._exit(0)
        sys.exit()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    gc.freeze()  # children do not collect inherited objects
    for name, scenario in SCENARIOS.items():
        sys.stdout.write(f"{name}: {run_apart(scenario)}\n")
        sys.stdout.flush()
