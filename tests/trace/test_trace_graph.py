"""Arguments and results of `trace_graph`."""

import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from leafgrad import GraphTrace, describe_tensor, diagnose, trace_graph
from tests.messages import exactly
from tests.tensors import leaf


def names(trace: GraphTrace) -> list[str]:
    return [node.name.removesuffix("Backward0") for node in trace.nodes]


def targets(trace: GraphTrace) -> list[tuple[int, int | None, int, int]]:
    return [(e.source, e.target, e.output_nr, e.input_nr) for e in trace.edges]


# --- Nodes and edges


def test_nodes_precede_their_successors() -> None:
    x, y = leaf(3), leaf(3)
    trace = trace_graph(x * x + torch.sin(2 * y))
    assert names(trace) == ["Add", "Mul", "AccumulateGrad", "Sin", "Mul", "AccumulateGrad"]
    assert [node.index for node in trace.nodes] == list(range(6))
    assert all(edge.target is None or edge.source < edge.target for edge in trace.edges)


def test_parallel_edges_are_kept_and_constants_have_no_target() -> None:
    h = leaf(3)
    assert targets(trace_graph(h * h)) == [(0, 1, 0, 0), (0, 1, 1, 0)]
    assert targets(trace_graph(h * torch.ones(3))) == [(0, 1, 0, 0), (0, None, 1, 0)]


def test_saved_false_leaves_out_saved_tensors_only() -> None:
    y = leaf(3).sin() * leaf(3)
    whole, structure = trace_graph(y), trace_graph(y, saved=False)
    assert whole.saved
    assert structure.nodes == tuple(replace(node, saved=()) for node in whole.nodes)
    y.sum().backward()
    assert trace_graph(y).is_freed
    assert not trace_graph(y, saved=False).is_freed


@pytest.mark.parametrize("switch", ["saved", "values", "gradients"])
def test_flags_of_trace_graph_must_be_bools(switch: str) -> None:
    wrong: Any = {switch: "no"}
    with pytest.raises(TypeError, match=rf"^{switch} must be a bool, not str; "):
        trace_graph(leaf(3), **wrong)


def test_depth_is_longest_path_from_root() -> None:
    x = leaf(3)
    assert trace_graph(x).depth == 0
    assert trace_graph(x + x.sin().cos()).depth == 3


def test_write_into_view_is_shown_as_copy_slices() -> None:
    base = leaf(2, 3) * 1
    row = base[0]
    row.mul_(2)
    assert names(trace_graph(base)) == ["CopySlices", "Mul", "AccumulateGrad"]
    assert names(trace_graph(row))[:2] == ["AsStrided", "CopySlices"]


# --- Nested and other outputs


def test_output_that_leads_to_another_comes_first() -> None:
    x = leaf(2)
    inner = x.sin()
    trace = trace_graph([inner, inner.cos()])
    assert names(trace) == ["Cos", "Sin", "AccumulateGrad"]
    assert [node.index for node in trace.roots] == [1, 0]


def test_outputs_without_gradient_are_left_out() -> None:
    x = leaf(2)
    assert trace_graph([torch.ones(2), x.sin(), x.detach()]) == trace_graph(x.sin())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_leaf_is_traced_in_any_grad_mode(mode: Callable[[], Any]) -> None:
    x = leaf(2, 3)
    with mode():
        trace = trace_graph(x, names={"x": x})
    (node,) = trace.nodes
    assert trace.roots == trace.leaves == (node,)
    assert (node.name, node.leaf_name, node.shapes) == ("AccumulateGrad", "x", ((2, 3),))


@pytest.mark.parametrize(
    ("outputs", "error"),
    [
        ([], "empty"),
        ({"a": ()}, "empty"),
        (torch.ones(2), "constant"),
        ([torch.ones(2), torch.ones(3)], "constant"),
    ],
    ids=["empty list", "empty nest", "constant", "constants"],
)
def test_outputs_without_a_graph_are_refused(outputs: object, error: str) -> None:
    with pytest.raises(ValueError, match=exactly(f"errors.outputs.{error}")):
        trace_graph(outputs)


def test_view_taken_under_no_grad_is_refused() -> None:
    with torch.no_grad():
        view = leaf(2)[:1]
    assert view.requires_grad
    with pytest.raises(ValueError, match=exactly("errors.outputs.constant")):
        trace_graph(view)


@dataclass
class Outputs:
    """An output of a model with an unset field."""

    loss: torch.Tensor | None
    hidden: tuple[torch.Tensor, ...] = ()
    cache: object = None
    steps: int = field(init=False, compare=False)


def nested(inmost: object, depth: int) -> object:
    for _ in range(depth):
        inmost = [inmost]
    return inmost


@pytest.mark.parametrize(
    "around",
    [
        pytest.param(lambda y: (y, None), id="None"),
        pytest.param(lambda y: {"loss": y, "accuracy": 0.5, "name": "a"}, id="numbers"),
        pytest.param(lambda y: Outputs(None, (y,), SimpleNamespace(keys=[])), id="dataclass"),
        pytest.param(lambda y: OrderedDict(logits=y, cache=object(), empty=()), id="mapping"),
        pytest.param(lambda y: nested(y, 20_000), id="deep"),
        pytest.param(lambda y: [[y], [()] * 20_000, [None] * 20_000], id="wide"),
    ],
)
def test_objects_beside_tensors_are_left_out_of_outputs(
    around: Callable[[torch.Tensor], object],
) -> None:
    y = leaf(2).sin()
    assert trace_graph(around(y)) == trace_graph(y)
    assert diagnose(around(y)).codes == diagnose(y).codes
    assert diagnose(around(y), {"y": y}).about("y") == diagnose(y, {"y": y}).about("y")


def holding_itself() -> object:
    outputs: list[object] = [leaf(2)]
    outputs.append({"again": outputs})
    return outputs


def doubled(times: int) -> object:
    outputs: list[object] = [leaf(2)]
    for _ in range(times):
        outputs = [outputs, outputs]
    return outputs


@pytest.mark.parametrize("outputs", [holding_itself(), doubled(60)])
def test_container_that_occurs_again_is_searched_once(outputs: object) -> None:
    assert len(trace_graph(outputs).roots) == 1


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (1.0, r" must be a tensor, a GradientEdge, or a nest .* not float; "),
        (None, r" must .* not NoneType; did .*`return`\?$"),
        ([[1.0], None], r"\[0\]\[0\] must be .* not float; .*item"),
        (SimpleNamespace(loss=leaf(2)), r" must .* not SimpleNamespace; pass the tensors"),
        ({"a": [nn.Linear(1, 1)]}, r"\['a'\]\[0\] must .* not Linear; .* calling the mod"),
        (leaf(2).sin().grad_fn, r" must .* not SinBackward0; .* GradientEdge\(node, 0\)"),
        ([leaf(2), map(str, [])], r"\[1\] must .* not map; pass list\(\) of it$"),
        ({leaf(2)}, r" must .* not set; pass list\(\) of it$"),
        ({leaf(2): 1.0}, r"\[Tensor\] must .* not float; "),
    ],
    ids=[
        *("number", "None", "numbers only", "object", "module", "node"),
        *("iterator", "set", "key without a short name"),
    ],
)
def test_invalid_outputs_are_refused_with_their_place(outputs: object, message: str) -> None:
    with pytest.raises(TypeError, match=f"^outputs{message}"):
        trace_graph(outputs)


# --- Names


def test_detached_copies_in_names_are_refused() -> None:
    model = nn.Linear(2, 2)
    y = model(torch.ones(1, 2))
    with pytest.raises(ValueError, match=exactly("errors.names.detached", name="weight")):
        trace_graph(y, names=model.state_dict())
    named = trace_graph(y, names=dict(model.named_parameters()))
    assert named == trace_graph(y, names=model.state_dict(keep_vars=True))
    assert {leaf.leaf_name for leaf in named.leaves} == {"weight", "bias"}
    sparse = torch.eye(2).to_sparse()
    trace_graph(sparse.requires_grad_().sin(), names={"one": torch.ones(2), "sparse": sparse * 2})


HOSTILE = "a\nb\x1b[31mc\u202ed"
HOSTILE_MODEL = nn.Sequential(OrderedDict([(HOSTILE, nn.Linear(1, 1)), ("other", nn.Tanh())]))


@pytest.mark.parametrize(
    "told",
    [
        lambda x: trace_graph(x.sin(), names={HOSTILE: x}),
        lambda x: trace_graph([x.sin()] * 1 + [x.sin() for _ in range(40)], names={HOSTILE: x}),
        lambda x: trace_graph(x.sum(), names={HOSTILE: x}, gradients=True).steps(),
        lambda x: describe_tensor(x, name=HOSTILE),
        lambda x: diagnose(x.sin(), {HOSTILE: leaf(2)}),
        lambda _: trace_graph(HOSTILE_MODEL(leaf(1, 1)), names=HOSTILE_MODEL).memory,
    ],
    ids=["list", "folded", "steps", "description", "diagnosis", "memory"],
)
def test_control_characters_in_names_are_not_printed(
    told: Callable[[torch.Tensor], object],
) -> None:
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


def test_module_names_its_parameters_and_buffers() -> None:
    module = Tied()
    trace = trace_graph(module(torch.ones(1, 2)), names=module)
    assert [node.tensor_names for node in trace.leaves] == [("tied", "inner.weight"), ("scale",)]
    assert [node.leaf_name for node in trace.leaves] == ["tied", "scale"]


def test_mapping_names_leaves_and_results() -> None:
    x = leaf(3)
    first, second, _ = x.unbind()
    y = first * second
    trace = trace_graph(y, names={"x": x, "a": first, "b": second, "y": y, "other": leaf(1)})
    assert [node.tensor_names for node in trace.nodes] == [("y",), ("a", "b"), ("x",)]
    assert [node.leaf_name for node in trace.nodes] == [None, None, "x"]


# --- No side effects


def test_trace_keeps_no_tensor_alive() -> None:
    x = leaf(3)
    y = x.exp()
    tensors: list[Any] = [x, y, y.untyped_storage()]
    references = [weakref.ref(tensor) for tensor in tensors]
    del tensors
    trace = trace_graph(y * y, names={"x": x, "y": y})
    del x, y
    assert [reference() for reference in references] == [None] * 3
    assert len(trace.nodes) == 3


class Witness:
    """An object that lives as long as its node."""


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
def test_trace_does_not_prolong_life_of_nodes(steps: int) -> None:
    middle, low = witnessed(leaf(2), steps)
    y, high = witnessed(middle, steps)
    trace = trace_graph(y)
    del y
    assert high() is None
    assert low() is not None
    del middle
    assert low() is None
    assert len(trace.nodes) == 2 * steps + 3


class Loud(TorchFunctionMode):
    def __torch_function__(self, func: Any, *_: Any, **__: Any) -> Any:
        raise AssertionError(func)


class LoudDispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, *_: Any, **__: Any) -> Any:
        raise AssertionError(func)


def test_trace_runs_no_operation() -> None:
    x = leaf(2)
    y = x.exp() * x
    number = torch._C._autograd._get_sequence_nr()
    modes: list[Any] = [Loud, LoudDispatch]
    with modes[0](), modes[1]():
        trace_graph([y, x], names={"x": x, "y": y})
    assert torch._C._autograd._get_sequence_nr() == number


# --- Special tensors


def test_graph_inside_vmap_is_traced() -> None:
    x, traces = leaf(2, 3), []

    def inside(row: torch.Tensor) -> torch.Tensor:
        y = row.sin()
        traces.append(trace_graph([y, row], names={"row": row}))
        return y

    torch.func.vmap(inside)(x)
    assert names(traces[0]) == ["Sin", "AccumulateGrad"]
    assert (traces[0].nodes[0].shapes, traces[0].leaves[0].leaf_name) == (((2, 3),), "row")


@pytest.mark.parametrize("outer", [lambda f: f, torch.func.vmap], ids=["grad", "vmap of grad"])
def test_graph_inside_func_grad_is_traced(outer: Callable[..., Any]) -> None:
    traces = []

    def inside(row: torch.Tensor) -> torch.Tensor:
        y = (row.sin() * row).sum()
        traces.append(trace_graph([y, row], names={"row": row}))
        return y

    outer(torch.func.grad(inside))(torch.ones(2, 3))
    assert names(traces[0]) == ["Sum", "Mul", "Sin", "AccumulateGrad"]
    assert traces[0].leaves[0].leaf_name == "row"
    assert [saved.state for saved in traces[0].saved] == ["live"] * 3


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
        "meta": (torch.ones(2, device="meta"), (2,)),
        "fake": (fake(), (2, 3)),
        "sparse": (torch.eye(2).to_sparse(), (2, 2)),
        "ragged": (torch.nested.nested_tensor(parts, layout=torch.jagged), (2, "ragged", 3)),
        "subclass": (torch.ones(2).as_subclass(Marked), (2,)),
        "wrapper": (Wrapped.around(torch.ones(2)), (2,)),
    }


@pytest.mark.parametrize("kind", of_all_kinds())
def test_graph_of_any_kind_of_tensor_is_traced(kind: str) -> None:
    x, shape = of_all_kinds()[kind]
    x.requires_grad_()
    trace = trace_graph([x * x, x], names={"x": x})
    assert {node.shapes for node in trace.nodes} == {(shape,)}
    assert {node.dtype for node in trace.nodes} == {x.dtype}
    assert {node.device for node in trace.nodes} == {x.device}
    assert [leaf.leaf_name for leaf in trace.leaves] == ["x"]
    # Leave out the tensors inside a wrapper.
    saved = [saved for saved in trace.saved if "._" not in saved.name]
    assert [(saved.state, saved.shape) for saved in saved] == [("live", shape)] * 2
