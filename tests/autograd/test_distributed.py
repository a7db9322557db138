"""Facts about `torch.distributed`, one test each."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from leafgrad import _autograd
from tests.apart import RunApart
from tests.several_processes import needs_distributed, one_of
from tests.tensors import node_of

pytestmark = needs_distributed


@pytest.fixture
def mesh() -> Iterator[Any]:
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415 (may lack)

    with one_of(2):
        yield init_device_mesh("cpu", (2,))


def sharded(mesh: Any) -> Any:
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415

    return fully_shard(nn.Linear(4, 2), mesh=mesh)


def told_of(parameters: list[torch.Tensor]) -> list[Any]:
    """Return the record of each of these parameters in `sharded_parameters`, None if it has none.

    Other records are ignored, because models of other tests may still be alive.
    """
    known = {id(one.parameter): one for one in _autograd.sharded_parameters()}
    return [known.get(id(one)) for one in parameters]


def test_sharded_parameter_is_found_through_its_gathered_leaf_in_the_graph(mesh: Any) -> None:
    model = sharded(mesh)
    parameters = [*model.parameters()]
    assert told_of(parameters) == [None, None]  # The parameter was never gathered.
    node = model(torch.ones(1, 4)).grad_fn
    leaves = [after.variable for after, _ in node.next_functions if hasattr(after, "variable")]
    found = told_of(parameters)
    assert {*map(id, leaves)} < {id(one.whole) for one in found}
    assert [one.fills_unused for one in found] == [False, False]


def test_replicated_parameters_are_found_only_with_find_unused_parameters(mesh: Any) -> None:
    del mesh
    for looks in (True, False):
        inner = nn.Linear(4, 2)
        model = nn.parallel.DistributedDataParallel(inner, find_unused_parameters=looks)
        output = model(torch.ones(1, 4))
        graph = _autograd.walk([output.grad_fn])
        found = [*map(id, _autograd.replicated_parameters(graph))]
        assert found == ([*map(id, inner.parameters())] if looks else [])


def test_deleted_replicated_model_is_ignored(mesh: Any) -> None:
    del mesh
    model: Any = nn.parallel.DistributedDataParallel(nn.Linear(4, 2), static_graph=True)
    graph = [*_autograd.walk([model(torch.ones(1, 4)).sum().grad_fn])]
    del model
    gc.collect()
    assert [*_autograd.replicated_parameters(graph)] == []
    with _autograd.postpone_static_graph_setup(graph):
        pass


def test_distributed_modules_are_not_imported_without_need(run_apart: RunApart) -> None:
    code = (
        "import sys, torch, leafgrad; leafgrad.trace_graph(torch.ones(2, requires_grad=True) * 2);"
        "leafgrad.describe_tensor(torch.ones(2));"
        "print('torch.distributed.tensor' in sys.modules, 'torch.distributed.fsdp' in sys.modules)"
    )
    run = run_apart(code)
    assert (run.returncode, run.stdout.split()) == (0, ["False", "False"])


def test_dtensor_nodes_are_recognised(mesh: Any) -> None:
    from torch.distributed.tensor import DTensor, Replicate, Shard  # noqa: PLC0415

    x = torch.ones(2, 4, requires_grad=True)
    made: Any = DTensor.from_local(x, mesh, [Shard(0)], run_check=False)
    result = (made.redistribute(mesh, [Replicate()]) * 2).to_local()
    kinds = {
        _autograd.node_name(node): _autograd.handles_dtensor(node)
        for node in _autograd.walk([node_of(result)])
    }
    assert kinds == {
        "_ToTorchTensorBackward": True,
        "MulBackward0": False,
        "RedistributeBackward": True,
        "_FromTorchTensorBackward": True,
        "AccumulateGrad": False,
    }


def test_static_graph_setup_is_postponed_to_the_next_pass(mesh: Any) -> None:
    del mesh
    model: Any = nn.parallel.DistributedDataParallel(nn.Linear(4, 2), static_graph=True)
    loss = model(torch.ones(1, 4)).sum()
    graph = [*_autograd.walk([loss.grad_fn])]
    with _autograd.postpone_static_graph_setup(graph):
        torch.autograd.grad(loss, model.module.weight, retain_graph=True)
    seen = [model._static_graph_delay_allreduce_enqueued]
    with pytest.raises(
        RuntimeError, match="the hook result"
    ):  # there is no other process to send it to
        torch.autograd.grad(loss, model.module.weight, retain_graph=True)
    seen.append(model._static_graph_delay_allreduce_enqueued)
    with _autograd.postpone_static_graph_setup(graph):
        pass
    seen.append(model._static_graph_delay_allreduce_enqueued)
    assert seen == [False, True, True]
