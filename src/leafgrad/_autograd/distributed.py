"""Read parameters and tensors that `torch.distributed` splits or copies across processes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import Node

from leafgrad._autograd.node import forward_class
from leafgrad._autograd.tensor import shape


def spread(tensor: torch.Tensor) -> dict[str, Any]:
    """Return the `local_shape`, `placements` and `mesh` of a DTensor; an empty dict otherwise.

    The keys are those of `TensorDescription`.
    """
    if not issubclass(type(tensor), _loaded("torch.distributed.tensor", "DTensor", ())):
        return {}
    distributed: Any = tensor
    mesh = distributed.device_mesh
    names = [f"{name}=" for name in mesh.mesh_dim_names or ()] or [""] * mesh.ndim
    sizes = [f"{name}{mesh.size(dim)}" for dim, name in enumerate(names)]
    return {
        "local_shape": shape(distributed._local_tensor),
        "placements": tuple(map(repr, distributed.placements)),
        "mesh": f"{' x '.join(sizes)} on {mesh.device_type}",
    }


def handles_dtensor(node: Node) -> bool:
    """Return whether the node converts a tensor to or from a DTensor, or redistributes one.

    These nodes pass the gradient on with the same placements that their input had.
    """
    return getattr(forward_class(node), "__module__", None) in _OF_DTENSOR


_OF_DTENSOR = {"torch.distributed.tensor._api", "torch.distributed.tensor._redistribute"}


class Sharded(NamedTuple):
    """A parameter that `fully_shard` (FSDP2) splits across processes.

    Attributes:
        parameter: The shard that the module holds between passes. Its gradient is stored here.
        whole: The unsharded parameter, which is the leaf in the graph.
        fills_unused: Whether FSDP uses zeros as the gradient of an unused parameter.
    """

    parameter: torch.Tensor
    whole: torch.Tensor
    fills_unused: bool


def sharded_parameters() -> Iterator[Sharded]:
    """Yield each FSDP2 parameter that has been unsharded at least once."""
    states = _loaded("torch.distributed._composable_state", "_module_state_mapping", {})
    for state in dict.fromkeys(reference() for reference in [*states.values()]):
        groups = getattr(state, "_fsdp_param_groups", [getattr(state, "_fsdp_param_group", None)])
        for group in groups:
            for one in getattr(group, "fsdp_params", ()):
                if hasattr(one, "_unsharded_param"):
                    yield Sharded(
                        one.sharded_param,
                        one._unsharded_param,
                        getattr(group, "reduce_scatter_unused_params", False),
                    )


def replicated_parameters(nodes: Iterable[Node]) -> Iterator[torch.Tensor]:
    """Yield the parameters that receive a gradient if any other process computes one for them.

    These are the parameters of `DistributedDataParallel` models with
    ``find_unused_parameters=True``. `nodes` are the nodes of a graph that such a model may have
    recorded.
    """
    for model in _replicated(nodes):
        if model.process_group.size() > 1:
            yield from model.parameters()


@contextmanager
def postpone_static_graph_setup(nodes: Iterable[Node]) -> Iterator[None]:
    """Run one backward pass without setting up the gradient averaging of a static graph.

    The first backward pass through a `DistributedDataParallel` model with ``static_graph=True``
    sets up the averaging, even if it fills no gradient. No later pass would then average anything.
    """
    waiting = [model for model in _replicated(nodes) if not getattr(model, _REDUCED, True)]
    for model in waiting:
        setattr(model, _REDUCED, True)
    try:
        yield
    finally:
        for model in waiting:
            setattr(model, _REDUCED, False)


def _replicated(nodes: Iterable[Node]) -> Iterator[Any]:
    """Yield the `DistributedDataParallel` models whose output nodes are in a graph."""
    for node in nodes:
        if forward_class(node) is _SINK:
            sink: Any = node
            model = sink.ddp_weakref()
            if model is not None:
                yield model


_SINK: Any = torch.nn.parallel.distributed._DDPSink
_REDUCED = "_static_graph_delay_allreduce_enqueued"


def _loaded(module: str, name: str, otherwise: Any) -> Any:
    """Return an attribute of a module if the module is already imported, else `otherwise`."""
    return getattr(sys.modules.get(module), name, otherwise)
