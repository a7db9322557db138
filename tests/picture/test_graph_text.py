"""Text of a traced graph."""

import math
import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import record, trace_graph
from tests.tensors import leaf
from tests.turns import value_turns


def unbound() -> Any:
    rows = leaf(6, 2).unbind()
    return trace_graph(torch.stack(rows[1:]))


UNBOUND = """
3 nodes, 6 edges, depth 2, all float32 on cpu, 0 tensors saved

   node    output         leads to
0  Stack   (5, 2)         1 output 1, 1 output 2 +3
1  Unbind  (2,), (2,) +4  2
2  leaf    (6, 2)
"""


def freed_and_retained() -> Any:
    x = leaf(2)
    h = x.exp()
    h.retain_grad()
    y = h.sin()
    y.retain_grad()
    y.sum().backward()
    return trace_graph(y, names={"h": h})


FREED_AND_RETAINED = """
3 nodes, 2 edges, depth 2, all float32 on cpu, 2 tensors saved
freed: some nodes have lost saved tensors, so a backward through them fails

   node            tensor             output  leads to  saved
0  SinBackward0    (retains grad)     (2,)    1         self freed
1  ExpBackward0    h, (retains grad)  (2,)    2         result freed
2  AccumulateGrad                     (2,)
"""


def modified() -> Any:
    h = leaf(2) * 1
    y = h.sin()
    h.add_(1)
    return trace_graph(y)


MODIFIED = """
3 nodes, 2 edges, depth 2, all float32 on cpu, 2 tensors saved
modified: a saved tensor was changed in place; a backward that needs it fails

   node            output  leads to  saved
0  SinBackward0    (2,)    1         self (2,) (saved at version 0, now 1)
1  MulBackward0    (2,)    2, none   other () int64
2  AccumulateGrad  (2,)
"""


def perceptron() -> Any:
    model = nn.Sequential(*[nn.Linear(2, 2) for _ in range(9)])
    return trace_graph(model(torch.ones(1, 2)), names=model)


PERCEPTRON = """
36 nodes, 35 edges, depth 10, all float32 on cpu, 17 tensors saved

module  times  nodes  saved  memory  made of
*           9     36     17    72 B  T, Addmm

roots: 0 AddmmBackward0
leaves: 18: 8.bias, 7.bias, 6.bias, 5.bias, and 14 more
folded by module (inferred from the parameters): 36 nodes; .nodes has them all
"""


class Stack(nn.Module):
    """Numbered layers, followed by operations without parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(2, 2) for _ in range(12)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layers(x).relu().sin()
        return result


def recorded() -> Any:
    model, x = Stack(), leaf(1, 2)
    with record() as recording:
        y = model(x).sum()
    return trace_graph(y, names=model, recording=recording)


RECORDED = """
52 nodes, 51 edges, depth 16, all float32 on cpu, 26 tensors saved

module         times  nodes  saved  memory  made of
layers.*          12     48     24    96 B  T, Addmm
the outermost      1      2      2     8 B  Relu, Sin
outside            1      2                 Sum

roots: 0 SumBackward0
leaves: 25: layers.11.bias, layers.10.bias, layers.9.bias, and 22 more
folded by module: 52 nodes; .nodes has them all
"""


def numbered_path() -> Any:
    w, b = leaf(4, 4), leaf(4)
    path = "transformer.encoder_layers.0.self_attention.out_projection"
    y = (torch.ones(2, 4) @ w + b).sin().double().sum()
    names = {f"{path}.weight": w, f"{path}.bias": b}
    return trace_graph(y, names=names, values=True, gradients=True)


NUMBERED_PATH = """
7 nodes, 6 edges, depth 5, all on cpu, 2 tensors saved

   node    tensor                    output          value    grad      leads to
0  Sum                               () float64      -7.6714  1         1
1  ToCopy                            (2, 4) float64           norm 2.8  2
2  Sin                               (2, 4) float32           norm 2.8  3
3  Add                               (2, 4) float32  norm 14  norm 0.8  4, 6
4  Mm                                (2, 4) float32           norm 0.8  none, 5
5  leaf    transfo...jection.weight  (4, 4) float32  norm 4   norm 2.3
6  leaf    transfo...rojection.bias  (4,) float32    norm 2   norm 1.1
"""


def deep() -> Any:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(16, 16), nn.Sigmoid()) for _ in range(12)]
    model, x = nn.Sequential(*layers), torch.ones(4, 16)
    with record(values=True) as recording:
        y = model(x).sum()
    return trace_graph(y, names=model, recording=recording, values=True, gradients=True)


def repeated() -> Any:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x
    for _ in range(40):
        y = y * 2
    return trace_graph(y.sum(), gradients=True)


@pytest.mark.parametrize(
    ("traced", "text"),
    [
        (unbound, UNBOUND),
        (freed_and_retained, FREED_AND_RETAINED),
        (modified, MODIFIED),
        (perceptron, PERCEPTRON),
        (recorded, RECORDED),
        (numbered_path, NUMBERED_PATH),
    ],
)
def test_text_of_graph_is_a_table_of_nodes_or_modules(traced: Callable[[], Any], text: str) -> None:
    assert str(traced()) == text.strip()


def test_node_that_hides_its_saved_tensors_is_marked() -> None:
    assert str(trace_graph(torch._foreach_exp([leaf(2)])[0])).splitlines()[3].endswith("not shown")


OPERATIONS = """
    abs acosh asinh atan atanh ceil cos cosh digamma erf erfc erfinv exp exp2 expm1 floor frac
    lgamma log log10 log1p log2 neg
""".split()


def test_text_of_many_kinds_has_forty_lines_at_most() -> None:
    x = leaf(2)
    text = str(trace_graph([getattr(x, name)() for name in OPERATIONS for _ in range(2)]))
    assert len(text.splitlines()) <= 40
    assert "\nand 7 nodes of 4 other kinds\n" in text
    assert text.splitlines()[-1].startswith("folded by kind: 47 nodes; ")


def test_graph_without_repeats_is_folded_by_kind() -> None:
    y = leaf(2)
    for name in random.Random(0).choices(OPERATIONS[:5], k=50):
        y = getattr(y, name)()
    lines = str(trace_graph(y)).splitlines()
    assert lines[2].split() == ["node", "count", "saved", "memory"]
    assert len(lines) == 3 + 6 + 4
    assert lines[-1].startswith("folded by kind: ")


def test_text_counts_the_modules_that_do_not_fit_on_forty_lines() -> None:
    model = nn.Sequential(OrderedDict((f"layer_{i:c}", nn.Linear(1, 1)) for i in range(97, 123)))
    text = str(trace_graph(model(torch.ones(1, 1)), names=model))
    assert "\nand 2 other modules\n" in text
    assert len(text.splitlines()) <= 40


def test_star_stands_for_differing_numbers_in_module_names() -> None:
    model = nn.Sequential(*[nn.Sequential(nn.Linear(2, 2), nn.Tanh()) for _ in range(9)])
    model.append(nn.Linear(2, 1))
    trace = trace_graph(model(torch.ones(1, 2)), names=model)
    names = [line.split()[0] for line in str(trace).splitlines()[3:6]]
    assert names == ["*.0", "the", "9"]  # the module in between is the outermost one
    for name in ("*.0", "9"):
        assert f">{name}" in trace.to_svg(fold=name)


def test_modules_with_numbered_names_are_folded_together() -> None:
    model = nn.Sequential(OrderedDict((f"conv{i}", nn.Linear(2, 2)) for i in range(12)))
    trace = trace_graph(model(torch.ones(1, 2)), names=model)
    assert "\nconv*      12     48 " in str(trace)
    assert ">conv*: Linear ×10<" in trace.to_svg(
        fold="conv*"
    )  # every node except the first and the root


NAME = "a_name_that_is_longer_than_a_terminal_is_wide_" * 3


def many_outputs() -> Any:
    return trace_graph(torch.stack(leaf(30, 2).unbind()))


def long_name() -> Any:
    x = leaf(2)
    return trace_graph(x.sin(), names={NAME: x})


def wide() -> Any:
    x, rows = leaf(2), leaf(30, 2).unbind()
    return trace_graph([torch.stack([x * 2, *rows[:i]]) for i in range(1, 25)], names={NAME: x})


WIDE = [many_outputs, long_name, wide, recorded, modified]


@pytest.mark.parametrize(("nodes", "lines"), [(35, 39), (36, 12)])
def test_graph_is_listed_if_it_fits_on_forty_lines(nodes: int, lines: int) -> None:
    x = leaf(2) * 1
    y = x.sin()
    x.add_(1)
    for _ in range(nodes - 3):
        y = y.exp()
    assert len(str(trace_graph(y)).splitlines()) == lines


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_strided_nested_tensor_is_called_nested() -> None:
    x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], requires_grad=True)
    assert str(trace_graph(x)).splitlines()[-1] == "0  AccumulateGrad  nested"


def test_html_of_large_graph_is_text_with_escaped_names() -> None:
    function: Any = type("Less<Than>", (torch.autograd.Function,), {})
    function.forward = staticmethod(lambda _, x: x + 1)
    html = trace_graph([function.apply(leaf(n)) for n in range(201)])._repr_html_()
    assert html.startswith('<pre style="color: inherit; background: none; ')
    assert "Less&lt;Than&gt;" in html
    assert "<Than>" not in html


# --- Width


def far_too_wide() -> Any:
    """Trace a graph whose table has too wide cells everywhere."""
    function: Any = type("F" * 90, (torch.autograd.Function,), {})
    function.forward = staticmethod(lambda _, *tensors: tuple(one.clone() for one in tensors))
    function.backward = staticmethod(lambda _, *gradients: gradients)
    x = [torch.ones(1, 2, 3, 4, 5, 6, 7, 1, 1, requires_grad=True) for _ in range(9)]
    made = x
    for _ in range(3):
        made = function.apply(*made)
    ends = [made[0].sum(), made[1].double().sum()]
    names = {NAME + str(number): one for number, one in enumerate(x)}
    return trace_graph(ends, names=names, values=True, gradients=True)


@pytest.mark.parametrize("traced", [*WIDE, far_too_wide, numbered_path, deep, repeated])
def test_lines_are_not_wider_than_a_terminal(traced: Callable[[], Any]) -> None:
    assert max(map(len, str(traced()).splitlines())) <= 80


def test_counts_of_saved_tensors_show_freed_and_modified_ones() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x.sin().mul(x)
    freed = trace_graph(y, names={NAME: x})
    y.sum().backward()
    lines = str(trace_graph(y, names={NAME: x})).splitlines()
    assert [line.split()[-2:] for line in lines if " Mul " in line] == [["2", "freed"]]
    assert [line.split()[-1] for line in str(freed).splitlines() if " Mul " in line] == ["2"]
    h = x.sin()
    late = h * h
    h.detach().add_(1)
    lines = str(trace_graph(late, names={NAME: x})).splitlines()
    assert [line.split()[-2:] for line in lines if " Mul " in line] == [["2", "modified"]]


def test_devices_and_dtypes_are_shown_per_node_if_they_differ() -> None:
    here, meta = leaf(2).exp(), torch.ones(2, dtype=torch.float64, device="meta")
    text = str(trace_graph([here, meta.requires_grad_().exp()]))
    assert "all " not in text
    assert "(2,) float32 on cpu" in text
    assert "(2,) float64 on meta" in text


def test_columns_stay_aligned_with_wide_letters() -> None:
    x, y = leaf(2), leaf(2)
    lines = str(trace_graph(x * y, names={"\u5f20\u91cf": x, "b": y})).splitlines()
    rows = [line for line in lines if "AccumulateGrad" in line]
    assert [line.index("(2,)") for line in rows] == [25, 27]  # a wide letter takes two columns


# --- Folded numbers


def test_text_of_folded_modules_has_range_of_norms_per_module() -> None:
    trace = deep()
    lines = str(trace).splitlines()
    assert "module times nodes value norms grad norms made of".split() in map(str.split, lines)
    (row,) = [line for line in lines if line.startswith("*.*")]
    inside = [gradient for node in trace.nodes if node.module for gradient in node.gradients]
    norms = sorted(gradient.norm for gradient in inside)
    assert f" {norms[0]:.2g} to {norms[-1]:.2g} " in row


def test_table_row_of_module_names_first_nonfinite_value_and_gradient() -> None:
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(20)])
    with torch.no_grad():
        model.get_parameter("7.weight").fill_(math.nan)
    with record(values=True) as recording:
        y = model(torch.ones(1, 4)).sum()
    trace = trace_graph(y, names=model, recording=recording, values=True, gradients=True)
    (row,) = [line for line in str(trace).splitlines() if line.startswith("*")]
    assert " to NaN " in row
    assert "  NaN from" in row
    assert row.endswith(" in 7")
    assert f"node {value_turns(trace)[0].index}," in str(trace)
