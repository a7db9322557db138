"""Measure the CPU time of pictures: the layout, Graphviz (if installed), and the total."""

import itertools
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import nn

from leafgrad import GraphTrace, trace_graph
from leafgrad._picture.layout import Edge, Extent, lay_out
from leafgrad._picture.svg.svg import layout_edges, measure_boxes
from leafgrad._picture.view import view_of

ROUNDS = 5
PATIENCE = 60.0  # seconds until Graphviz is stopped

Graph = tuple[Sequence[Extent], Sequence[Edge]]


def of(trace: GraphTrace, *, fold: bool) -> Graph:
    """Return the boxes and edges that the layout gets for the picture of a trace."""
    shown = view_of(trace, fold=fold)
    return [one.extent() for one in measure_boxes(trace, shown)], layout_edges(shown)


class Layer(nn.Module):
    """A transformer block as in GPT-2."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the result of attention with two heads and the perceptron."""
        heads = (part.unflatten(-1, (2, -1)) for part in self.attend(self.norms[0](x)).chunk(3, -1))
        q, k, v = (part.transpose(1, 2) for part in heads)
        scores = (q @ k.mT / 2).softmax(-1)
        x = x + self.project((scores @ v).transpose(1, 2).flatten(2))
        y: torch.Tensor = x + self.narrow(nn.functional.gelu(self.widen(self.norms[1](x))))
        return y


def gpt(layers: int) -> GraphTrace:
    """Return the trace of a GPT with this number of layers."""
    model = nn.Sequential(nn.Linear(8, 8), *(Layer(8) for _ in range(layers)))
    return trace_graph(model(torch.ones(1, 4, 8)).mean(), names=model)


def lstm(steps: int) -> GraphTrace:
    """Return the trace of an LSTM cell that is called `steps` times."""
    cell = nn.LSTMCell(4, 8)
    state = torch.zeros(2, 8), torch.zeros(2, 8)
    for _ in range(steps):
        state = cell(torch.ones(2, 4), state)
    return trace_graph(state[0].sum(), names=cell)


def chain(count: int) -> Graph:
    """Return `count` boxes, each linked to the next one."""
    links = [Edge(source=a, target=b) for a, b in pairwise(range(count))]
    return [Extent(width=120, height=48)] * count, links


def seconds(work: Callable[[], object]) -> float:
    """Return the median CPU time of a few calls of `work`, in seconds."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def with_dot(graph: Graph) -> float | None:
    """Return the CPU seconds of Graphviz; None if it is missing, fails or takes over a minute."""
    if shutil.which("dot") is None:
        return None
    boxes, links = graph
    size = "width={:.2f} height={:.2f}"
    nodes = (f"{n} [{size.format(b.width / 72, b.height / 72)}]" for n, b in enumerate(boxes))
    edges = (f"{link.source} -> {link.target}" for link in links)
    source = "\n".join(["digraph { node [shape=box label=x]", *nodes, *edges, "}"])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        subprocess.run(
            ["dot", "-Tplain"], input=source, capture_output=True, check=True, text=True,
            timeout=PATIENCE,
        )  # fmt: skip
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print a table row for each graph."""
    torch.set_num_threads(1)
    graphs = {
        "chain": chain(10_000),
        "12-layer GPT, in full": of(gpt(12), fold=False),
        "52-layer GPT, in full": of(gpt(52), fold=False),
        "40-step LSTM, leaves once": of(lstm(40), fold=False),
        "40-step LSTM, folded": of(lstm(40), fold=True),
    }
    print(f"{'':30} {'boxes':>6} {'layout':>8} {'dot':>8} {'dot / layout':>12}")
    for name, graph in graphs.items():
        own = seconds(lambda graph=graph: lay_out(*graph))  # type: ignore[misc]
        dot = with_dot(graph)
        missing = "none" if shutil.which("dot") else "no dot"
        other = f"{missing:>8}" if dot is None else f"{dot:6.2f} s {dot / own:12.0f}"
        print(f"{name:30} {len(graph[0]):6} {own:6.3f} s {other}")
    folds: tuple[bool | str, ...] = (True, False, "*")
    for layers, fold in itertools.product((12, 52), folds):
        trace = gpt(layers)
        with_fold = "in full" if fold is False else f"fold={fold!r}"
        try:
            whole = seconds(lambda trace=trace, fold=fold: trace.to_svg(fold=fold))  # type: ignore[misc]
        except ValueError as refused:
            print(f"{layers}-layer GPT, to_svg {with_fold}: {refused}")
        else:
            print(
                f"{layers}-layer GPT, {len(trace.nodes)} nodes, to_svg {with_fold}: {whole:.3f} s"
            )


if __name__ == "__main__":
    main()
