"""Graphs as DOT and Mermaid."""

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from typing import Any

import pydot
import pytest
import torch
from torch import nn

from leafgrad import GraphTrace, trace_graph
from tests.models import transformer
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


def chain(steps: int) -> GraphTrace:
    x = leaf(2)
    for _ in range(steps):
        x = x.sin()
    return trace_graph(x)


def unlabelled() -> GraphTrace:
    undefined: Any = torch._C._functions
    return trace_graph(torch.autograd.graph.GradientEdge(undefined.UndefinedGrad(), 0))


def boxes(text: str) -> int:
    return len(re.findall(r'^  n\d+[\[(]"', text, re.MULTILINE))


def arrows(text: str) -> int:
    return len(re.findall(r"^  n\d+ --> n\d+$", text, re.MULTILINE))


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


def test_mermaid_of_graph() -> None:
    assert small().to_mermaid() == MERMAID.strip()


MERMAID = r"""
flowchart TD
  n0("MulBackward0<br/>()")
  n1("UnbindBackward0<br/>()")
  n2["AccumulateGrad<br/>a #34;quoted#34; #60;b#62; #38; #35;1#59; [x] {y} \n |z| #96;c#96;#10;next<br/>(2,)"]
  n0 --> n1
  n1 --> n2
"""  # noqa: E501


def test_mermaid_of_500_nodes_is_not_folded() -> None:
    text = chain(499).to_mermaid()
    assert (boxes(text), arrows(text)) == (500, 499)
    assert "%%" not in text


@pytest.mark.parametrize(
    ("trace", "comment", "box"),
    [
        (
            chain(600),
            "folded by kind of node: 601 nodes into 2 boxes",
            "SinBackward0<br/>600 nodes",
        ),
        (
            layers(70),
            "folded by module, 2 levels deep: 564 nodes into 142 boxes",
            "69.1<br/>4 nodes",
        ),
        (layers(300), "folded by module, 1 level deep: 2404 nodes into 302 boxes", "7<br/>8 nodes"),
        (layers(600), "folded by kind of node: 4804 nodes into 4 boxes", "TBackward0<br/>1201"),
    ],
    ids=["by kind", "by inner module", "by outer module", "by kind as modules are too many"],
)
def test_larger_mermaid_is_folded_and_says_how(trace: GraphTrace, comment: str, box: str) -> None:
    text = trace.to_mermaid()
    assert text.splitlines()[1] == f"  %% {comment}"
    assert box in text
    assert arrows(text) <= 500
    assert len(text) <= 50_000


def test_outermost_module_has_same_name_in_mermaid_and_text() -> None:
    trace = transformer()
    assert '"the outermost<br/>' in trace.to_mermaid()
    assert "\nthe outermost " in str(trace)


def test_mermaid_with_long_names_is_folded() -> None:
    x = leaf(2)
    y = x.sin()
    text = trace_graph(y, names={"x" * 60_000: y}).to_mermaid()
    assert "folded by kind of node: 2 nodes into 2 boxes" in text


@pytest.mark.filterwarnings("ignore:.* deprecated - use:DeprecationWarning")  # warning inside pydot
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
