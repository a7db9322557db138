"""What `trace_graph` takes, what it finds, and that it leaves no trace itself."""

import gc
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from leafgrad import GraphTrace, describe_tensor, diagnose, preflight, trace_graph
from tests.tensors import leaf


def names(trace: GraphTrace) -> list[str]:
    return [node.name.removesuffix("Backward0") for node in trace.nodes]


def targets(trace: GraphTrace) -> list[tuple[int, int | None, int, int]]:
    return [(e.source, e.target, e.output_nr, e.input_nr) for e in trace.edges]


# --- Nodes and edges


def test_nodes_come_before_their_successors_and_carry_their_index() -> None:
    x, y = leaf(3), leaf(3)
    trace = trace_graph(x * x + torch.sin(2 * y))
    assert names(trace) == ["Add", "Mul", "AccumulateGrad", "Sin", "Mul", "AccumulateGrad"]
    assert [node.index for node in trace.nodes] == list(range(6))
    assert all(edge.target is None or edge.source < edge.target for edge in trace.edges)


def test_parallel_edges_are_kept_and_an_input_without_gradient_leads_nowhere() -> None:
    h = leaf(3)
    assert targets(trace_graph(h * h)) == [(0, 1, 0, 0), (0, 1, 1, 0)]
    assert targets(trace_graph(h * torch.ones(3))) == [(0, 1, 0, 0), (0, None, 1, 0)]


def test_the_structure_alone_is_the_same_but_for_what_is_saved() -> None:
    y = leaf(3).sin() * leaf(3)
    whole, structure = trace_graph(y), trace_graph(y, saved=False)
    assert whole.saved
    assert structure.nodes == tuple(replace(node, saved=()) for node in whole.nodes)
    y.sum().backward()
    assert trace_graph(y).is_freed
    assert not trace_graph(y, saved=False).is_freed


def test_whether_to_read_what_is_saved_is_a_bool() -> None:
    saved: Any = "no"
    with pytest.raises(TypeError, match=r"^saved must be a bool, not str; True asks for them$"):
        trace_graph(leaf(3), saved=saved)


def test_an_edge_says_which_output_of_its_target_the_input_was() -> None:
    first, _, third = leaf(3).unbind()
    trace = trace_graph(first * third)
    assert names(trace) == ["Mul", "Unbind", "AccumulateGrad"]
    assert targets(trace)[:2] == [(0, 1, 0, 0), (0, 1, 1, 2)]
    assert trace.nodes[1].shapes == ((), (), ())


def test_roots_leaves_and_sinks_are_told_apart() -> None:
    x = leaf(3)
    constant_inside = torch.autograd.graph.GradientEdge(undefined_gradient(), 0)
    trace = trace_graph([x.sin(), x.cos(), constant_inside])
    assert [node.name for node in trace.roots] == ["SinBackward0", "CosBackward0", "UndefinedGrad"]
    assert [node.name for node in trace.leaves] == ["AccumulateGrad"]


def undefined_gradient() -> Any:
    """Make a node that leads nowhere and belongs to no leaf."""
    return torch._C._functions.UndefinedGrad()


def test_the_depth_is_the_longest_path_from_a_root() -> None:
    x = leaf(3)
    assert trace_graph(x).depth == 0
    assert trace_graph(x + x.sin().cos()).depth == 3


def test_a_foreach_operation_is_named_as_pytorch_names_it() -> None:
    trace = trace_graph(torch._foreach_exp([leaf(2), leaf(3)])[1])
    assert trace.nodes[0].name == "ForeachExpBackward0"
    assert trace.nodes[0].shapes == ((2,), (3,))


def test_an_operation_in_place_on_a_view_is_shown_as_pytorch_rewrites_it() -> None:
    base = leaf(2, 3) * 1
    row = base[0]
    row.mul_(2)
    assert names(trace_graph(base)) == ["CopySlices", "Mul", "AccumulateGrad"]
    assert names(trace_graph(row))[:2] == ["AsStrided", "CopySlices"]


def test_the_gradient_of_a_gradient_has_a_graph_of_its_own() -> None:
    x = leaf(3)
    (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    trace = trace_graph(gradient, names={"x": x})
    assert names(trace) == ["Mul", "MulBackward1", "Pow", "AccumulateGrad"]
    assert trace.leaves[0].leaf_name == "x"


# --- Outputs of every shape


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def test_outputs_may_be_nested_in_lists_tuples_and_dicts() -> None:
    x = leaf(2)
    a, b, c, d = x.sin(), x.cos(), x.exp(), x.tan()
    trace = trace_graph(OrderedDict(a=[a, (b,)], p=Pair(c, d)))
    assert [node.name[:3] for node in trace.roots] == ["Sin", "Cos", "Exp", "Tan"]


def test_an_output_that_leads_to_another_output_comes_first() -> None:
    x = leaf(2)
    inner = x.sin()
    trace = trace_graph([inner, inner.cos()])
    assert names(trace) == ["Cos", "Sin", "AccumulateGrad"]
    assert [node.index for node in trace.roots] == [1, 0]


def test_an_output_without_gradient_is_left_out_beside_one_with() -> None:
    x = leaf(2)
    assert trace_graph([torch.ones(2), x.sin(), x.detach()]) == trace_graph(x.sin())


def test_a_gradient_edge_stands_for_its_tensor() -> None:
    row = leaf(2, 3).unbind()[1]
    assert trace_graph(get_gradient_edge(row)).edges == trace_graph(row).edges


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_a_leaf_may_be_an_output_in_any_grad_mode(mode: Callable[[], Any]) -> None:
    x = leaf(2, 3)
    with mode():
        trace = trace_graph(x, names={"x": x})
    (node,) = trace.nodes
    assert trace.roots == trace.leaves == (node,)
    assert (node.name, node.leaf_name, node.shapes) == ("AccumulateGrad", "x", ((2, 3),))


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ([], r"outputs must hold at least one tensor, not none; pass a result"),
        ({"a": ()}, r"outputs must hold at least one tensor, not none"),
        (torch.ones(2), r"none of them requires grad; compute them from a tensor with req"),
        ([torch.ones(2), torch.ones(3)], r"outputs must hold a tensor that needs a gradient"),
    ],
    ids=["empty list", "empty nest", "constant", "constants"],
)
def test_outputs_without_a_graph_are_refused(outputs: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trace_graph(outputs)


def test_a_view_that_no_gradient_can_reach_has_no_graph() -> None:
    with torch.no_grad():
        view = leaf(2)[:1]
    assert view.requires_grad
    with pytest.raises(ValueError, match="none of them requires grad"):
        trace_graph(view)


@dataclass
class Outputs:
    """What a model may return, with a field that is never set."""

    loss: torch.Tensor | None
    hidden: tuple[torch.Tensor, ...] = ()
    cache: object = None
    steps: int = field(init=False, compare=False)


class ModelOutput(OrderedDict[str, object]):
    """As some libraries have it: a mapping of fields that are not None."""


def nested(inmost: object, depth: int) -> object:
    for _ in range(depth):
        inmost = [inmost]
    return inmost


@pytest.mark.parametrize(
    "around",
    [
        pytest.param(lambda y: (y, None), id="None"),
        pytest.param(lambda y: {"loss": y, "accuracy": 0.5, "name": "a"}, id="numbers"),
        pytest.param(
            lambda y: Outputs(None, hidden=(y,), cache=SimpleNamespace(keys=[])), id="dataclass"
        ),
        pytest.param(lambda y: ModelOutput(logits=y, cache=object(), empty=()), id="mapping"),
        pytest.param(lambda y: nested(y, 20_000), id="deep"),
        pytest.param(lambda y: [None] * 20_000 + [y], id="wide"),
        pytest.param(lambda y: [[y], [()] * 20_000], id="many empty ones"),
    ],
)
def test_what_has_no_graph_is_left_out_of_what_a_model_returns(
    around: Callable[[torch.Tensor], object],
) -> None:
    y = leaf(2).sin()
    assert trace_graph(around(y)) == trace_graph(y)
    assert preflight(around(y)) == preflight(y)
    assert diagnose(around(y), {"y": y}) == diagnose(y, {"y": y})


def holding_itself() -> object:
    outputs: list[object] = [leaf(2)]
    outputs.append({"again": outputs})
    return outputs


def doubled(times: int) -> object:
    outputs: list[object] = [leaf(2)]
    for _ in range(times):
        outputs = [outputs, outputs]
    return outputs


@pytest.mark.parametrize(
    ("outputs", "place"),
    [
        pytest.param(holding_itself(), r"\[1\]\['again'\]", id="in itself"),
        pytest.param(doubled(60), r"(\[[01]\])+(\.\.\.)(\[[01]\])+", id="over and over"),
    ],
)
@pytest.mark.parametrize(
    "ask",
    [trace_graph, preflight, diagnose],
    ids=["trace", "preflight", "diagnose"],
)
def test_a_nest_without_an_end_is_refused(
    ask: Callable[[object], object], outputs: object, place: str
) -> None:
    with pytest.raises(
        ValueError, match=rf"^outputs must be .* ends, but outputs{place} is a list"
    ):
        ask(outputs)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (1.0, r"^outputs must be a tensor, a GradientEdge, or a nest .* not float; pass what the"),
        (None, r"^outputs must be .* not NoneType; did the model's forward forget its `return`\?$"),
        (
            [[1.0], None],
            r"^outputs\[0\]\[0\] must be .* not float; pass what the .* before any \.item",
        ),
        (
            SimpleNamespace(loss=leaf(2)),
            r"^outputs must .* not SimpleNamespace; pass the tensors that",
        ),
        ({"a": [nn.Linear(1, 1)]}, r"^outputs\['a'\]\[0\] must .* not Linear; .* call of the mod"),
        (leaf(2).sin().grad_fn, r"^outputs must .* not SinBackward0; .* GradientEdge\(node, 0\)"),
        (GradientEdge(None, 0), r"^outputs\.node must be a node, not NoneType; "),  # type: ignore[arg-type]
        (
            [leaf(2), leaf(2).sin().grad_fn],
            r"^outputs\[1\] must .* not SinBackward0; pass the tensor",
        ),
        ("loss", r"^outputs must .* not str; "),
        ([leaf(2), map(str, [])], r"^outputs\[1\] must .* not map; pass list\(\) of it$"),
        ({leaf(2)}, r"^outputs must .* not set; pass list\(\) of it$"),
        ({"a": 1}.values(), r"^outputs must .* not dict_values; pass list\(\) of it$"),
        (deque([leaf(2)]), r"^outputs must .* not deque; pass list\(\) of it$"),
        ({leaf(2): 1.0}, r"^outputs\[Tensor\] must .* not float; "),
        (nested(1.0, 20_000), r"^outputs(\[0\]){5}\.\.\.(\[0\]){5} must .* not float; "),
        (Outputs, r"^outputs must .* not type; "),
    ],
    ids=[
        *("number", "None", "numbers only", "object", "module", "node", "edge without a node"),
        *("node beside a tensor", "text", "iterator", "set", "view of a dict", "deque"),
        *("key without a short name", "deep", "class"),
    ],
)
def test_anything_else_as_output_is_refused_with_its_place(outputs: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        trace_graph(outputs)


# --- Names


def test_names_of_copies_that_the_graph_does_not_hold_are_refused() -> None:
    model = nn.Linear(2, 2)
    y = model(torch.ones(1, 2))
    with pytest.raises(
        ValueError, match=r"^names must .*\['weight'\] is detached .* pass the model"
    ):
        trace_graph(y, names=model.state_dict())
    named = trace_graph(y, names=dict(model.named_parameters()))
    assert named == trace_graph(y, names=model.state_dict(keep_vars=True))
    assert {leaf.leaf_name for leaf in named.leaves} == {"weight", "bias"}
    sparse = torch.eye(2).to_sparse()
    trace_graph(sparse.requires_grad_().sin(), names={"one": torch.ones(2), "sparse": sparse * 2})


def test_a_leaf_that_was_frozen_since_keeps_its_name() -> None:
    x = leaf(2)
    y = x.sin()
    x.requires_grad_(False)
    assert trace_graph(y, names={"x": x}).leaves[0].leaf_name == "x"


def test_a_module_that_holds_itself_has_names() -> None:
    model = nn.Linear(2, 2)
    model.add_module("again", model)
    trace = trace_graph(model(torch.ones(1, 2)), names=model)
    assert {leaf.leaf_name for leaf in trace.leaves} == {"weight", "bias"}


HOSTILE = "a\nb\x1b[31mc\u202ed"
HOSTILE_MODEL = nn.Sequential(OrderedDict([(HOSTILE, nn.Linear(1, 1)), ("other", nn.Tanh())]))


@pytest.mark.parametrize(
    "told",
    [
        lambda x: trace_graph(x.sin(), names={HOSTILE: x}),
        lambda x: trace_graph([x.sin()] * 1 + [x.sin() for _ in range(40)], names={HOSTILE: x}),
        lambda x: trace_graph(x.sum(), names={HOSTILE: x}, gradients=True).steps(),
        lambda x: describe_tensor(x, name=HOSTILE),
        lambda x: preflight(x.sin(), names={HOSTILE: leaf(2)}),
        lambda _: trace_graph(HOSTILE_MODEL(leaf(1, 1)), names=HOSTILE_MODEL).memory,
    ],
    ids=["list", "folded", "steps", "description", "preflight", "memory"],
)
def test_a_name_cannot_turn_a_terminal_upside_down(told: Callable[[torch.Tensor], object]) -> None:
    text = str(told(leaf(2)))
    assert all(line.isprintable() for line in text.split("\n"))
    assert "a\nb" not in text


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2, bias=False)
        self.tied = self.inner.weight
        self.scale = nn.Buffer(leaf(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.tied) * self.scale


def test_a_module_names_its_parameters_and_buffers() -> None:
    module = Tied()
    trace = trace_graph(module(torch.ones(1, 2)), names=module)
    assert [node.tensor_names for node in trace.leaves] == [("tied", "inner.weight"), ("scale",)]
    assert [node.leaf_name for node in trace.leaves] == ["tied", "scale"]


def test_a_mapping_names_leaves_and_the_nodes_of_results() -> None:
    x = leaf(3)
    first, second, _ = x.unbind()
    y = first * second
    trace = trace_graph(y, names={"x": x, "a": first, "b": second, "y": y, "other": leaf(1)})
    assert [node.tensor_names for node in trace.nodes] == [("y",), ("a", "b"), ("x",)]
    assert [node.leaf_name for node in trace.nodes] == [None, None, "x"]


def test_a_view_that_pytorch_refuses_to_use_may_be_among_the_named() -> None:
    base = leaf(2)
    with torch.no_grad():
        view = base.unbind()[0]
        base.add_(1)
    assert trace_graph(base.sin(), names={"view": view, "x": base}).leaves[0].leaf_name == "x"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            [leaf(2)],
            r"^names must be a module, an optimizer, a mapping .* not list; pass the model",
        ),
        ({"x": 1.0}, r"^names\['x'\] must be a tensor, not float; a mapping leads from name to"),
        ({1: leaf(2)}, r"^the keys of names must be strings, not int; name tensors as in names="),
    ],
    ids=["list", "number as tensor", "number as name"],
)
def test_other_names_are_refused(given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        trace_graph(leaf(2).sin(), names=given)


# --- It leaves no trace


def test_a_trace_keeps_no_tensor_alive() -> None:
    x = leaf(3)
    y = x.exp()
    tensors: list[Any] = [x, y, y.untyped_storage()]
    references = [weakref.ref(tensor) for tensor in tensors]
    del tensors
    trace = trace_graph(y * y, names={"x": x, "y": y})
    del x, y
    assert [reference() for reference in references] == [None] * 3
    assert len(trace.nodes) == 3


def test_a_trace_keeps_no_custom_function_alive() -> None:
    class Local(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
            return x + 1

        @staticmethod
        def backward(_: Any, *gradients: Any) -> Any:
            return gradients[0]

    function: Any = Local
    trace = trace_graph(function.apply(leaf(2)))
    reference = weakref.ref(function)
    del Local, function
    gc.collect()
    assert reference() is None
    assert [node.name for node in trace.nodes] == ["LocalBackward", "AccumulateGrad"]


class Witness:
    """An object that a node keeps: alive for as long as the node is."""


class Witnessed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, witness: Witness) -> torch.Tensor:
        ctx.witness = witness
        return x + 1

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return gradients[0], None


def witnessed(x: torch.Tensor, steps: int) -> tuple[torch.Tensor, "weakref.ref[Witness]"]:
    function: Any = Witnessed
    witness = Witness()
    x = function.apply(x, witness)
    for _ in range(steps):
        x = x.sin()
    return x, weakref.ref(witness)


@pytest.mark.parametrize("steps", [3, 2000], ids=["shallow", "deep"])
def test_the_nodes_of_a_traced_graph_live_no_longer_than_they_would(steps: int) -> None:
    middle, low = witnessed(leaf(2), steps)
    y, high = witnessed(middle, steps)
    trace = trace_graph(y)
    del y
    assert high() is None
    assert low() is not None
    del middle
    assert low() is None
    assert len(trace.nodes) == 2 * steps + 3


@pytest.mark.parametrize("steps", [3, 2000], ids=["shallow", "deep"])
def test_a_cycle_is_collected_with_a_trace_as_without(steps: int) -> None:
    def cycle(*, traced: bool) -> "weakref.ref[Witness]":
        x = leaf(2)
        y, witness = witnessed(x, steps)
        x.register_hook(lambda gradient: gradient + y)
        if traced:
            trace_graph(y)
        return witness

    plain, traced = cycle(traced=False), cycle(traced=True)
    gc.collect()
    assert (plain() is None) == (traced() is None)


class Loud(TorchFunctionMode):
    def __torch_function__(self, func: Any, *_: Any, **__: Any) -> Any:
        raise AssertionError(func)


class LoudDispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, *_: Any, **__: Any) -> Any:
        raise AssertionError(func)


def test_no_mode_sees_an_operation_and_no_sequence_number_is_used() -> None:
    x = leaf(2)
    y = x.exp() * x
    number = torch._C._autograd._get_sequence_nr()
    modes: list[Any] = [Loud, LoudDispatch]
    with modes[0](), modes[1]():
        trace_graph([y, x], names={"x": x, "y": y})
    assert torch._C._autograd._get_sequence_nr() == number


def test_gradients_are_the_same_after_a_trace() -> None:
    x = leaf(2)
    y = x.exp() * x
    trace_graph(y).to_json()
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, 2 * x.exp().detach())


# --- Where tensors are special


def test_a_graph_inside_vmap_is_read_through_the_wrapper() -> None:
    x, traces = leaf(2, 3), []

    def inside(row: torch.Tensor) -> torch.Tensor:
        y = row.sin()
        traces.append(trace_graph([y, row], names={"row": row}))
        return y

    torch.func.vmap(inside)(x)
    assert names(traces[0]) == ["Sin", "AccumulateGrad"]
    assert (traces[0].nodes[0].shapes, traces[0].leaves[0].leaf_name) == (((2, 3),), "row")


@pytest.mark.parametrize("outer", [lambda f: f, torch.func.vmap], ids=["grad", "vmap of grad"])
def test_a_graph_inside_func_grad_is_that_of_its_level(outer: Callable[..., Any]) -> None:
    traces = []

    def inside(row: torch.Tensor) -> torch.Tensor:
        y = (row.sin() * row).sum()
        traces.append(trace_graph([y, row], names={"row": row}))
        return y

    outer(torch.func.grad(inside))(torch.ones(2, 3))
    assert names(traces[0]) == ["Sum", "Mul", "Sin", "AccumulateGrad"]
    assert traces[0].leaves[0].leaf_name == "row"
    assert [saved.state for saved in traces[0].saved] == ["live"] * 3


def test_a_graph_outside_func_grad_can_be_read_inside() -> None:
    x, traces = leaf(3), []
    y = x.sin()

    def inside(row: torch.Tensor) -> torch.Tensor:
        traces.append(trace_graph([y, x], names={"x": x}))
        return (row * y).sum()

    torch.func.grad(inside)(torch.ones(3))
    assert traces[0] == trace_graph([y, x], names={"x": x})


def test_a_compiled_function_is_one_node() -> None:
    compiled = torch.compile(lambda x: (x.sin() * x).exp(), backend="aot_eager")
    trace = trace_graph(compiled(leaf(2)))
    assert names(trace) == ["CompiledFunctionBackward", "AccumulateGrad"]
    assert {saved.state for saved in trace.saved} == {"live"}


class Marked(torch.Tensor):
    """A subclass that changes nothing."""


class Wrapped(torch.Tensor):
    """A subclass that runs each operation on the tensor inside."""

    inside: torch.Tensor

    @classmethod
    def around(cls, inside: torch.Tensor) -> Any:
        wrapper: Any = torch.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype)
        wrapper.inside = inside
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        opened = [arg.inside if isinstance(arg, Wrapped) else arg for arg in args]
        return cls.around(func(*opened, **(kwargs or {})))


def fake() -> torch.Tensor:
    with torch._subclasses.FakeTensorMode():
        return torch.ones(2, 3)


def of_all_kinds() -> dict[str, tuple[torch.Tensor, tuple[int | str, ...]]]:
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    return {
        "scalar": (torch.ones(()), ()),
        "empty": (torch.ones(0, 3), (0, 3)),
        "complex": (torch.ones(2, dtype=torch.complex128), (2,)),
        "meta": (torch.ones(2, device="meta"), (2,)),
        "fake": (fake(), (2, 3)),
        "sparse": (torch.eye(2).to_sparse(), (2, 2)),
        "ragged": (torch.nested.nested_tensor(parts, layout=torch.jagged), (2, "ragged", 3)),
        "subclass": (torch.ones(2).as_subclass(Marked), (2,)),
        "wrapper": (Wrapped.around(torch.ones(2)), (2,)),
    }


@pytest.mark.parametrize("kind", of_all_kinds())
def test_a_graph_of_tensors_of_any_kind_is_traced(kind: str) -> None:
    x, shape = of_all_kinds()[kind]
    x.requires_grad_()
    trace = trace_graph([x * x, x], names={"x": x})
    assert {node.shapes for node in trace.nodes} == {(shape,)}
    assert {node.dtype for node in trace.nodes} == {x.dtype}
    assert {node.device for node in trace.nodes} == {x.device}
    assert [leaf.leaf_name for leaf in trace.leaves] == ["x"]
    saved = [saved for saved in trace.saved if "._" not in saved.name]  # of what it wraps
    assert [(saved.state, saved.shape) for saved in saved] == [("live", shape)] * 2


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_strided_nested_tensor_has_a_node_without_a_shape() -> None:
    x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], requires_grad=True)
    trace = trace_graph([x * x, x])
    assert [node.shapes for node in trace.nodes] == [(None,), (None,)]
    assert [saved.shape for saved in trace.saved] == [(2, "ragged", 3)] * 2
