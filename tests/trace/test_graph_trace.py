"""A trace as a value: what follows from its nodes, and the forms that it takes."""

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, replace
from pathlib import PurePosixPath
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from leafgrad import CustomFunction, GraphTrace, SavedTensor, record, trace_graph


def example() -> GraphTrace:
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    return trace_graph(x * x + torch.sin(2 * y), names={"x": x, "y": y})


def test_what_follows_from_the_nodes_is_put_together_in_their_order() -> None:
    trace = example()
    assert [node.index for node in trace.roots] == [0]
    assert [node.index for node in trace.leaves] == [2, 5]
    assert [node.index for node in trace.sinks] == [2, 5]
    assert len(trace.edges) == 7
    assert [(saved.node, saved.name) for saved in trace.saved] == [
        (1, "other"),
        (1, "self"),
        (3, "self"),
        (4, "other"),
    ]
    assert (trace.depth, trace.is_freed) == (3, False)


def test_traces_of_equal_graphs_are_equal() -> None:
    assert example() == example()
    assert example() != trace_graph(torch.ones(3, requires_grad=True))


def test_a_tensor_whose_saved_version_is_not_known_is_not_called_modified() -> None:
    known = SavedTensor(node=0, name="result", state="live", saved_version=0, current_version=1)
    assert known.is_modified
    assert not replace(known, saved_version=None).is_modified


def test_a_trace_cannot_be_changed() -> None:
    trace: Any = example()
    with pytest.raises(FrozenInstanceError):
        trace.nodes = ()
    with pytest.raises(FrozenInstanceError):
        trace.nodes[0].name = "other"


def test_a_trace_can_be_pickled_before_and_after_it_was_looked_at() -> None:
    trace = example()
    untouched = pickle.dumps(trace)
    assert str(trace.memory)
    restored, looked_at = pickle.loads(untouched), pickle.loads(pickle.dumps(trace))
    assert restored == trace == looked_at
    assert hash(restored) == hash(trace) == hash(looked_at)
    assert restored.roots[0] is restored.nodes[0]
    assert copy.deepcopy(trace) == copy.copy(trace) == trace


def test_the_nodes_are_made_once() -> None:
    trace = example()
    assert trace.nodes is trace.nodes
    assert trace.roots[0] is trace.nodes[0]


def test_a_trace_has_no_attribute_that_is_none_of_its_own() -> None:
    trace: Any = example()
    with pytest.raises(AttributeError, match=r"^'GraphTrace' object has no attribute 'node'$"):
        _ = trace.node


def test_the_repr_of_a_trace_is_short() -> None:
    assert repr(example()) == "<GraphTrace of 6 nodes, 2 of them leaves>"


NOT_RECORDED: dict[str, Any] = {
    "custom_function": None,
    "module": None,
    "is_module_inferred": False,
    "source": None,
    "derivative_order": None,
    "hides_saved": False,
    "values": [],
    "gradients": [],
    "visited": None,
    "value_turns": False,
    "value_turn_kind": None,
    "value_turn_given": [],
    "value_turn_is_near": False,
    "gradient_turns": False,
    "gradient_turn_kind": None,
}


def test_a_dict_of_a_trace_holds_everything_as_json_types() -> None:
    x = torch.ones(2, requires_grad=True)
    assert trace_graph(x.sin(), names={"x": x}).to_dict() == {
        "schema": 1,
        "nodes": [
            {
                "index": 0,
                "name": "SinBackward0",
                "shapes": [[2]],
                "dtype": "float32",
                "device": "cpu",
                "edges": [
                    {
                        "source": 0,
                        "target": 1,
                        "input_nr": 0,
                        "output_nr": 0,
                        "gradient": None,
                        "gradient_so_far": None,
                    }
                ],
                "saved": [
                    {
                        "node": 0,
                        "name": "self",
                        "state": "live",
                        "shape": [2],
                        "dtype": "float32",
                        "device": "cpu",
                        "nbytes": 8,
                        "storage": 0,
                        "is_parameter": False,
                        "saved_version": 0,
                        "current_version": 0,
                        "writes": [],
                    }
                ],
                "tensor_names": [],
                "is_leaf": False,
                "retains_grad": False,
                **NOT_RECORDED,
                "created": 0,
                "leaf_name": None,
                "is_freed": False,
            },
            {
                "index": 1,
                "name": "AccumulateGrad",
                "shapes": [[2]],
                "dtype": "float32",
                "device": "cpu",
                "edges": [],
                "saved": [],
                "tensor_names": ["x"],
                "is_leaf": True,
                "retains_grad": False,
                **NOT_RECORDED,
                "created": None,
                "leaf_name": "x",
                "is_freed": False,
            },
        ],
        "roots": [0],
        "modules": [],
        "inputs": [],
        "leaves": [1],
        "sinks": [1],
        "depth": 1,
        "is_freed": False,
        "failure": None,
    }


def test_a_text_from_before_there_were_numbers_can_be_read() -> None:
    x = torch.ones(2, requires_grad=True)
    trace = trace_graph(x.sin(), names={"x": x})
    data = trace.to_dict()
    numbers = "values", "gradients", "visited", "value_turns", "gradient_turns"
    turns = "value_turn_kind", "value_turn_given", "value_turn_is_near", "gradient_turn_kind"
    for node in data["nodes"]:
        for name in (*numbers, *turns):
            del node[name]
        for edge in node["edges"]:
            del edge["gradient"], edge["gradient_so_far"]
    assert GraphTrace.from_json(json.dumps(data)) == trace


def test_the_name_of_a_function_of_pytorch_is_kept_whole() -> None:
    made = CustomFunction(name="torch.library.Made", file=None, line=None)
    node = replace(example().nodes[0], custom_function=made, edges=())
    trace = GraphTrace(nodes=(node,), roots=(node,))
    assert GraphTrace.from_json(trace.to_json()) == trace


def test_only_a_trace_can_be_compared_with_a_trace() -> None:
    wrong: Any = torch.ones(2)
    with pytest.raises(TypeError, match=r"^other must be a GraphTrace, not Tensor; trace_graph"):
        example().diff(wrong)


class Copied(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return gradients[0]


def test_a_custom_function_tells_its_line_without_the_folders_of_this_machine() -> None:
    function: Any = Copied
    made = trace_graph(function.apply(torch.ones(2, requires_grad=True))).nodes[0].custom_function
    assert made is not None
    line = Copied.forward.__code__.co_firstlineno
    assert str(made) == f"{__name__}.Copied, tests/trace/test_graph_trace.py:{line}"
    assert str(replace(made, file=None, line=None)) == f"{__name__}.Copied"


def test_a_custom_function_is_a_dict_in_the_dict() -> None:
    function: Any = Copied
    node = trace_graph(function.apply(torch.ones(2, requires_grad=True))).to_dict()["nodes"][0]
    assert node["custom_function"]["name"] == f"{__name__}.Copied"
    assert sorted(node["custom_function"]) == ["file", "line", "name"]


def test_json_is_the_dict_as_text() -> None:
    assert json.loads(example().to_json()) == example().to_dict()
    assert "\n" not in example().to_json()
    assert example().to_json(indent=2).startswith('{\n  "schema": 1,\n  "nodes": [')


def test_networkx_gets_a_multigraph_with_all_that_is_known() -> None:
    trace = example()
    graph = trace.to_networkx()
    nx = pytest.importorskip("networkx")
    assert isinstance(graph, nx.MultiDiGraph)
    assert dict(graph.nodes(data=True)) == {
        node["index"]: node for node in trace.to_dict()["nodes"]
    }
    assert list(graph.edges(data=True)) == [
        (0, 1, {"input_nr": 0, "output_nr": 0}),
        (0, 3, {"input_nr": 0, "output_nr": 1}),
        (1, 2, {"input_nr": 0, "output_nr": 0}),
        (1, 2, {"input_nr": 0, "output_nr": 1}),
        (3, 4, {"input_nr": 0, "output_nr": 0}),
        (4, 5, {"input_nr": 0, "output_nr": 0}),
    ]
    assert nx.dag_longest_path_length(nx.DiGraph(graph)) == trace.depth


class Keeping(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mask = x > 0
        return x.clone()

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        return gradients[0]


def of_all_kinds() -> dict[str, GraphTrace]:
    function: Any = Keeping
    x = torch.ones(2, requires_grad=True)
    with record() as recording:
        h = torch.nn.Tanh()(x * 2)
        y = h.sin()
        h.mul_(2)
    freed = x.exp()
    freed.sum().backward()
    ragged = torch.nested.nested_tensor([torch.ones(1)], layout=torch.jagged, requires_grad=True)
    model = torch.nn.Linear(2, 2)
    return {
        "plain": example(),
        "recorded": trace_graph(y, recording=recording),
        "custom": trace_graph(function.apply(x)),
        "custom of PyTorch": trace_graph(checkpoint(torch.sin, x, use_reentrant=True)),
        "freed": trace_graph(freed),
        "foreach": trace_graph(torch._foreach_exp([x])[0]),
        "ragged": trace_graph(ragged.sin()),
        "inferred": trace_graph(model(torch.ones(1, 2)), names=model),
        "several roots": trace_graph([x.exp(), x.sin()]),
    }


@pytest.mark.parametrize("kind", of_all_kinds())
def test_a_trace_comes_back_from_json(kind: str) -> None:
    trace = of_all_kinds()[kind]
    assert GraphTrace.from_json(trace.to_json()) == trace


@pytest.mark.parametrize("text", ['{"nodes": []}', '{"schema": 0}', "[]"])
def test_json_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^the text must hold a graph of schema 1, not"):
        GraphTrace.from_json(text)


@pytest.mark.parametrize(
    ("whole", "damaged"),
    [
        ('"roots": [0]', '"roots": [9]'),
        ('"saved"', '"kept"'),
        ('"created"', '"made"'),
        ('"float32"', '"number"'),
        ('"cpu"', '"abacus"'),
    ],
)
def test_json_of_a_damaged_graph_is_refused(whole: str, damaged: str) -> None:
    text = example().to_json()
    assert whole in text
    with pytest.raises(ValueError, match=r"^the text must hold a "):
        GraphTrace.from_json(text.replace(whole, damaged, 1))


def test_text_that_is_no_json_is_refused_as_python_does() -> None:
    with pytest.raises(
        json.JSONDecodeError, match=r"^the text must be JSON .* not a path or any.*: Ex"
    ):
        GraphTrace.from_json("nodes")


def test_a_nest_too_deep_for_json_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^the text must be JSON .*: it is a nest too deep"):
        GraphTrace.from_json("[" * 1_000_000)


def test_what_is_no_text_is_refused() -> None:
    wrong: Any = PurePosixPath("graph.json")
    with pytest.raises(TypeError, match=r"^the text must be JSON .* not PurePosixPath$"):
        GraphTrace.from_json(wrong)
