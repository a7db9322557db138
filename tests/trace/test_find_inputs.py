"""`GraphTrace.inputs`: tensors without a gradient that the graph uses."""

import gc
import pickle
import weakref
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from leafgrad import GraphTrace, record, trace_graph
from leafgrad.types import TracedInput

Facts = tuple[str | None, tuple[int | str, ...]]


def facts(trace: GraphTrace) -> list[Facts]:
    """Return the name and the shape of each input."""
    return [(given.name, given.shape) for given in trace.inputs]


def at(trace: GraphTrace, given: TracedInput) -> list[tuple[str, str]]:
    """Return the operations that use the input `given`, each with the argument."""
    return [(trace.nodes[use.node].name, use.argument) for use in given.uses]


def classifier() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(16, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(), nn.Linear(4, 3)
    )


IMAGES, LABELS = torch.ones(2, 1, 4, 4), torch.tensor([0, 2])


def test_named_data_and_target_are_found() -> None:
    loss = F.cross_entropy(classifier()(IMAGES), LABELS)
    assert trace_graph(loss).inputs == ()
    trace = trace_graph(loss, names={"images": IMAGES, "labels": LABELS})
    images, labels = trace.inputs
    assert (images.name, images.shape, images.dtype) == ("images", (2, 1, 4, 4), torch.float32)
    assert (labels.name, labels.shape, labels.dtype) == ("labels", (2,), torch.int64)
    assert images.device == labels.device == torch.device("cpu")
    assert at(trace, images) == [("AddmmBackward0", "mat1")]
    assert at(trace, labels) == [("NllLossBackward0", "target")]


def test_input_is_named_by_names_or_by_argument() -> None:
    model = classifier()
    with record() as recording:
        loss = nn.CrossEntropyLoss()(model(IMAGES), target=LABELS)
    assert facts(trace_graph(loss, recording=recording)) == [
        ("input", (2, 1, 4, 4)),
        ("target", (2,)),
    ]
    named = trace_graph(loss, names={"model": model, "images": IMAGES}, recording=recording)
    assert facts(named) == [("images", (2, 1, 4, 4)), ("target", (2,))]


class Conditioned(nn.Module):
    """A model with a list and a keyword-only tensor as arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, parts: list[Tensor], *rest: Tensor, scale: Tensor) -> Tensor:
        result: Tensor = self.linear(parts[0]) * rest[0] * scale
        return result


def test_inputs_in_nested_arguments_have_argument_names() -> None:
    model, x, factor, scale = Conditioned(), torch.ones(1, 2), torch.ones(2), torch.ones(1, 2)
    with record() as recording:
        y = model([x], factor, scale=scale)
    assert facts(trace_graph(y, recording=recording)) == [
        ("parts", (1, 2)),
        ("rest", (2,)),
        ("scale", (1, 2)),
    ]


def test_frozen_parameters_buffers_and_constants_are_not_inputs() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(2))
            self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
            self.scale = nn.Buffer(torch.ones(2))

        def forward(self) -> Tensor:
            result: Tensor = self.w * self.frozen + self.w * self.scale + 2 * self.w
            return result

    model = Scaled()
    with record() as recording:
        y = model()
    assert trace_graph(y, names=model).inputs == ()
    assert trace_graph(y, recording=recording).inputs == ()


def test_input_used_in_parts_is_listed_once() -> None:
    cell, x, h = nn.RNNCell(2, 2), torch.ones(3, 1, 2), torch.zeros(1, 2)
    for step in x:
        h = cell(step, h)
    (given,) = trace_graph(h, names={"x": x}).inputs
    assert (given.name, given.shape, len(given.uses)) == ("x", (3, 1, 2), 3)


def test_input_that_no_node_saved_is_not_found() -> None:
    model, x = nn.Linear(2, 2), torch.ones(1, 2)
    y = model(x).sum()
    assert len(trace_graph(y, names={"x": x}).inputs) == 1
    assert trace_graph(y, names={"x": x}, saved=False).inputs == ()
    y.backward()
    assert trace_graph(y, names={"x": x}).inputs == ()  # freed
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda _: pytest.fail("it ran")):
        assert trace_graph(model(x), names={"x": x}).inputs == ()


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, w: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(w, x)
        return w * x

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * ctx.saved_tensors[1], None


def test_named_input_of_custom_function_is_found() -> None:
    function: Any = Product
    w, x = nn.Parameter(torch.ones(2)), torch.ones(2)
    y = function.apply(w, x)
    assert trace_graph(y).inputs == ()
    trace = trace_graph(y, names={"w": w, "x": x})
    assert facts(trace) == [("x", (2,))]
    assert at(trace, trace.inputs[0]) == [("ProductBackward", "saved_tensors[1]")]


def test_alias_of_tensor_with_gradient_is_not_an_input() -> None:
    function: Any = Product
    w = nn.Parameter(torch.ones(2))
    hidden = w * 2
    y = function.apply(hidden, torch.ones(2))
    assert trace_graph(y, names={"copy": hidden.detach()}).inputs == ()


def test_inputs_keep_no_tensor_and_survive_pickle() -> None:
    model, x = nn.Linear(2, 2), torch.ones(1, 2)
    with record() as recording:
        y = model(x)
    trace = trace_graph(y, recording=recording)
    gone = weakref.ref(x)
    assert pickle.loads(pickle.dumps(trace)) == trace
    del x, y
    gc.collect()
    assert gone() is None
