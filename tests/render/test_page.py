"""The page of a graph, as text."""

import re

import pytest
import torch

from leafgrad import trace_graph
from tests.models import polynomial


def test_the_page_is_all_in_one_and_allows_no_code_but_its_own() -> None:
    page = polynomial().to_html()
    assert page.startswith("<!doctype html>")
    assert re.findall(r'\b(?:src|href|srcset|action)="?[^"#]', page) == []
    assert "default-src 'none'" in page


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
