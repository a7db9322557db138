"""What modules are called where several were called, or only parts of one."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import GraphTrace, diagnose, record, trace_graph


def small(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = small(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layers(x)
        return result


class Decoder(Encoder):
    """Has another name when it is called."""


class Whole(nn.Module):
    """Is trained as with Lightning: its parts are called, but never the module itself."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()
        self.loss = nn.MSELoss()

    def training_step(self, x: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.loss(self.decoder(self.encoder(x)), x)
        return loss


def modules_of(trace: GraphTrace) -> list[str | None]:
    return [n.module for n in trace.nodes if not n.is_leaf and not n.name.startswith("TB")]


def owners(trace: GraphTrace) -> set[str | None]:
    return {leaf.module for leaf in trace.leaves}


def adversaries() -> tuple[nn.Sequential, nn.Sequential, Any, torch.Tensor]:
    generator, discriminator = small(3), small(5)
    with record() as recording:
        loss = discriminator(generator(torch.ones(1, 2))).mean()
    return generator, discriminator, recording, loss


ADVERSARIES = [None, "D.2", "D.1", "D.0", "G.2", "G.1", "G.0"]


@pytest.mark.parametrize("named", [nn.ModuleDict, dict])
def test_modules_called_separately_have_separate_names(
    named: Callable[[Mapping[str, nn.Module]], Any],
) -> None:
    generator, discriminator, recording, loss = adversaries()
    both = named({"G": generator, "D": discriminator})
    trace = trace_graph(loss, names=both, recording=recording)
    assert modules_of(trace) == ADVERSARIES
    assert owners(trace) == {"G.0", "G.2", "D.0", "D.2"}


def test_memory_of_modules_with_equal_path_is_not_merged() -> None:
    generator, discriminator, recording, loss = adversaries()
    both = nn.ModuleDict({"G": generator, "D": discriminator})
    seen = trace_graph(loss, names=both, recording=recording).memory.modules
    inferred = trace_graph(loss, names=both).memory.modules
    linear = {"G.0", "G.2", "D.0", "D.2"}
    shares = [{one for one in each if one.name in linear} for each in (seen, inferred)]
    assert shares[0] == shares[1]
    assert {one.name for one in shares[0]} == linear


def test_modules_without_names_are_numbered_by_class() -> None:
    _, _, recording, loss = adversaries()
    assert modules_of(trace_graph(loss, recording=recording)) == [
        None,
        "Sequential-2.2",
        "Sequential-2.1",
        "Sequential-2.0",
        "Sequential.2",
        "Sequential.1",
        "Sequential.0",
    ]
    assert recording.modules[::4] == ("Sequential", "Sequential-2")


def test_module_missing_in_names_is_named_by_its_class() -> None:
    _, discriminator, recording, loss = adversaries()
    trace = trace_graph(loss, names=discriminator, recording=recording)
    beside = ["Sequential.2", "Sequential.1", "Sequential.0"]
    assert modules_of(trace) == [None, "2", "1", "0", *beside]
    assert owners(trace) == {"0", "2", None}


def test_directly_called_parts_have_paths_of_the_whole_model() -> None:
    whole = Whole()
    with record() as recording:
        loss = whole.training_step(torch.ones(1, 2))
    trace = trace_graph(loss, names=whole, recording=recording)
    assert modules_of(trace) == [
        "loss",
        "decoder.layers.2",
        "decoder.layers.1",
        "decoder.layers.0",
        "encoder.layers.2",
        "encoder.layers.1",
        "encoder.layers.0",
    ]


def test_loss_module_is_not_mistaken_for_the_model() -> None:
    model, loss = small(3), nn.MSELoss()
    with record() as recording:
        y = loss(model(torch.ones(1, 2)), torch.ones(1, 2))
    assert modules_of(trace_graph(y, recording=recording)) == ["MSELoss", "2", "1", "0"]
    assert modules_of(trace_graph(y, names=model, recording=recording)) == [
        "MSELoss",
        "2",
        "1",
        "0",
    ]


def test_submodule_can_be_passed_as_names() -> None:
    whole = nn.Sequential(Encoder(), nn.Tanh())
    with record() as recording:
        y = whole(torch.ones(1, 2))
    part = whole[0]
    assert modules_of(trace_graph(y, names=part, recording=recording)) == [
        "Sequential.1",
        "layers.2",
        "layers.1",
        "layers.0",
    ]


def test_repeated_calls_of_module_share_its_path() -> None:
    model = small(3)
    with record() as recording:
        y = model(model(torch.ones(1, 2)))
    assert modules_of(trace_graph(y, recording=recording)) == ["2", "1", "0"] * 2
    assert recording.modules == ("", "0", "1", "2")


def test_shared_module_has_its_first_path_under_every_parent() -> None:
    shared = nn.Linear(2, 2)
    model = nn.ModuleDict({"a": nn.Sequential(shared), "b": nn.Sequential(shared, nn.Tanh())})
    with record() as recording:
        y = model["b"](model["a"](torch.ones(1, 2)))
    trace = trace_graph(y, names=model, recording=recording)
    assert modules_of(trace) == ["b.1", "a.0", "a.0"]
    assert owners(trace) == {"a.0"}


def test_module_created_in_forward_is_named_by_caller_and_class() -> None:
    class Making(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = nn.Sequential(nn.Tanh())(x).sin()
            return result

    whole = nn.ModuleDict({"making": Making()})
    with record() as recording:
        y = whole["making"](torch.ones(2, requires_grad=True))
    trace = trace_graph(y, names=whole, recording=recording)
    assert modules_of(trace) == ["making", "making.Sequential.Tanh"]


def test_mapping_can_contain_tensors_and_modules() -> None:
    model, x = small(3), torch.ones(1, 2, requires_grad=True)
    names: dict[str, torch.Tensor | nn.Module] = {"model": model, "x": x}
    trace = trace_graph(model(x).sum(), names=names)
    assert {leaf.leaf_name: leaf.module for leaf in trace.leaves if leaf.leaf_name == "x"} == {
        "x": None
    }
    assert owners(trace) == {"model.0", "model.2", None}
    assert set(modules_of(trace)) == {None, "model", "model.0", "model.2"}
    (found,) = diagnose(model(x).sum(), {**names, "idle": nn.Linear(2, 2)})
    assert found.subject == ("idle.weight", "idle.bias")


# --- Inferred modules


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(5, 2), nn.Linear(2, 5, bias=False)
        self.middle = nn.Linear(2, 2)
        self.head.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.middle(self.embedding(x)))
        return result


def test_use_of_tied_weight_is_not_assigned_to_one_module() -> None:
    model = Tied()
    trace = trace_graph(model(torch.tensor([1])), names=model)
    by_name = {node.name: node.module for node in trace.nodes if not node.is_leaf}
    assert by_name["EmbeddingBackward0"] == ""
    assert by_name["MmBackward0"] == ""
    assert by_name["AddmmBackward0"] == "middle"
    assert "embedding" in owners(trace)
    assert "head" not in owners(trace)


class Together(torch.autograd.Function):
    """Uses parameters of several modules at once, as compiled code does."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return x @ one @ other

    @staticmethod
    def backward(_: Any, *__: torch.Tensor) -> Any:
        raise NotImplementedError


def test_node_with_parameters_of_two_modules_belongs_to_their_parent() -> None:
    one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    model = nn.ModuleDict({"part": nn.ModuleList([one, other])})
    y: Any = Together.apply(torch.ones(1, 2), one.weight, other.weight)  # type: ignore[no-untyped-call]
    assert trace_graph(y, names=model).nodes[0].module == "part"
