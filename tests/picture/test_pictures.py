"""A graph for Graphviz and Mermaid, to the letter, and as their own parsers read it."""

import json
import os
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


def test_a_graph_is_written_for_graphviz() -> None:
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


def test_a_graph_is_written_for_mermaid() -> None:
    assert small().to_mermaid() == MERMAID.strip()


MERMAID = r"""
flowchart TD
  n0("MulBackward0<br/>()")
  n1("UnbindBackward0<br/>()")
  n2["AccumulateGrad<br/>a #34;quoted#34; #60;b#62; #38; #35;1#59; [x] {y} \n |z| #96;c#96;#10;next<br/>(2,)"]
  n0 --> n1
  n1 --> n2
"""  # noqa: E501


def test_a_node_without_a_shape_has_its_name_alone() -> None:
    assert 'n0("UndefinedGrad' in unlabelled().to_mermaid()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_has_no_one_shape_to_write() -> None:
    x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], requires_grad=True)
    assert '[label="MulBackward0", style' in trace_graph(x * 2).to_dot()


def test_a_graph_that_mermaid_draws_is_not_folded() -> None:
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
def test_a_graph_beyond_the_limits_is_folded_and_says_how(
    trace: GraphTrace, comment: str, box: str
) -> None:
    text = trace.to_mermaid()
    assert text.splitlines()[1] == f"  %% {comment}"
    assert box in text
    assert arrows(text) <= 500
    assert len(text) <= 50_000


def test_what_belongs_to_no_module_stays_by_itself() -> None:
    model = nn.Sequential(*[nn.Linear(2, 2) for _ in range(170)])
    x = leaf(1, 2)
    text = trace_graph(model(x), names=model).to_mermaid()
    assert "n" in text
    assert "AccumulateGrad<br/>(1, 2)" in text
    assert "folded by module" in text


def test_the_outermost_module_is_called_the_same_in_a_flowchart_and_in_text() -> None:
    trace = transformer()
    assert '"the outermost<br/>' in trace.to_mermaid()
    assert "\nthe outermost " in str(trace)


def test_long_names_are_a_reason_to_fold_as_well() -> None:
    x = leaf(2)
    y = x.sin()
    text = trace_graph(y, names={"x" * 60_000: y}).to_mermaid()
    assert "folded by kind of node: 2 nodes into 2 boxes" in text


@pytest.mark.filterwarnings("ignore:.* deprecated - use:DeprecationWarning")  # within pydot
@pytest.mark.parametrize(
    "trace", [small(), layers(3), unlabelled()], ids=["small", "layers", "bare"]
)
def test_a_parser_of_the_language_reads_every_node_and_edge_of_graphviz(trace: GraphTrace) -> None:
    graphs: Any = pydot.graph_from_dot_data(trace.to_dot())
    (graph,) = graphs
    named = [node for node in graph.get_nodes() if node.get_name() != "node"]
    count = len(trace.nodes) + len(trace.inputs)
    assert [node.get_name() for node in named] == [str(place) for place in range(count)]
    edges = (edge for edge in graph.get_edges() if int(edge.get_destination()) < len(trace.nodes))
    ends = [f"{edge.get_source()} {edge.get_destination()}" for edge in edges]
    assert ends == [f"{e.source} {e.target}" for e in trace.edges if e.target is not None]


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")
def test_graphviz_writes_each_name_as_it_is() -> None:
    drawn = subprocess.run(
        ["dot", "-Tsvg"], input=small().to_dot(), capture_output=True, text=True, check=True
    )
    written = [element.text for element in ET.fromstring(drawn.stdout).iter(f"{SVG}text")]
    assert drawn.stderr == ""
    assert {*HOSTILE.split("\n"), "UnbindBackward0", "output 1", "(2,)"} <= {*written}


PARSERS = os.environ.get("LEAFGRAD_NODE_MODULES")  # a folder with what the script imports
PARSE = """
import fs from "fs";
import { JSDOM } from "jsdom";
globalThis.window = new JSDOM("").window;
globalThis.document = window.document;
const mermaid = (await import("mermaid")).default;
const graphviz = await (await import("@hpcc-js/wasm-graphviz")).Graphviz.load();
for (const [dot, flowchart] of JSON.parse(fs.readFileSync(0, "utf8"))) {
  console.log((await mermaid.parse(flowchart)).diagramType, graphviz.dot(dot).includes("</svg>"));
}
"""


@pytest.mark.skipif(
    not (PARSERS and shutil.which("node")), reason="LEAFGRAD_NODE_MODULES names no folder"
)
def test_the_real_parsers_read_them() -> None:
    traces = [small(), layers(3), layers(70), layers(300), chain(600), unlabelled()]
    texts = [(trace.to_dot(), trace.to_mermaid()) for trace in traces[:2]]
    texts += [("digraph {}", trace.to_mermaid()) for trace in traces[2:]]
    run = subprocess.run(
        ["node", "--input-type=module", "--eval", PARSE],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
        cwd=PARSERS,
    )
    assert (run.stdout.splitlines(), run.stderr) == (["flowchart-v2 true"] * len(texts), "")
