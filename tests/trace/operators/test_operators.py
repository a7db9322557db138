"""Traces of each operator of PyTorch match its graph and change nothing."""

import pickle
import warnings
import weakref
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import Node, get_gradient_edge, saved_tensors_hooks

from leafgrad import GraphTrace, describe_tensor, trace_graph
from leafgrad.types import SavedTensor
from tests.trace.operators.operators import LEFT_OUT, Sample, operators, samples_of

pytestmark = pytest.mark.sweep


@pytest.mark.parametrize("name", [name for name in operators() if name not in LEFT_OUT])
def test_trace_of_operator_matches_graph_and_changes_nothing(name: str) -> None:
    samples = [sample for sample in samples_of(operators()[name]) if sample.outputs()]
    assert samples, "no graph: name it in LEFT_OUT, with the reason"
    for sample in {kind(sample): sample for sample in reversed(samples)}.values():
        undisturbed = sample.gradients(sample.outputs())
        outputs = sample.outputs()
        before = state(sample, outputs)
        with warnings.catch_warnings(record=True, action="always") as given:
            trace = trace_graph(outputs)
            described = [describe_tensor(output) for output in outputs]
            text = str(trace)
            loaded = pickle.loads(pickle.dumps(trace))
        assert (state(sample, outputs), given) == (before, []), sample
        assert_same_graph(outputs, trace)
        assert_same_memory(sample, trace)
        assert [one.shape for one in described] == [tuple(output.shape) for output in outputs]
        assert max(map(len, text.splitlines())) <= 80
        assert loaded == trace
        assert are_same(sample.gradients(outputs), undisturbed), sample


@pytest.mark.parametrize("name", LEFT_OUT)
def test_operators_excluded_from_the_traces_have_no_graph(name: str) -> None:
    graphs: list[Tensor] = []
    with suppress(RuntimeError, ValueError):  # NotImplementedError is a RuntimeError
        graphs = [output for sample in samples_of(operators()[name]) for output in sample.outputs()]
    assert not graphs


def kind(sample: Sample) -> Any:
    """Return a key of everything that may matter to a trace, except sizes."""
    outputs = sample.outputs()
    nodes = list(dict.fromkeys(get_gradient_edge(output).node for output in outputs))
    for node in nodes:  # the loop appends to this list
        nodes += dict.fromkeys(n for n, _ in node.next_functions if n and n not in nodes)
    graph = tuple(
        (node.name(), tuple((n and nodes.index(n), nr) for n, nr in node.next_functions))
        for node in nodes
    )
    saved = tuple(
        (
            name,
            type(value),
            of(value) if isinstance(value, Tensor) else isinstance(value, tuple) and len(value),
        )
        for node in nodes
        for name in dir(node)
        if name.startswith("_saved_")
        for value in [getattr(node, name)]
    )
    return graph, saved, tuple(map(of, sample.inputs())), tuple(map(of, outputs))


def of(tensor: Tensor) -> Any:
    is_dense = tensor.layout is torch.strided
    layout = tensor.layout, is_dense and tensor.is_contiguous(), is_dense and tensor._is_view()
    return tensor.dtype, tensor.dim(), tensor.numel() == 0, layout


def state(sample: Sample, outputs: list[Tensor]) -> Any:
    """Return the state that only a computation may change."""
    tensors = [*sample.inputs(), *outputs]
    return (
        [tensor._version for tensor in tensors],
        [tensor.grad is not None for tensor in tensors if tensor.is_leaf],
        [tensor.retains_grad for tensor in tensors],
        torch._C._autograd._get_sequence_nr(),
        torch.get_rng_state().tolist(),
    )


def assert_same_graph(outputs: list[Tensor], trace: GraphTrace) -> None:
    """Check that PyTorch's nodes and the traced ones are equal, from the outputs on."""
    roots = list(dict.fromkeys(get_gradient_edge(output).node for output in outputs))
    assert len(roots) == len(trace.roots)
    places: dict[Node, int] = {}
    ahead = [(root, traced.index) for root, traced in zip(roots, trace.roots, strict=True)]
    while ahead:
        node, index = ahead.pop()
        if node in places:
            assert places[node] == index
            continue
        places[node] = index
        traced = trace.nodes[index]
        assert node.name() == traced.name or node.name().endswith(f"::{traced.name}")
        assert [edge.input_nr for edge in traced.edges] == [nr for _, nr in node.next_functions]
        for (successor, _), edge in zip(node.next_functions, traced.edges, strict=True):
            assert (successor is None) == (edge.target is None)
            if successor is not None and edge.target is not None:
                ahead.append((successor, edge.target))
    assert sorted(places.values()) == [node.index for node in trace.nodes]
    for output in outputs:
        node, number = get_gradient_edge(output)[:2]
        assert trace.nodes[places[node]].shapes[number] == tuple(output.shape)


class Packed:
    """A packed tensor, alive as long as the graph keeps it."""

    def __init__(self, tensor: Tensor) -> None:
        is_dense = tensor.layout is torch.strided
        nbytes = tensor.untyped_storage().nbytes() if is_dense else None
        self.facts: Any = tuple(tensor.shape), tensor.dtype, nbytes


def assert_same_memory(sample: Sample, trace: GraphTrace) -> None:
    """Compare the traced memory with the tensors that hooks see, and with those that are freed.

    Hooks do not see tensors that custom functions store themselves. Neither do they see numbers,
    which PyTorch converts to tensors without axes.
    """
    packed = weakref.WeakSet[Packed]()

    def pack(tensor: Tensor) -> Packed:
        packed.add(one := Packed(tensor))
        return one

    def refuse(_: Packed) -> Tensor:
        raise AssertionError("a hook was called")

    with saved_tensors_hooks(pack, refuse):
        outputs = sample.outputs()
    hooked = trace_graph(outputs)
    unseen = [saved for saved in hooked.saved if saved.state != "packed"]
    assert all(saved.is_on_ctx or saved.shape == () for saved in unseen)
    seen = Counter(one.facts for one in packed) + facts_of(unseen)
    shown, hides = facts_of(trace.saved), any(node.hides_saved for node in trace.nodes)
    assert shown <= seen if hides else shown == seen
    assert [node.name for node in hooked.nodes] == [node.name for node in trace.nodes]
    references = [weakref.ref(output) for output in outputs if not output.is_leaf]
    del outputs
    assert not packed
    assert [reference() for reference in references] == [None] * len(references)


def facts_of(slots: Iterable[SavedTensor]) -> Counter[Any]:
    return Counter((saved.shape, saved.dtype, saved.nbytes) for saved in slots)


def are_same(one: list[Tensor | None] | str, other: list[Tensor | None] | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return all(map(are_equal, one, other))


def are_equal(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    if one.layout is not torch.strided:
        one, other = one.to_dense(), other.to_dense()
    return torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)
