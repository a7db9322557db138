"""Graphs as DOT."""

import shutil
import subprocess
import xml.etree.ElementTree as ET
from typing import Any

import pydot
import pytest
import torch
from torch import nn

from leafgrad import GraphTrace, trace_graph
from tests.tensors import leaf

SVG = "{http://www.w3.org/2000/svg}"


HOSTILE = 'a "quoted" <b> & #1; [x] {y} \\n |z| `c`\nnext'


def small() -> GraphTrace:
    x = leaf(2)
    return trace_graph(x.unbind()[1] * torch.ones(()), names={HOSTILE: x})


def layers(count: int) -> GraphTrace:
    blocks = [nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)) for _ in range(count)]
    model = nn.Sequential(*blocks, nn.Linear(2, 1))
    x = model(torch.ones(1, 2))
    return trace_graph(x, names=model)


def unlabelled() -> GraphTrace:
    undefined: Any = torch._C._functions
    return trace_graph(torch.autograd.graph.GradientEdge(undefined.UndefinedGrad(), 0))


def test_dot_of_graph() -> None:
    assert small().to_dot() == DOT.strip()


DOT = r"""
digraph leafgrad {
  node [shape=box, fontname="sans-serif"];
  0 [label="MulBackward0\n()", style=rounded];
  1 [label="UnbindBackward0\n()", style=rounded];
  2 [label="AccumulateGrad\na \"quoted\" <b> & #1; [x] {y} \\n |z| `c`\nnext\n(2,)"];
  0 -> 1 [label="output 1"];
  1 -> 2;
}
"""


@pytest.mark.filterwarnings("ignore:.* deprecated - use:DeprecationWarning")  # within pydot
@pytest.mark.parametrize(
    "trace", [small(), layers(3), unlabelled()], ids=["small", "layers", "bare"]
)
def test_pydot_reads_each_node_and_edge(trace: GraphTrace) -> None:
    graphs: Any = pydot.graph_from_dot_data(trace.to_dot())
    (graph,) = graphs
    named = [node for node in graph.get_nodes() if node.get_name() != "node"]
    count = len(trace.nodes) + len(trace.inputs)
    assert [node.get_name() for node in named] == [str(place) for place in range(count)]
    edges = (edge for edge in graph.get_edges() if int(edge.get_destination()) < len(trace.nodes))
    ends = [f"{edge.get_source()} {edge.get_destination()}" for edge in edges]
    assert ends == [f"{e.source} {e.target}" for e in trace.edges if e.target is not None]


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")
def test_graphviz_writes_names_unchanged() -> None:
    drawn = subprocess.run(
        ["dot", "-Tsvg"], input=small().to_dot(), capture_output=True, text=True, check=True
    )
    written = [element.text for element in ET.fromstring(drawn.stdout).iter(f"{SVG}text")]
    assert drawn.stderr == ""
    assert {*HOSTILE.split("\n"), "UnbindBackward0", "output 1", "(2,)"} <= {*written}
