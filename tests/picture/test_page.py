"""The page of a graph, as text."""

import json
import re

import pytest
import torch

from leafgrad import record, trace_graph
from tests.models import polynomial
from tests.picture.test_piles import blocks


def test_the_page_is_all_in_one_and_allows_no_code_but_its_own() -> None:
    page = polynomial().to_html()
    assert page.startswith("<!doctype html>")
    assert re.findall(r'\b(?:src|href|srcset|action)="?[^"#]', page) == []
    assert "default-src 'none'" in page


def test_the_page_knows_the_parts_of_each_call_of_a_module_and_its_own_leaves() -> None:
    trace = blocks()
    data = re.search(r'id="data">(.*?)</script>', trace.to_html())
    assert data is not None
    _, full = json.loads(data[1])
    calls = {call["name"]: call for call in full["calls"]}
    assert [calls[name]["depth"] for name in ("1", "1.perceptron", "1.perceptron.0")] == [0, 1, 2]
    of_linear = [trace.nodes[place] for place in calls["1.perceptron.0"]["parts"]]
    assert {node.leaf_name for node in of_linear if node.is_leaf} == {
        "1.perceptron.0.weight",
        "1.perceptron.0.bias",
    }
    assert {*calls["1.perceptron.0"]["parts"]} < {*calls["1"]["parts"]}
    assert sorted(full["order"]) == [*range(len(trace.nodes))]


def test_repeats_across_modules_that_differ_in_more_than_a_number_are_no_module() -> None:
    layers = {
        name: torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh()) for name in "abcdefgh"
    }
    model = torch.nn.Sequential()
    for name, layer in layers.items():
        model.add_module(name, layer)
    with record() as recording:
        y = model(torch.ones(1, 2)).sum()
    data = re.search(r'id="data">(.*?)</script>', trace_graph(y, recording=recording).to_html())
    assert data is not None
    folded, full = json.loads(data[1])
    assert not {*"bcdefgh"} & {call["name"] for call in folded["calls"]}
    assert {*layers} <= {call["name"] for call in full["calls"]}


def test_a_graph_that_is_too_large_even_when_it_is_folded_is_refused() -> None:
    leaves = [torch.ones(n, requires_grad=True) for n in range(3001)]
    with pytest.raises(ValueError, match=r"at most 3000 boxes, not 3001; trace a part"):
        trace_graph(leaves).to_html()


def test_what_is_too_large_in_full_is_only_there_folded() -> None:
    y = torch.ones(2, requires_grad=True)
    for _ in range(3001):
        y = y.sin()
    page = trace_graph(y.sum()).to_html()
    assert page.count('class="view"') == 1
    assert 'data-do="fold"' not in page
    assert "f folds what repeats" not in page
    assert "What repeats stays folded: there are 3,003 nodes" in page


def test_what_can_be_folded_is_offered() -> None:
    page = blocks().to_html()
    assert 'data-do="fold"' in page
    assert "f folds what repeats" in page
    assert "What repeats stays folded" not in page
