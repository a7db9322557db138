"""The models and optimizers of a running program, found by the garbage collector."""

import gc
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.optim import Optimizer

from leafgrad import _autograd
from leafgrad._arguments.names import named_tensors
from leafgrad._arguments.outputs import gradient_edges
from leafgrad._record.place import is_library_file

Kind = TypeVar("Kind")


def living(kind: type[Kind]) -> list[Kind]:
    """Return all living objects of a class."""
    return [one for one in gc.get_objects() if issubclass(type(one), kind)]


def parameters_of(optimizers: Iterable[Optimizer]) -> dict[int, Tensor]:
    """Return the parameters that some optimizers hold, by their identities."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    return {id(one): one for group in groups for one in group["params"]}


def trained_by(
    loss: Iterable[Tensor], model: Any = None, optimizers: Iterable[Optimizer] = ()
) -> tuple[Any, list[Optimizer]]:
    """Return which parameters a backward pass should reach, by name, and who will change them.

    Of several optimizers, as those of a generator and a discriminator, only those count that hold
    a parameter which the loss reaches. Objects that were not passed are searched for.
    """
    optimizers = [*(optimizers or living(Optimizer))]
    with _autograd.unobserved():
        graph = _autograd.walk([node for node, _ in gradient_edges([*loss])])
        reached = {id(leaf) for leaf in map(_autograd.leaf_variable, graph) if leaf is not None}
        used = [one for one in optimizers if not reached.isdisjoint(parameters_of([one]))]
        trained = parameters_of(used or optimizers)
        if model is None:
            model = _models_with({*trained} | reached)
        idle = parameters_of(optimizers).keys() - trained.keys()
        if not idle.isdisjoint(id(one) for _, one in named_tensors(model)):
            named = named_tensors(model)
            model = {name: one for name, one in named if one.requires_grad and id(one) not in idle}
    return model or None, used or optimizers


def finite_gradients(model: Any, optimizer: Optimizer | None) -> dict[str, bool]:
    """Return for each parameter of an optimizer, by name, whether its gradient is finite."""
    held = parameters_of([optimizer] if optimizer else [])
    model = model if model is not None else _models_with({*held})
    with _autograd.unobserved():
        return {
            name: one.grad is None or bool(one.grad.isfinite().all())
            for name, one in named_tensors(model)
            if id(one) in held
        }


def _models_with(wanted: set[int]) -> nn.Module | Mapping[str, nn.Module]:
    """Return the outermost modules that have some of these parameters, under their names."""
    holders = {
        id(one): one
        for one in living(nn.Module)
        if any(id(parameter) in wanted for parameter in one.parameters())
    }
    inner = {id(child) for one in holders.values() for child in [*one.modules()][1:]}
    outermost = [one for key, one in holders.items() if key not in inner]
    if len(outermost) == 1:
        return outermost[0]
    return {_variable_of(one) or f"module_{number}": one for number, one in enumerate(outermost)}


def _variable_of(wanted: object) -> str | None:
    """Return the variable of the running functions that holds an object."""
    frame = inspect.currentframe()
    while frame is not None:
        if not is_library_file[frame.f_code.co_filename]:
            for name, value in [*frame.f_locals.items()]:
                if value is wanted and name != "self":
                    return name
        frame = frame.f_back
    return None
