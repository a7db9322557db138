"""The models and optimizers of a running program, found through the garbage collector."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.optim import Optimizer

from leafgrad import _autograd
from leafgrad._arguments.names import named_modules, named_tensors
from leafgrad._arguments.outputs import gradient_edges
from leafgrad._diagnosis.checks.gradient.unregistered import held_leaves
from leafgrad._diagnosis.situation import living, parameters_of
from leafgrad._record.module_paths import join
from leafgrad._record.place import is_library_file


class Trained(NamedTuple):
    """The model and the optimizers that a loss should train.

    Attributes:
        model: Modules, or parameters by name.
        optimizers: The optimizers with a parameter that the loss reaches; all if there is none.
        idle: The other optimizers.
        whole: The model, including parameters that only idle optimizers hold.
    """

    model: Any
    optimizers: list[Optimizer]
    idle: list[Optimizer]
    whole: Any


def trained_by(
    loss: Iterable[Tensor], model: Any = None, optimizers: Iterable[Optimizer] = ()
) -> Trained:
    """Return the model and the optimizers that a loss should train.

    If there are several optimizers, as in a GAN, only optimizers whose parameters the loss reaches
    count. A model or optimizers that are not passed are searched in memory.
    """
    optimizers = [*(optimizers or living(Optimizer))]
    with _autograd.unobserved():
        graph = _autograd.walk([node for node, _ in gradient_edges([*loss])])
        leaves = [leaf for leaf in map(_autograd.leaf_variable, graph) if leaf is not None]
        reached = {*map(id, leaves)}
        used = [one for one in optimizers if not reached.isdisjoint(parameters_of([one]))]
        held, trained = parameters_of(optimizers).keys(), parameters_of(used or optimizers).keys()
        if model is None:
            hidden = {id(one) for one, _, _ in held_leaves(named_modules(_models_with({*held})))}
            model = _models_with(held | (reached - hidden))
            others = [one for one in leaves if id(one) not in hidden]
            model = _with_loose(model, parameters_of(optimizers), others) or None
        idle = [one for one in optimizers if used and one not in used]
        return Trained(
            _without(model, held - trained) if idle else model,
            used or optimizers,
            idle,
            model,
        )


def _without(model: Any, idle: set[int]) -> Any:
    """Return a model without the parameters whose ids are in `idle`.

    A module without such parameters is kept as it is. Any other module is replaced by the rest of
    its parameters that require grad.
    """
    kept: dict[str, Any] = {}
    for name, one in model.items() if isinstance(model, Mapping) else [("", model)]:
        named = dict(named_tensors({name: one} if isinstance(one, Tensor) else one))
        if idle.isdisjoint(map(id, named.values())):
            kept[name] = one
        else:
            left = ((path, one) for path, one in named.items() if id(one) not in idle)
            kept.update((join(name, path), one) for path, one in left if one.requires_grad)
    return kept[""] if [*kept] == [""] else kept or None


def named_gradients(model: Any, optimizer: Optimizer | None) -> dict[str, Tensor | None]:
    """Return the gradient of each parameter of an optimizer, or None, by parameter name.

    The names are those in `model`; without one, find the modules that contain the parameters.
    """
    held = parameters_of([optimizer] if optimizer else [])
    model = model if model is not None else _models_with({*held})
    with _autograd.unobserved():
        return {name: one.grad for name, one in named_tensors(model) if id(one) in held}


def _models_with(wanted: set[int]) -> nn.Module | Mapping[str, nn.Module]:
    """Return the outermost modules that contain parameters with the ids in `wanted`, by name.

    If there is only one, return the module itself.
    """
    holders = {
        id(one): one
        for one in living(nn.Module)
        if any(id(parameter) in wanted for parameter in one.parameters())
    }
    inner = {id(child) for one in holders.values() for child in [*one.modules()][1:]}
    outermost = [one for key, one in holders.items() if key not in inner]
    if len(outermost) == 1:
        return outermost[0]
    names = _variables_of(outermost)
    return {names.get(id(one), f"module_{number}"): one for number, one in enumerate(outermost)}


def _with_loose(model: Any, held: Mapping[int, Tensor], leaves: Iterable[Tensor]) -> Any:
    """Return a model extended by the trained tensors outside of modules, by variable name.

    These are the tensors that optimizers hold (`held`), the parameters among the `leaves` of the
    loss, and tensors in the same list or dict as one of these.
    """
    known = {id(one) for _, one in named_tensors(model)}
    loose = {id(one): one for one in (*leaves, *held.values()) if id(one) not in known}
    names = _variables_of(loose.values())
    sure = {one for one in names if one in held or isinstance(loose[one], nn.Parameter)}
    holders = {names[one].rpartition("[")[0] for one in sure} - {""}
    found = {
        name: loose[one]
        for one, name in names.items()
        if one in sure or name.rpartition("[")[0] in holders
    }
    if found and isinstance(model, nn.Module):
        model = {_variables_of([model]).get(id(model), "model"): model}
    return {**model, **found} if found else model


def _variables_of(wanted: Iterable[object]) -> dict[int, str]:
    """Return the variable name of each wanted object, as in ``layers[0]``, by the object's id.

    The names are those of variables in the functions that are running.
    """
    wanted = {*map(id, wanted)}
    named = sorted(
        ((name, id(value)) for name, value in _variables() if id(value) in wanted),
        key=lambda pair: {".", "["}.isdisjoint(pair[0]),  # a local name may be a loop variable
    )
    return {one: name.removeprefix("self.") for name, one in reversed(named) if name != "self"}


def _variables() -> Iterator[tuple[str, object]]:
    """Yield the variables of the running functions with their names, down to ``self.layers[0]``."""
    frame = inspect.currentframe()
    while frame is not None:
        if not is_library_file[frame.f_code.co_filename]:
            first = [*frame.f_locals.items()]
            second = [inner for pair in first for inner in _inside(*pair)]
            yield from (*first, *second, *(inner for pair in second for inner in _inside(*pair)))
        frame = frame.f_back


_MOST_ITEMS = 100


def _inside(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the items or attributes of `value`, each with its expression in Python.

    `name` is the expression of `value` itself.
    """
    if isinstance(value, list | tuple) and len(value) < _MOST_ITEMS:
        yield from ((f"{name}[{place}]", one) for place, one in enumerate(value))
    elif isinstance(value, dict) and len(value) < _MOST_ITEMS:
        yield from ((f"{name}[{key!r}]", one) for key, one in [*value.items()])
    elif not isinstance(value, Tensor | nn.Module | type | ModuleType | FunctionType):
        yield from ((f"{name}.{key}", one) for key, one in getattr(value, "__dict__", {}).items())
