"""What `trace_graph` costs beside a bare walk and beside torchviz, and what it takes in memory.

Each way looks at a graph that is new, as in use, and at one that Python has looked at before: to
wrap a node in a Python object takes longer than anything else that a bare walk does. Ways take
turns, figures are medians of CPU time, and names of sizes that are given choose among the graphs.
"""

import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torchviz

from leafgrad import describe_tensor, trace_graph
from tests.models import run_lstm, run_resnet, run_transformer

BUDGET = 200_000  # nodes that each way looks at, in all rounds together
MOST_ROUNDS = 15


def chain(steps: int) -> torch.Tensor:
    """Apply one operation after another."""
    x = torch.ones(1, requires_grad=True)
    for _ in range(steps):
        x = x.sin()
    return x


def diamonds(count: int) -> torch.Tensor:
    """Part and join again and again."""
    x = torch.ones(1, requires_grad=True)
    for _ in range(count):
        x = x.sin() + x.cos()
    return x


def leaves(count: int) -> torch.Tensor:
    """Use many leaves at once."""
    return torch.stack([torch.ones(1, requires_grad=True) for _ in range(count)]).sum()


GRAPHS: dict[str, Callable[[], torch.Tensor]] = {
    "chain of 100": lambda: chain(100),
    "chain of 900": lambda: chain(900),
    "chain of 10,000": lambda: chain(10_000),
    "chain of 100,000": lambda: chain(100_000),
    "chain of 1,000,000": lambda: chain(1_000_000),
    "diamonds, 300": lambda: diamonds(300),
    "diamonds, 100,000": lambda: diamonds(100_000),
    "10,000 leaves": lambda: leaves(10_000),
    "ResNet": lambda: run_resnet().loss,
    "transformer": lambda: run_transformer().loss,
    "LSTM": lambda: run_lstm().loss,
}


def bare_walk(y: Any) -> int:
    """Count the nodes, which is the least that any reader of a graph does."""
    seen = {y.grad_fn}
    ahead = [y.grad_fn]
    while ahead:
        for node, _ in ahead.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                ahead.append(node)
    return len(seen)


WAYS: dict[str, Callable[[torch.Tensor], object]] = {
    "bare walk": bare_walk,
    "structure": lambda y: trace_graph(y, saved=False),
    "with saved": trace_graph,
    "and .nodes": lambda y: trace_graph(y).nodes,
    "make_dot": torchviz.make_dot,
    "show_saved": lambda y: torchviz.make_dot(y, show_saved=True),
}

Times = dict[str, tuple[float, float]]


def seconds(way: Callable[[torch.Tensor], object], y: torch.Tensor) -> float:
    """Measure the CPU time of one way, infinite where it recurses too deep."""
    start = time.process_time()
    try:
        way(y)
    except RecursionError:
        return float("inf")
    return time.process_time() - start


def times(make: Callable[[], torch.Tensor], rounds: int) -> Times:
    """Let the ways take turns; give the medians on new graphs and on known ones."""
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, way in WAYS.items():
            y = make()
            new = seconds(way, y)
            trace_graph(y, saved=False)  # whoever else looked, the graph is safe to free from here
            known = seconds(way, y) if new < float("inf") else new
            measured[name].append((new, known))
    medians = (map(statistics.median, zip(*pairs, strict=True)) for pairs in measured.values())
    return {name: (new, known) for name, (new, known) in zip(WAYS, medians, strict=True)}


def bytes_a_node(make: Callable[[], torch.Tensor], count: int) -> tuple[int, int, int]:
    """Measure the peak while tracing, what a trace keeps, and what it keeps with its nodes."""
    y = make()
    trace_graph(y, saved=False)
    gc.collect()
    tracemalloc.start()
    trace = trace_graph(y)
    kept, peak = tracemalloc.get_traced_memory()
    assert len(trace.nodes) == count
    gc.collect()
    in_full, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak // count, kept // count, in_full // count


def shown(times: Times, count: int, which: int) -> str:
    """Show the walk in microseconds a node, the others as multiples of it."""
    walk = times["bare walk"][which]
    others = [times[name][which] / walk for name in WAYS if name != "bare walk"]
    cells = [f"{other:9.1f} x" if other < float("inf") else "  recurses " for other in others]
    return f"{1e6 * walk / count:8.2f} us" + "".join(cells)


def print_graphs(graphs: Mapping[str, Callable[[], torch.Tensor]]) -> None:
    """Print two lines a graph: looked at for the first time, and once more."""
    print(f"{'':19}{'nodes':>9}       {'walk/node':>11}" + "".join(f"{w:>11}" for w in [*WAYS][1:]))
    for name, make in graphs.items():
        y = make()
        trace_graph(y, saved=False)
        count = bare_walk(y)
        del y
        rounds = max(1, min(MOST_ROUNDS, BUDGET // count))
        measured = times(make, rounds)
        print(f"{name:19}{count:9,} new   {shown(measured, count, 0)}")
        print(f"{'':28} known {shown(measured, count, 1)}")
        peak, kept, in_full = bytes_a_node(make, count)
        print(f"{'':28} bytes a node: peak {peak}, kept {kept}, with .nodes {in_full}", flush=True)


CALLS = 100


def describe_often(tensor: torch.Tensor) -> None:
    """Describe a tensor so often that a clock can tell how long it takes."""
    for _ in range(CALLS):
        describe_tensor(tensor)


def print_tensors() -> None:
    """Print what it takes to describe tensors of any size: a constant, a leaf and a result."""
    print("\ndescribe_tensor, us")
    for exponent in range(8):
        x = torch.ones(10**exponent, requires_grad=True)
        for tensor in (x.detach(), x, x.sin()):
            runs = [seconds(describe_often, tensor) for _ in range(MOST_ROUNDS)]
            print(f"{1e6 * statistics.median(runs) / CALLS:8.1f}", end="")
        print(f"  {10**exponent:,} elements")


def main() -> None:
    """Print both tables."""
    torch.set_num_threads(1)
    chosen = [name for name in GRAPHS if not sys.argv[1:] or name in sys.argv[1:]]
    print_graphs({name: GRAPHS[name] for name in chosen})
    print_tensors()


if __name__ == "__main__":
    main()
