"""The page of a graph, as text."""

import json
import re

import pytest
import torch

from leafgrad import trace_graph
from tests.models import polynomial
from tests.picture.test_modules import blocks


def test_the_page_is_all_in_one_and_allows_no_code_but_its_own() -> None:
    page = polynomial().to_html()
    assert page.startswith("<!doctype html>")
    assert re.findall(r'\b(?:src|href|srcset|action)="?[^"#]', page) == []
    assert "default-src 'none'" in page


def test_the_page_knows_where_each_box_is_and_which_links_there_are() -> None:
    trace = blocks()
    data = re.search(r'id="data">(.*?)</script>', trace.to_html())
    assert data is not None
    folded, full = json.loads(data[1])
    assert len(full["boxes"]) == len(trace.nodes)
    edges = [[edge.source, edge.target] for edge in trace.edges if edge.target is not None]
    assert full["links"] == edges
    for view in (folded, full):
        assert len(view["paths"]) == len(view["links"])
        for (source, target), path in zip(view["links"], view["paths"], strict=True):
            (left, _, right, bottom), (_, top, _, _) = view["boxes"][source], view["boxes"][target]
            assert left <= path[0] <= right
            assert [path[1], path[-1]] == [bottom, top]


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
