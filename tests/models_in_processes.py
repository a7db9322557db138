"""Models that train in two processes: the reports in each, compared with the backward pass.

Run as a program, it writes the results of each process to a folder.
"""

import gc
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch._C._distributed_c10d import FileStore
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.multiprocessing.spawn import start_processes
from torch.nn.parallel import DistributedDataParallel

from leafgrad import describe_tensor, diagnose, record, trace_graph
from tests.diagnosis.programs import FAILING
from tests.messages import CODES

COUNT = 2


class Case(NamedTuple):
    """A model, a function that computes its loss, and the context in which both passes run."""

    model: nn.Module
    loss: Callable[[], Tensor]
    around: Callable[[], AbstractContextManager[Any]] = nullcontext


CASES: dict[str, Callable[[int, DeviceMesh], Case]] = {}


def case(make: Callable[[int, DeviceMesh], Case]) -> Callable[[int, DeviceMesh], Case]:
    CASES[make.__name__] = make
    return make


# --- Diagnosis of a model, compared with backward


def told_of(make: Callable[[], Case]) -> dict[str, Any]:
    """Collect the reports on a model, run its backward pass, and compare. Then do another step."""
    made = make()
    undisturbed = [gradients(made), gradients(made)]
    made = make()
    with made.around(), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with record(values=True) as recording:
            loss = made.loss()
        warned.clear()  # the parameters of the model
        model, known = made.model, dict(made.model.named_parameters())
        described = {name: describe_tensor(tensor) for name, tensor in known.items()}
        trace = trace_graph(
            loss,
            names=model,
            recording=recording,
            values=True,
            gradients=True,
            grad_outputs=torch.ones_like(loss),
        )
        report = diagnose(loss, model, recording=recording)
        nan = diagnose(loss, model, recording=recording, gradients=True)
        said = [str(one.message) for one in warned]
        loss.backward()
    filled = {name for name, one in model.named_parameters() if one.grad is not None}
    first = {name: here(one.grad) for name, one in model.named_parameters()}
    model.zero_grad()
    codes = {name: one.code for one in report if one.code in CODES for name in one.subject}
    return {
        "leaves": sorted(", ".join(leaf.tensor_names) for leaf in trace.leaves),
        "modules": sorted({node.module for node in trace.nodes if node.module}),
        "classes": sorted({str(facts.subclass) for facts in described.values()}),
        "parts": {name: facts.local_shape for name, facts in described.items()},
        "codes": codes,
        "false": sorted(filled & codes.keys()),
        "fatal": [one for one in report.codes if one in FAILING],
        "nan": [one.code for one in nan if one.code.startswith("nan")],
        "bytes": trace.memory.total.storage_bytes,
        "counted bytes": local_bytes(make()),
        "hidden": trace.memory.total.hidden,
        "unlike": [
            name
            for before, now in zip(undisturbed, (first, gradients(made)), strict=True)
            for name, one in before.items()
            if not alike(one, now[name])
        ],
        "warnings": said,
    }


def gradients(made: Case) -> dict[str, Tensor | None]:
    """Return the gradients of a step of the case `made`, as this process sees them.

    The gradients are cleared afterwards.
    """
    with made.around():
        made.loss().backward()
    found = {name: here(one.grad) for name, one in made.model.named_parameters()}
    made.model.zero_grad()
    return found


def here(gradient: Tensor | None) -> Tensor | None:
    """Return a copy of the part of a tensor that is in this process."""
    if isinstance(gradient, DTensor):
        gradient = gradient.to_local()
    return None if gradient is None else gradient.detach().clone()


def alike(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)


def local_bytes(made: Case) -> int:
    """Return the bytes that the graph of a step saves in this process, counted by hooks.

    `made` is the case that the step belongs to.
    """
    storages = []

    def pack(tensor: Tensor) -> Tensor:
        with torch.no_grad():
            part = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        storages.append(part.untyped_storage())
        return tensor

    with made.around(), saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = made.loss()
    counted = sum({one._cdata: one.nbytes() for one in storages}.values())
    loss.backward()
    return counted


# --- The models


class TwoHeads(nn.Module):
    """Computes two heads; a loss may use only one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.idle = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.used(x), self.idle(x)


class OneOfTwo(TwoHeads):
    """Uses the second head in one process only, and a third layer in none."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.never = nn.Linear(4, 4)
        self.rank = rank

    def forward(self, x: Tensor) -> Any:
        return self.used(x) + (self.idle(x) if self.rank else 0.0)


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))


def batch(rank: int) -> Tensor:
    return torch.arange(8.0).reshape(2, 4) / 10 + rank


@case
def replicated(rank: int, _: DeviceMesh) -> Case:
    model = DistributedDataParallel(layers())
    return Case(model, lambda: model(batch(rank)).square().sum())


@case
def replicated_with_an_idle_head(rank: int, _: DeviceMesh) -> Case:
    model = DistributedDataParallel(TwoHeads(), find_unused_parameters=True)
    return Case(model, lambda: model(batch(rank))[0].square().sum())


@case
def replicated_with_another_head_in_each(rank: int, _: DeviceMesh) -> Case:
    model = DistributedDataParallel(OneOfTwo(rank), find_unused_parameters=True)
    return Case(model, lambda: model(batch(rank)).square().sum())


@case
def replicated_with_a_static_graph(rank: int, _: DeviceMesh) -> Case:
    model = DistributedDataParallel(layers(), static_graph=True)
    return Case(model, lambda: model(batch(rank)).square().sum())


@case
def replicated_and_divided_by_zero(rank: int, _: DeviceMesh) -> Case:
    model = DistributedDataParallel(layers())
    return Case(model, lambda: model(batch(rank)).square().sum() / torch.zeros(()))


def _sharded(rank: int, mesh: DeviceMesh, *, reshards: bool) -> Case:
    model: nn.Sequential = layers()
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=mesh, reshard_after_forward=reshards)
    return Case(model, lambda: model(batch(rank)).square().sum())


@case
def sharded_anew_after_forward(rank: int, mesh: DeviceMesh) -> Case:
    return _sharded(rank, mesh, reshards=True)


@case
def sharded_anew_after_backward(rank: int, mesh: DeviceMesh) -> Case:
    return _sharded(rank, mesh, reshards=False)


@case
def sharded_with_an_idle_head(rank: int, mesh: DeviceMesh) -> Case:
    heads = TwoHeads()
    model = nn.Sequential(nn.Linear(4, 4), heads)
    for part in (model[0], heads.used, heads.idle, model):
        fully_shard(part, mesh=mesh, reshard_after_forward=True)
    return Case(model, lambda: model(batch(rank))[0].square().sum())


@case
def sharded_without_synchronising(rank: int, mesh: DeviceMesh) -> Case:
    made = _sharded(rank, mesh, reshards=True)
    model: Any = made.model

    @contextmanager
    def held_back() -> Iterator[None]:
        model.set_requires_gradient_sync(False)
        yield
        model.set_requires_gradient_sync(True)

    return made._replace(around=held_back)


@case
def parallel_in_its_tensors(_: int, mesh: DeviceMesh) -> Case:
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model = parallelize_module(layers(), mesh, plan)
    return Case(model, lambda: model(batch(0)).square().sum())


@case
def parallel_and_of_no_number(rank: int, mesh: DeviceMesh) -> Case:
    made = parallel_in_its_tensors(rank, mesh)
    return made._replace(loss=lambda: torch.sqrt(made.loss() * 0.0))


@case
def parallel_in_two_ways(_: int, __: DeviceMesh) -> Case:
    mesh = init_device_mesh("cpu", (1, COUNT), mesh_dim_names=("data", "model"))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model: Any = parallelize_module(layers(), mesh["model"], plan)
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=mesh["data"], reshard_after_forward=True)
    return Case(model, lambda: model(batch(0)).square().sum())


# --- The processes


def seeded(make: Callable[[int, DeviceMesh], Case], rank: int, mesh: DeviceMesh) -> Case:
    torch.manual_seed(0)
    return make(rank, mesh)


def run(rank: int, folder: str) -> None:
    """Compare all models in one of the processes."""
    warnings.simplefilter("ignore")
    distributed.init_process_group(
        "gloo",
        store=FileStore(str(Path(folder) / "store"), COUNT),
        rank=rank,
        world_size=COUNT,
        timeout=timedelta(seconds=60),
    )
    mesh = init_device_mesh("cpu", (COUNT,), mesh_dim_names=("ranks",))
    told: dict[str, Any] = {}
    for name, make in CASES.items():
        try:
            told[name] = told_of(partial(seeded, make, rank, mesh))
        except Exception:  # noqa: BLE001 (it is told, and the next model gets its turn)
            told[name] = {"error": traceback.format_exc()}
    (Path(folder) / f"{rank}.json").write_text(json.dumps(told), "utf-8")
    distributed.destroy_process_group()


if __name__ == "__main__":
    import_module("torch._dynamo")  # wrapping a model in one process would do it too
    gc.freeze()  # children do not collect inherited objects
    start_processes(run, (sys.argv[1],), nprocs=COUNT, start_method=sys.argv[2])
