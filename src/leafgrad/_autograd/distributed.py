"""Parameters and tensors that `torch.distributed` keeps in several processes."""

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
    """Return how a DTensor is spread over processes, empty for any other tensor."""
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
    """Return whether the node makes a DTensor, takes one apart, or spreads one in another way.

    Each hands on what arrives, spread as its input was.
    """
    return getattr(forward_class(node), "__module__", None) in _OF_DTENSOR


_OF_DTENSOR = {"torch.distributed.tensor._api", "torch.distributed.tensor._redistribute"}


class Sharded(NamedTuple):
    """A parameter of which `fully_shard` keeps a part in each process.

    Attributes:
        parameter: What the module has between two passes, and where the gradient is stored.
        whole: The leaf that stands for it in a graph, put together from all parts.
        fills_unused: Whether zeros stand in for its gradient where it is not used.
    """

    parameter: torch.Tensor
    whole: torch.Tensor
    fills_unused: bool


def sharded_parameters() -> Iterator[Sharded]:
    """Yield each parameter that `fully_shard` keeps in parts and that was put together before."""
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
    """Yield the parameters that get a gradient if any process has one for them.

    Those are the ones of a `DistributedDataParallel` that looks for unused parameters.
    """
    for model in _replicated(nodes):
        if model.process_group.size() > 1:
            yield from model.parameters()


@contextmanager
def reduction_put_off(nodes: Iterable[Node]) -> Iterator[None]:
    """Leave it to the next pass to average the gradients of a model with a static graph.

    The first pass through a `DistributedDataParallel` with ``static_graph=True`` sets that up, also
    one that fills no gradient, after which no other pass averages anything.
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
    """Yield the models that stand behind their outputs in a graph, as most leave no trace in it."""
    for node in nodes:
        if forward_class(node) is _SINK:
            sink: Any = node
            model = sink.ddp_weakref()
            if model is not None:
                yield model


_SINK: Any = torch.nn.parallel.distributed._DDPSink
_REDUCED = "_static_graph_delay_allreduce_enqueued"


def _loaded(module: str, name: str, otherwise: Any) -> Any:
    """Return what a module has if somebody has imported it, which takes a second."""
    return getattr(sys.modules.get(module), name, otherwise)
