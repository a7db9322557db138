"""Compare the time of `trace_graph` with a bare walk and with torchviz, and measure its memory.

Each way traverses a new graph, as in use, and one that was already traversed. The first time is
slower because PyTorch then creates a Python object for each node. "reads" is the walk plus reading
the attributes that a trace reports: about the least work possible. Ways take turns, and figures
are medians of CPU times or of ratios. Each graph gets as many rounds as fit into `SECONDS`.
Garbage is collected before each measurement.

Arguments are names of graphs to measure. ``forms`` measures writing a trace in each of its forms,
and ``describe`` measures describing tensors. Without arguments, everything is measured.
"""

import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
import torchviz
from torch import nn

from leafgrad import GraphTrace, describe_tensor, trace_graph
from tests.models import Run, run_lstm, run_resnet, run_transformer

SECONDS = 6  # The CPU time for all rounds of one graph. The first round always ends.
MOST_ROUNDS = 31


def chain(steps: int) -> torch.Tensor:
    """Return the result of `steps` operations, one applied to the other."""
    x = torch.ones(1, requires_grad=True)
    for _ in range(steps):
        x = x.sin()
    return x


def diamonds(count: int) -> torch.Tensor:
    """Return the result of `count` sums of two branches, one after the other."""
    x = torch.ones(1, requires_grad=True)
    for _ in range(count):
        x = x.sin() + x.cos()
    return x


def leaves(count: int) -> torch.Tensor:
    """Return a sum over `count` leaves."""
    return torch.stack([torch.ones(1, requires_grad=True) for _ in range(count)]).sum()


GRAPHS: dict[str, Callable[[], torch.Tensor]] = {
    "chain of 100": lambda: chain(100),
    "chain of 900": lambda: chain(900),
    "chain of 10,000": lambda: chain(10_000),
    "chain of 100,000": lambda: chain(100_000),
    "diamonds, 300": lambda: diamonds(300),
    "10,000 leaves": lambda: leaves(10_000),
    "ResNet": lambda: run_resnet().loss,
    "transformer": lambda: run_transformer().loss,
    "LSTM": lambda: run_lstm().loss,
}
HUGE: dict[str, Callable[[], torch.Tensor]] = {
    "chain of 1,000,000": lambda: chain(1_000_000),
    "diamonds, 100,000": lambda: diamonds(100_000),
}


def nodes_of(y: Any) -> set[Any]:
    """Return all nodes of the graph of `y`. Any reader of a graph must do at least this."""
    seen = {y.grad_fn}
    ahead = [y.grad_fn]
    while ahead:
        for node, _ in ahead.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                ahead.append(node)
    return seen


def read_structure(y: Any) -> set[Any]:
    """Read each node's sequence number and the shape, dtype and device in its input metadata.

    Return the nodes.
    """
    nodes = nodes_of(y)
    for node in nodes:
        node._sequence_nr()  # noqa: SLF001
        for made in node._input_metadata:  # noqa: SLF001
            made.shape, made.dtype, made.device  # noqa: B018
    return nodes


def read_saved(y: Any) -> None:
    """Read the structure, and the memory, version, shape and dtype of each saved tensor."""
    names: dict[type, list[str]] = {}
    for node in read_structure(y):
        kind = type(node)
        if kind not in names:
            names[kind] = [name for name in dir(kind) if name.startswith("_raw_saved_")]
        for name in names[kind]:
            slots = getattr(node, name)
            for slot in slots if isinstance(slots, tuple) else (slots,):
                if slot.unpack_hook is None and (kept := slot.data) is not None:
                    memory = kept.untyped_storage()
                    memory._cdata, memory.nbytes(), kept._version, kept._base  # noqa: SLF001
                    kept.shape, kept.dtype, kept.device  # noqa: B018


WAYS: dict[str, Callable[[torch.Tensor], object]] = {
    "walk": nodes_of,
    "reads": read_structure,
    "structure": lambda y: trace_graph(y, saved=False),
    "all reads": read_saved,
    "with saved": trace_graph,
    "make_dot": torchviz.make_dot,
    "show_saved": lambda y: torchviz.make_dot(y, show_saved=True),
}

READERS = ["walk", "structure", "with saved"]  # the only ways measured on huge graphs, to save time

Times = dict[str, float]


def seconds(way: Callable[[Any], object], y: object) -> float:
    """Return the CPU seconds of calling `way`; infinity if it exceeds the recursion limit."""
    gc.collect()
    start = time.process_time()
    try:
        way(y)
    except RecursionError:
        return float("inf")
    return time.process_time() - start


def once(make: Callable[[], torch.Tensor], names: Iterable[str]) -> tuple[Times, Times]:
    """Return the seconds of each way on a new graph, and on one already traversed.

    `names` are the names of the ways.
    """
    new = {}
    for name in names:
        y = make()
        new[name] = seconds(WAYS[name], y)
        trace_graph(y, saved=False)  # now the graph can be freed without deep recursion
    return new, {name: seconds(WAYS[name], y) for name in names}


def take_turns(make: Callable[[], torch.Tensor], names: Iterable[str]) -> list[list[Times]]:
    """Run rounds until `SECONDS` have passed.

    `names` are the names of the ways that are compared. Return the times on new graphs and those on
    traversed graphs, by round.
    """
    start = time.process_time()
    rounds = [once(make, names)]
    while len(rounds) < MOST_ROUNDS and time.process_time() - start < SECONDS:
        rounds.append(once(make, names))
    return [*map(list, zip(*rounds, strict=True))]


def bytes_a_node(y: torch.Tensor, count: int) -> str:
    """Return a line with the bytes per node: the peak while tracing, and the size of the trace.

    `count` is the number of nodes.
    """
    gc.collect()
    tracemalloc.start()
    trace = trace_graph(y)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(trace.nodes) == count
    return f"bytes a node: peak {peak // count}, kept {kept // count}"


def shown(rounds: list[Times], count: int) -> str:
    """Return a line: microseconds per node of the walk, and ratios of other ways to it.

    `count` is the number of nodes. The last two ratios compare torchviz with leafgrad.
    """
    pairs = [(name, "walk") for name in WAYS if name != "walk"]
    pairs += [("make_dot", "structure"), ("show_saved", "with saved")]
    walk = statistics.median(own["walk"] for own in rounds)
    return f"{1e6 * walk / count:8.2f} us" + "".join(_multiple(rounds, *pair) for pair in pairs)


def _multiple(rounds: list[Times], one: str, unit: str) -> str:
    if one not in rounds[0]:
        return f"{'':11}"
    multiple = statistics.median(own[one] / own[unit] for own in rounds)
    return f"{multiple:9.1f} x" if multiple < float("inf") else "   recurses"


def print_graphs(graphs: Mapping[str, Callable[[], torch.Tensor]]) -> None:
    """Print three lines per graph.

    They show times on a new graph, times on one already traced, and bytes per node.
    """
    others = [*[*WAYS][1:], "dot/struct.", "dot/saved"]
    print(f"{'':19}{'nodes':>9}       {'walk/node':>11}" + "".join(f"{w:>11}" for w in others))
    for name, make in graphs.items():
        new, known = take_turns(make, READERS if name in HUGE else WAYS)
        y = make()
        trace_graph(y, saved=False)
        count = len(nodes_of(y))
        print(f"{name:19}{count:9,} new   {shown(new, count)}")
        print(f"{'':28} known {shown(known, count)}")
        print(f"{'':28} {bytes_a_node(y, count)}", flush=True)


FORMS: dict[str, Callable[[GraphTrace], object]] = {
    "text": str,
    "to_svg": GraphTrace.to_svg,
}
WRITTEN: dict[str, Callable[[], Run]] = {
    "chain of 3,000": lambda: Run(chain(3_000), nn.Module()),
    "transformer": run_transformer,
}


def print_forms() -> None:
    """Print for each form how many times as long as a bare walk it takes to write a new trace."""
    print(f"\n{'':19}{'nodes':>9}       {'walk/node':>11}" + "".join(f"{f:>11}" for f in FORMS))
    for name, run in WRITTEN.items():
        y, model = run()
        trace = trace_graph(y, names=model)
        rounds = []
        for _ in range(MOST_ROUNDS):
            times = {form: seconds(write, replace(trace)) for form, write in FORMS.items()}
            rounds.append(times | {"walk": seconds(nodes_of, y)})
        count = len(trace.nodes)
        walk = statistics.median(times["walk"] for times in rounds)
        multiples = "".join(_multiple(rounds, form, "walk") for form in FORMS)
        print(f"{name:19}{count:9,}       {1e6 * walk / count:8.2f} us{multiples}", flush=True)


CALLS = 100


def describe_often(tensor: torch.Tensor) -> None:
    """Describe a tensor `CALLS` times, because one call is too short to time."""
    for _ in range(CALLS):
        describe_tensor(tensor)


def print_tensors() -> None:
    """Print the time of `describe_tensor` for a constant, a leaf and a result of each size."""
    print("\ndescribe_tensor, us")
    for exponent in range(8):
        x = torch.ones(10**exponent, requires_grad=True)
        for tensor in (x.detach(), x, x.sin()):
            runs = [seconds(describe_often, tensor) for _ in range(MOST_ROUNDS)]
            print(f"{1e6 * statistics.median(runs) / CALLS:8.1f}", end="")
        print(f"  {10**exponent:,} elements")


def main() -> None:
    """Print the tables chosen on the command line."""
    torch.set_num_threads(1)
    gc.freeze()  # This makes `gc.collect()` skip imported modules.
    graphs = GRAPHS | HUGE
    chosen = sys.argv[1:] or [*graphs, "forms", "describe"]
    print_graphs({name: make for name, make in graphs.items() if name in chosen})
    if "forms" in chosen:
        print_forms()
    if "describe" in chosen:
        print_tensors()


if __name__ == "__main__":
    main()
