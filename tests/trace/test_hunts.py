"""Search for the first NaN and infinity."""

import linecache
import math
import pickle
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from leafgrad import GraphTrace, record, trace_graph
from leafgrad.types import TracedNode
from tests.messages import message
from tests.tensors import custom, holding
from tests.turns import gradient_turns, value_turns

NAN, INF = math.nan, math.inf
Born = tuple[str, str, str | None]
"""A node's name or a leaf's own, what came up there, and the module."""


class Case(NamedTuple):
    """Code to search, its names and the expected nodes; comments mark the lines."""

    loss: Callable[..., Tensor]
    names: Callable[[], Any]
    values: tuple[Born, ...] = ()
    gradients: tuple[Born, ...] = ()
    given: tuple[str, ...] = ()
    is_near: bool = False


def x_of(*values: float) -> Callable[[], dict[str, Tensor]]:
    return lambda: {"x": holding(*values)}


def with_nan(*sizes: int) -> Tensor:
    data = torch.ones(sizes)
    data.view(-1)[0] = NAN
    return data


# --- NaN computed by an operation


def zero_by_zero(x: Tensor) -> Tensor:
    y = x * 2
    return (y / (y - y)).sum()  # born


def norm_of_zeros(x: Tensor) -> Tensor:
    return (x * x).sqrt().sum()  # born


def logarithm_of_zero(x: Tensor) -> Tensor:
    return (x * 1).log().sum()  # born


def infinity_minus_infinity(x: Tensor) -> Tensor:
    y = (x * 2).exp()  # born
    return (y - y * 2).sum()


def item_written(x: Tensor) -> Tensor:
    y = x * 2
    y[0] = NAN  # born
    return y.sum()


class Reciprocal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = 1 / x
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        passed: Tensor = gradient * (y - y)
        return passed


def custom_function(x: Tensor) -> Tensor:
    y: Tensor = Reciprocal.apply(x * 1)  # type: ignore[no-untyped-call] # born
    return (y + 1).sum()


def checkpointed(x: Tensor) -> Tensor:
    def block(z: Tensor) -> Tensor:
        return (z * 2).log()  # born

    y: Tensor = checkpoint(block, x * 1, use_reentrant=False)
    return y.sum()


# --- NaN contained in an argument


def model_of(data: Tensor) -> Callable[[nn.Module], Tensor]:
    def loss(model: nn.Module) -> Tensor:
        total: Tensor = model(data).sum()  # born
        return total

    return loss


def nan_weight() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    with torch.no_grad():
        model[2].weight[0, 0] = NAN  # type: ignore[operator]
    return model


def attention_of(data: Tensor) -> Callable[[nn.Module], Tensor]:
    def loss(model: nn.Module) -> Tensor:
        made: Tensor = model(data, data, data)[0].sum()  # born
        return made

    return loss


def named_constant(x: Tensor, c: Tensor) -> Tensor:
    return (x * 2 + c).sum()  # born


def summed_by_letters(x: Tensor, c: Tensor) -> Tensor:
    return torch.einsum("i,i->", x, c)  # born


def written_out_of_sight(x: Tensor) -> Tensor:
    y = x * 2
    y.data.fill_(NAN)
    return (y + 1).sum()  # born


# --- Masks


class Attention(nn.Module):
    def __init__(self, *, breaks: bool = False, blind: bool = False) -> None:
        super().__init__()
        self.project = nn.Linear(4, 4)
        self.breaks, self.blind = breaks, blind

    def forward(self, x: Tensor) -> Tensor:
        q: Tensor = self.project(x)
        hidden = torch.ones(3, 3).triu(1).bool() | self.blind
        scores = (q @ q.transpose(-1, -2)).masked_fill(hidden, -INF)  # born
        y = scores.softmax(-1) @ q
        if self.breaks:
            y = (y - y) / (y - y).norm()  # born
        return y


def attend(model: nn.Module) -> Tensor:
    loss: Tensor = model(torch.ones(3, 4)).sum()
    return loss


def library_attention(x: Tensor) -> Tensor:
    q = x.view(1, 1, 3, 2)
    return scaled_dot_product_attention(q, q, q, is_causal=True).sum()


def branch(x: Tensor) -> Tensor:
    return torch.where(x > 0, x.sqrt() / (x - x), x * 2).sum()  # born


def nan_branch(x: Tensor) -> Tensor:
    return torch.where(x > 0, x.sqrt(), x * 2).sum()  # born


def linear() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))


def both(loss: Callable[..., Tensor], names: Callable[[], Any], name: str, kind: str) -> Case:
    return Case(loss, names, ((name, kind, None),), ((name, kind, None),))


AFTERWARDS = ("*", "NaN", "*"), ("*", "NaN", "*")
"""Gradients that are not finite because values were not, about which there is little to say."""

CASES = {
    "1 / 0": Case(
        zero_by_zero,
        x_of(1.0, 2.0),
        (("DivBackward0", "infinity", None),),
        (("DivBackward0", "infinity", None), ("MulBackward0", "NaN", None)),
    ),
    "0 / 0": both(zero_by_zero, x_of(0.0, 0.0), "DivBackward0", "NaN"),
    "the slope of a norm at 0": Case(
        norm_of_zeros,
        x_of(0.0, 1.0),
        (),
        (("SqrtBackward0", "infinity", None), ("MulBackward0", "NaN", None)),
    ),
    "log(0)": both(logarithm_of_zero, x_of(0.0, 1.0), "LogBackward0", "infinity"),
    "infinity less infinity": Case(
        infinity_minus_infinity,
        x_of(100.0, 1.0),
        (("ExpBackward0", "infinity", None), ("SubBackward0", "NaN", None)),
        (("ExpBackward0", "infinity", None),),
    ),
    "a write of a number": Case(item_written, x_of(1.0, 2.0), (("CopySlices", "NaN", None),)),
    "a custom function": Case(
        custom_function,
        x_of(0.0, 1.0),
        (("ReciprocalBackward", "infinity", None),),
        (("ReciprocalBackward", "NaN", None),),
    ),
    "a checkpointed block": both(checkpointed, x_of(0.0, 1.0), "LogBackward0", "infinity"),
    "data into Linear": Case(
        model_of(with_nan(2, 4)),
        linear,
        (("AddmmBackward0", "NaN", "0"),),
        AFTERWARDS,
        ("argument 0 of linear",),
    ),
    "data of batches into MultiheadAttention": Case(
        attention_of(with_nan(2, 3, 4)),
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        (("AddBackward0", "NaN", ""),),
        AFTERWARDS,
        ("argument query of multi_head_attention_forward",),
        is_near=True,
    ),
    "data into BatchNorm": Case(
        model_of(with_nan(2, 4)),
        lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4)),
        (("NativeBatchNormBackward0", "NaN", "0"),),
        AFTERWARDS,
        ("argument input of batch_norm",),
    ),
    "a weight": Case(model_of(torch.ones(2, 4)), nan_weight, (("2.weight", "NaN", "2"),)),
    "a leaf": Case(lambda x: (x * 2).sum(), x_of(NAN, 1.0), (("x", "NaN", None),)),
    "a constant with a name": Case(
        named_constant,
        lambda: {"x": holding(1.0, 2.0), "c": with_nan(2)},
        (("AddBackward0", "NaN", None),),
        given=("c",),
    ),
    "a constant among any number of arguments": Case(
        summed_by_letters,
        lambda: {"x": holding(1.0, 2.0), "c": with_nan(2)},
        (("*", "NaN", None),),
        (("*", "NaN", None),),
        ("c",),
    ),
    "a write out of sight": Case(
        written_out_of_sight,
        x_of(1.0, 2.0),
        (("AddBackward0", "NaN", None),),
        given=("argument 0 of add",),
    ),
    "a mask": Case(attend, Attention),
    "masks and 0 / 0 beside them": Case(
        attend,
        lambda: nn.Sequential(Attention(), Attention(breaks=True), Attention()),
        (("DivBackward0", "NaN", "1"),),
        AFTERWARDS[:1],
    ),
    "a mask that hides all": Case(
        attend,
        lambda: Attention(blind=True),
        (("MaskedFillBackward0", "infinity", ""), ("SoftmaxBackward0", "NaN", "")),
        AFTERWARDS[:1],
    ),
    "a mask of PyTorch's own": Case(
        library_attention, lambda: {"x": torch.ones(6, requires_grad=True)}
    ),
    "a branch with an infinity beside a NaN that is not taken": Case(
        branch,
        x_of(-1.0, 2.0),
        (("DivBackward0", "infinity", None),),
        (("DivBackward0", "NaN", None),),
    ),
    "a NaN in a branch that is not taken": Case(
        nan_branch, x_of(-1.0, 2.0), (), (("SqrtBackward0", "NaN", None),)
    ),
}


def trace_of(case: Case) -> GraphTrace:
    torch.manual_seed(0)
    names = case.names()
    with record(values=True) as recording:
        loss = case.loss(names) if isinstance(names, nn.Module) else case.loss(*names.values())
    return trace_graph(loss, names=names, recording=recording, values=True, gradients=True)


def agrees(nodes: list[TracedNode], born: tuple[Born, ...], kind: str) -> bool:
    """Compare nodes with the expected ones in `born`; a star matches anything.

    `kind` is the attribute of a node that says whether a value or a gradient turned non-finite.
    """
    told = [(n.leaf_name or n.name, getattr(n, kind), n.module) for n in nodes]
    pairs = [*zip(told, born, strict=False)]
    return len(told) == len(born) and all(
        wanted in ("*", found) for pair in pairs for found, wanted in zip(*pair, strict=True)
    )


def is_marked(node: TracedNode) -> bool:
    """Return whether the line of the node is marked in this file."""
    assert node.source is not None
    return linecache.getline(node.source.file, node.source.line).endswith("# born\n")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_first_nonfinite_node_is_found(case: Case) -> None:
    trace = trace_of(case)
    assert agrees(value_turns(trace), case.values, "value_turn_kind"), value_turns(trace)
    assert agrees(gradient_turns(trace), case.gradients, "gradient_turn_kind"), gradient_turns(
        trace
    )
    for node in value_turns(trace)[:1]:
        assert node.is_leaf or is_marked(node)
        assert (node.value_turn_given, node.value_turn_is_near) == (case.given, case.is_near)
    if not case.values:
        assert all(is_marked(node) for node in gradient_turns(trace)[:1])
        assert "values not finite" not in str(trace).partition("but finite")[2]
    assert pickle.loads(pickle.dumps(trace)) == trace


def headline(trace: GraphTrace) -> str:
    """Return the lines between the first one and the table, joined to one line."""
    return " ".join(str(trace).split("\n\n")[0].splitlines()[1:])


def test_headline_names_operation_line_and_module() -> None:
    trace = trace_of(CASES["masks and 0 / 0 beside them"])
    (node,) = value_turns(trace)
    assert headline(trace).startswith(
        f"values not finite (NaN) from node {node.index}, DivBackward0, at "
        f"tests/trace/test_hunts.py:{node.source and node.source.line} "
        "in Attention.forward, module 1 gradients"
    )


def test_headline_says_that_nan_may_start_one_node_earlier() -> None:
    trace = trace_of(CASES["data of batches into MultiheadAttention"])
    assert ", or right before it; it came in with argument query" in headline(trace)


def test_nan_that_does_not_reach_the_root_is_reported() -> None:
    trace = trace_of(CASES["a NaN in a branch that is not taken"])
    assert value_turns(trace) == []
    assert headline(trace).startswith("values not finite (NaN) at node 2, SqrtBackward0, at ")
    assert ", but finite at the root gradients not finite (NaN) from node 2" in headline(trace)


def test_infinity_of_mask_is_not_reported() -> None:
    assert "finite" not in str(trace_of(CASES["a mask"]))


# --- Without recorded values


def broken(x: Tensor) -> Tensor:
    return (x * 1).log() * 2 + 1


def test_advice_to_record_values_is_given_unless_they_were_recorded() -> None:
    with record() as without_values:
        y = broken(holding(0.0))
    with record(values=True) as recording:
        z = broken(holding(0.0))
    other, advice = broken(holding(0.0)), message("text.not-finite.unknown")
    for loss, recorded in ((other, None), (y, without_values), (other, recording)):
        assert headline(trace_graph(loss, recording=recorded, values=True)) == advice
    assert "record(values=True)" not in str(trace_graph(z, recording=recording, values=True))


@pytest.mark.filterwarnings("ignore:Sparse")
def test_nan_after_unreadable_node_may_start_earlier() -> None:
    x = holding(-2.0, 1.0)
    with record(values=True) as recording:
        y = (x * 1).to_sparse().log1p().to_dense() + 1
    (node,) = value_turns(trace_graph(y, recording=recording, values=True))
    assert (node.name, node.value_turn_is_near) == ("ToDenseBackward0", True)


# --- NaN in gradients


def test_gradients_that_add_up_to_nan_are_found() -> None:
    x = holding(1.0)
    y = x * 1
    trace = trace_graph(
        [y * 1, y * 2],
        names={"y": y},
        gradients=True,
        grad_outputs=[torch.tensor([INF]), torch.tensor([-INF])],
    )
    assert [n.tensor_names for n in gradient_turns(trace)] == [("y",)]
    assert headline(trace) == "gradients not finite (NaN) from node 2, MulBackward0"


def test_gradients_made_finite_by_hook_are_not_reported() -> None:
    x = holding(0.0)
    y = x * 1
    y.register_hook(torch.nan_to_num)
    trace = trace_graph(y.sqrt().sum(), names={"x": x}, gradients=True)
    assert gradient_turns(trace) == []
    assert headline(trace) == ""


def test_nonfinite_grad_outputs_are_reported_as_the_start() -> None:
    trace = trace_graph(holding(1.0) * 2, gradients=True, grad_outputs=torch.tensor([INF]))
    assert headline(trace) == "gradients not finite (infinity) from the start"


def test_unreadable_gradient_hides_where_nan_began() -> None:
    table = custom(lambda g: g.to_dense() * NAN)(torch.ones(3, 1, requires_grad=True))
    row = nn.functional.embedding(torch.tensor([1]), table, sparse=True)
    trace = trace_graph(row.sum(), gradients=True)
    assert gradient_turns(trace) == []
    assert headline(trace) == "gradients not finite (NaN)"


# --- Folded graphs


def deep(*, breaks: bool) -> GraphTrace:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(20)))
    if breaks:
        with torch.no_grad():
            model[7].weight[0] = NAN  # type: ignore[operator]
    with record(values=True) as recording:
        loss = model(torch.ones(1, 2)).sum()
    return trace_graph(loss, names=model, recording=recording, values=True)


def test_folded_text_names_first_nonfinite_node() -> None:
    trace = deep(breaks=True)
    (node,) = value_turns(trace)
    text = str(trace)
    assert f"values not finite (NaN) from node {node.index}, the leaf 7.weight" in text
    assert f".nodes[{node.index}]" in text
    (row,) = [line for line in text.splitlines() if line.startswith("*")]
    assert row.endswith(f" NaN from node {node.index} in 7")
    assert ".nodes[" not in str(deep(breaks=False))


@pytest.mark.parametrize("fold", [True, "*"])
def test_box_of_first_nonfinite_node_is_marked(fold: Any) -> None:
    assert deep(breaks=True).to_svg(fold=fold).count("value: NaN from here</text>") == 1
    assert "from here" not in deep(breaks=False).to_svg(fold=fold)


def chain(operations: list[str]) -> GraphTrace:
    x = holding(0.0)
    with record(values=True) as recording:
        y = x * 1
        for operation in ["log", *operations]:
            y = getattr(y, operation)()
    return trace_graph(y, recording=recording, values=True)


def test_table_row_of_folded_nonfinite_node_is_marked() -> None:
    repeated = chain(["neg"] * 40)
    marked = [line for line in str(repeated).splitlines() if "infinity from node 40" in line]
    assert [line.split()[0] for line in marked] == ["LogBackward0"]
    mixed = chain(random.Random(0).choices(["neg", "cosh", "abs", "square", "clone"], k=48))
    (row,) = [line for line in str(mixed).splitlines() if line.startswith("LogBackward0")]
    assert row.endswith(" infinity from node 48")
