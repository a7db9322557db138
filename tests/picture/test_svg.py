"""Pictures as SVG."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd.graph import GradientEdge
from torch.utils.checkpoint import checkpoint

from leafgrad import GraphTrace, record, trace_graph
from tests.messages import exactly, message
from tests.models import MODELS, lstm, polynomial, wide
from tests.tensors import Doubled, leaf

SVG = "{http://www.w3.org/2000/svg}"


def texts(view_of: str) -> list[str]:
    """Return the visible texts of a picture."""
    return [text.text or "" for text in ET.fromstring(view_of).iter(f"{SVG}text")]


def classes(view_of: str) -> set[str]:
    """Return the classes of elements outside the legend."""
    signs = [*ET.fromstring(view_of)][:-1]
    found = (element.get("class", "") for sign in signs for element in sign.iter())
    return {name for names in found for name in names.split()}


def meanings(view_of: str) -> list[str]:
    """Return the entries of the legend."""
    legend = [*ET.fromstring(view_of)][-1]
    said = [text.text or "" for text in legend.iter(f"{SVG}text") if text.get("class") == "start"]
    return said[next(n for n, text in enumerate(said) if text.startswith("root")) :]


# --- Content


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("fold", [True, False, None])
def test_picture_is_well_formed_with_title_and_description(name: str, *, fold: bool | None) -> None:
    view_of = ET.fromstring(MODELS[name]().to_svg(fold=fold))
    assert view_of.get("role") == "img"
    title, description, style, *_ = view_of
    assert (title.tag, description.tag, style.tag) == (f"{SVG}title", f"{SVG}desc", f"{SVG}style")
    assert re.fullmatch(r"Autograd graph of \d+ nodes", title.text or "")
    assert description.text


def test_box_has_name_shape_and_saved_tensors() -> None:
    written = texts(polynomial().to_svg())
    assert written[:2] == ["AddBackward0", "(3,)"]
    assert written[2:5] == ["MulBackward0", "(3,)", "saves other, self (12 B)"]
    assert written[5:7] == ["x", "leaf (3,)"]
    assert "6 nodes, 6 edges, depth 3, all float32 on cpu, 4 tensors saved" in " ".join(written)


def test_saved_bytes_of_box_leave_out_parameters() -> None:
    model = nn.Linear(4, 3)
    written = texts(trace_graph(model(leaf(5, 4)), names=model).to_svg())
    assert "saves mat1, mat2 (80 B)" in written


def test_leaf_within_box_has_name_shape_and_number_of_uses() -> None:
    assert "weight_hh (12, 3), used 40×" in texts(lstm().to_svg())
    assert "x (2,), used 60×" in texts(wide().to_svg())
    assert "leaf (2,)" in texts(trace_graph(leaf(2).exp()).to_svg(fold=True))


def test_description_is_text_of_graph() -> None:
    trace = polynomial()
    assert ET.fromstring(trace.to_svg())[1].text == str(trace)


def test_tooltip_of_box_has_shape_inputs_and_saved_tensors() -> None:
    function: Any = Doubled
    h = function.apply(leaf(2)).exp()
    h.retain_grad()
    view_of = trace_graph(h * torch.ones(2), names={"h": h}).to_svg()
    product, power, doubled, _ = [
        (box.text or "").splitlines() for box in ET.fromstring(view_of).iter(f"{SVG}title")
    ][1:]
    assert product == [
        "node 0: MulBackward0",
        "output (2,) float32 cpu",
        "input 0 is output 0 of node 1",
        "input 1 needs no gradient",
        "saves other (2,) float32, 8 B",
    ]
    assert power[1:4] == ["tensor h", "output (2,) float32 cpu", "retains its gradient"]
    assert doubled[-1].startswith("custom function tests.tensors.Doubled, tests/tensors.py:")


def test_tooltip_has_module_and_line() -> None:
    model = nn.Sequential(nn.Tanh())
    with record() as recording:
        y = model(leaf(2))
    trace = trace_graph(y, names=model, recording=recording)
    title = [*ET.fromstring(trace.to_svg()).iter(f"{SVG}title")][1]
    assert {"module 0", f"line {trace.nodes[0].source}"} < {*(title.text or "").splitlines()}


def test_tooltip_has_order_of_derivative() -> None:
    told = [*ET.fromstring(derived().to_svg()).iter(f"{SVG}title")]
    assert "computed from derivatives of order 2" in (told[1].text or "").splitlines()
    assert not any("order 0" in (title.text or "") for title in told)


def test_dtypes_and_devices_are_shown_where_they_differ() -> None:
    x = torch.ones(2, dtype=torch.complex64, requires_grad=True)
    written = texts(trace_graph(x.abs()).to_svg())
    assert {"(2,) float32 cpu", "leaf (2,) complex64 cpu"} & {*written} == {"(2,) float32 cpu"}
    assert "(2,) complex64 cpu" in written


# --- Special graphs


def modified() -> GraphTrace:
    h = leaf(2) * 1
    y = h.sin()
    h.add_(1)
    return trace_graph(y)


def modified_thrice() -> GraphTrace:
    x = leaf(2, 3).clone()
    y = nn.functional.layer_norm(x, (3,), x[0], x[1])
    x.add_(1)
    return trace_graph(y)


def freed() -> GraphTrace:
    y = leaf(2).sin()
    y.sum().backward()
    return trace_graph(y)


def recomputed() -> GraphTrace:
    function: Any = checkpoint
    return trace_graph(function(torch.exp, leaf(2), use_reentrant=False))


def packed() -> GraphTrace:
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        return trace_graph(leaf(2).sin())


def derived() -> GraphTrace:
    x = leaf(2)
    with record() as recording:
        (slope,) = torch.autograd.grad(x.tanh().sum(), x, create_graph=True)
        (curvature,) = torch.autograd.grad((slope * slope).sum(), x, create_graph=True)
    return trace_graph(curvature, names={"x": x}, recording=recording)


def stepped() -> GraphTrace:
    return trace_graph(torch.stack([row.sin() for row in leaf(50, 2).exp().unbind()]))


def lone() -> GraphTrace:
    return trace_graph(leaf(2))


def retained() -> GraphTrace:
    y = leaf(2).exp()
    y.retain_grad()
    return trace_graph(y)


@pytest.mark.parametrize(
    ("graph", "sign", "line", "meaning"),
    [
        (modified, "modified", "self saved at version 0, now 1", "modified"),
        (modified_thrice, "modified", "modified: 3 tensors", "modified"),
        (freed, "freed", "freed: self", "freed"),
        (recomputed, "box", "recomputes result", "root"),
        (packed, "box", "packed: self", "root"),
        (retained, "box", "retains grad", "root"),
        (derived, "order-1", "∂ TanhBackwardBackward0", "order"),
        (derived, "order-2", "∂² MulBackward0", "order"),
        (stepped, "name", "SinBackward0 ×50", "copies"),
        (lone, "leaf", "leaf", "leaf"),
        (lstm, "name", "MulBackward0 ×39", "copies"),
    ],
)
def test_mark_of_box_has_a_line_and_a_legend_entry(
    graph: Callable[[], GraphTrace], sign: str, line: str, meaning: str
) -> None:
    view_of = graph().to_svg()
    assert sign in classes(view_of)
    assert line in texts(view_of)
    assert message(f"legend.{meaning}") in meanings(view_of)


def test_legend_explains_drawn_marks_only() -> None:
    assert meanings(lone().to_svg()) == [message("legend.root"), message("legend.leaf")]
    drawn = {"links", "heads", "part", "leaf", "root", "name"}
    assert classes(lone().to_svg()) == drawn


# --- Escaping

NASTY = [
    "<script>alert(1)</script>",
    '"><svg onload="alert(1)">',
    "'a' & b < c ]]> --> <!--",
    "</style></svg><b>",
    "\u202eevil\u2066",
    "\x00\x1b[31m\ufffe\ud800",
    "שלום العربية",
    "重み 🔥 e\u0301",
    "a" * 10_000,
    "",
]


@pytest.mark.parametrize("name", NASTY, ids=map(ascii, range(len(NASTY))))
def test_name_is_escaped_in_picture(name: str) -> None:
    x = leaf(2)
    view_of = trace_graph(x.exp(), names={name: x}).to_svg()
    view_of.encode()
    assert {element.tag.removeprefix(SVG) for element in ET.fromstring(view_of).iter()} == {
        "svg", "title", "desc", "style", "g", "rect", "path", "text"
    }  # fmt: skip
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x09\x0b-\x1f]", view_of)
    written = "".join(texts(view_of))
    assert "..." in written if len(name) > 100 else name[:5].strip("\u202e\x00\x1b[") in written


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_strided_nested_tensor_is_drawn() -> None:
    x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], requires_grad=True)
    assert "nested" in texts(trace_graph(x).to_svg())


def test_graph_of_undefined_gradient_is_drawn() -> None:
    undefined: Any = torch._C._functions
    assert meanings(trace_graph(GradientEdge(undefined.UndefinedGrad(), 0)).to_svg()) == [
        message("legend.root")
    ]


# --- Limits


def chain(steps: int) -> GraphTrace:
    y = leaf(2)
    for _ in range(steps):
        y = y.sin()
    return trace_graph(y.sum())


def test_too_many_boxes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"at most 3000 boxes, not 3001; fold the graph"):
        chain(2999).to_svg(fold=False)
    assert "×2998" in chain(2999).to_svg()


def test_empty_graph_is_refused() -> None:
    empty = GraphTrace(nodes=(), roots=())
    for write in (empty.to_svg, empty.to_html, empty._repr_html_):
        with pytest.raises(ValueError, match=exactly("errors.picture.empty")):
            write()


# --- In a notebook


def test_notebook_shows_picture_in_scrolling_frame() -> None:
    trace = polynomial()
    html = trace._repr_html_()
    assert 'role="group" aria-label="Autograd graph of 6 nodes" tabindex="0">' in html
    assert trace.to_svg() in html
