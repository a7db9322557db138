"""The HTML page of a graph."""

import base64
import json
import re
import zlib
from typing import Any

import pytest
import torch

from leafgrad import GraphTrace, trace_graph
from tests.messages import message
from tests.models import polynomial
from tests.picture.test_modules import blocks
from tests.picture.test_overview import Language, traced


def facts(page: str) -> dict[str, Any]:
    """Return the data of the page."""
    (found,) = re.findall(r'id="data">(.*?)</script>', page)
    known: dict[str, Any] = json.loads(found)
    return known


def views(page: str, direction: str = "forward") -> list[dict[str, Any]]:
    """Return all views of the page in one direction, also the packed ones."""
    (packed,) = re.findall(r'id="rest">(.*?)</script>', page)
    first = facts(page)["first"]
    found = json.loads(zlib.decompress(base64.b64decode(packed)))[direction]
    return [one or first for one in found]


def test_page_is_one_file_and_allows_its_own_script_only() -> None:
    page = polynomial().to_html()
    assert page.startswith("<!doctype html>")
    assert re.findall(r'\b(?:src|href|srcset|action)="?[^"#]', page) == []
    assert "default-src 'none'" in page


@pytest.mark.parametrize("direction", ["backward", "forward"])
def test_page_has_views_and_links_in_the_requested_direction(direction: Any) -> None:
    trace = blocks()
    page = trace.to_html(direction=direction)
    assert facts(page)["direction"] == direction
    _, full, *inner = found = views(page, direction)
    edges = [[edge.source, edge.target] for edge in trace.edges if edge.target is not None]
    assert [pair[:: -1 if direction == "forward" else 1] for pair in full["links"]] == edges
    assert len(inner) == len(facts(page)["modules"]) > 10
    for view in found:
        assert len(view["opens"]) == len(view["heat"]["class"]["marks"])


def test_classes_keep_their_colours_in_all_pictures_of_a_page() -> None:
    hues: dict[str, set[str]] = {}
    for view in views(traced(Language()).to_html()):
        for marks, name in view["heat"]["class"]["legend"]:
            hues.setdefault(name, set()).update(marks)
    assert {"Block", "Linear", "LayerNorm"} < {*hues}
    assert all(len(marks) == 1 for marks in hues.values())


def test_box_of_module_opens_picture_of_this_module() -> None:
    page = traced(Language()).to_html()
    known, (overview, _, *inner) = facts(page), views(page)
    titles = [title for title, _ in known["modules"]]
    assert known["whole"] == "Language"
    assert [titles[n] if n >= 0 else None for n in overview["opens"]] == [
        None,
        "head: Linear",
        None,
        "blocks.3: Block",
        "embed: Linear",
        None,
    ]
    attend = titles.index("blocks.2.attend: MultiheadAttention")
    assert titles[known["modules"][attend][1]] == "blocks.2: Block"
    assert attend in inner[titles.index("blocks.2: Block")]["opens"]
    assert "blocks.2.attend.in_proj_bias" in inner[attend]["markup"]


def test_page_contains_first_view_as_svg_and_others_compressed() -> None:
    page = traced(Language()).to_html()
    assert page.count("<svg") == 1
    assert ["markup" in view for view in views(page)].count(False) == 1
    assert all("markup" in view for view in views(page, "backward"))
    assert len(page) < 120_000


@pytest.mark.parametrize("name", ["</script>", "<!--<script>"])
def test_class_name_is_escaped_in_script(name: str) -> None:
    kind = type(name, (torch.nn.Sequential,), {})
    model = torch.nn.Sequential(kind(torch.nn.Linear(2, 2), torch.nn.Tanh()))
    page = trace_graph(model(torch.ones(1, 2)), names=model).to_html()
    assert facts(page)["modules"][0][0] == f"0: {name}"
    assert page.count("<script") == 3


def test_too_large_folded_graph_is_refused() -> None:
    leaves = [torch.ones(n, requires_grad=True) for n in range(3001)]
    with pytest.raises(ValueError, match=r"at most 3000 boxes, not 3001; fold the graph"):
        trace_graph(leaves).to_html()


def test_too_large_picture_of_all_nodes_is_left_out() -> None:
    y = torch.ones(2, requires_grad=True)
    for _ in range(3001):
        y = y.sin()
    page = trace_graph(y.sum()).to_html()
    assert len(views(page)) == 1
    assert 'data-do="fold"' not in page
    assert message("page.hint-folded", nodes=3003, most=600) in page


def test_modules_of_too_large_graph_have_their_own_pictures(deep: GraphTrace) -> None:
    page = deep.to_html()
    assert len(deep.nodes) > 3000
    titles = [title for title, _ in facts(page)["modules"]]
    assert {f"blocks.{number}: Block" for number in range(60)} < {*titles}
    assert len(page) < 400_000


@pytest.fixture(scope="module")
def deep() -> GraphTrace:
    return traced(Language(60))
