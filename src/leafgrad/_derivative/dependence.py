"""Find the path through the graph from outputs to inputs, or explain why there is none."""

from collections.abc import Iterable, Iterator
from weakref import ref

from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd
from leafgrad._messages import message


def find_path(
    outputs: Tensor, inputs: Tensor, *, allow_unused: bool | None
) -> _autograd.Path | None:
    """Return the path through the graph between `outputs` and `inputs`.

    If there is no path, raise an error, or return None if `allow_unused` is True. Also return None
    if `outputs` is a derivative that is known to be constant. Callers without an option
    `allow_unused` pass None; then the error message does not mention the option.
    """
    if not (inputs.requires_grad and outputs.requires_grad):
        if inputs.requires_grad and _is_known_constant(outputs, inputs):
            return None
        key = "outputs-no-grad" if inputs.requires_grad else "inputs-no-grad"
        raise RuntimeError(message(f"derivative.graph.{key}"))
    path = _autograd.path_between(outputs, inputs)
    if path is not None:
        return path
    _check_view(outputs, inputs)
    if not allow_unused:
        key = "no-path" if allow_unused is None else "no-path-or-zeros"
        raise RuntimeError(message(f"derivative.graph.{key}", why=_why_apart(outputs, inputs)))
    return None


def _why_apart(outputs: Tensor, inputs: Tensor) -> str:
    """Return the likely reason why `outputs` does not depend on `inputs`, and what to do."""
    if _are_swapped(outputs, inputs):
        return message("derivative.graph.swapped-here")
    version = _autograd.version(inputs)
    if version and inputs.grad_fn is not None:
        return message("derivative.graph.changed", version=version)
    return message("derivative.graph.another")


def _are_swapped(outputs: Tensor, inputs: Tensor) -> bool:
    return _autograd.path_between(inputs, outputs) is not None


# Callers catch the error and then call this function. A context manager would be shorter, but it
# would add 1 % to the time of a first derivative.
def raise_if_apart(error: ValueError, outputs: Tensor, inputs: Tensor) -> None:
    """Raise a more helpful error than `error` if the user passed the wrong tensors.

    `error` says that shapes or orders do not match. The raised error says that outputs and inputs
    are swapped, or that `inputs` is only a view of the tensor that `outputs` depends on. Return if
    neither is the case.
    """
    if _autograd.path_between(outputs, inputs) is not None:
        return
    if _are_swapped(outputs, inputs):
        raise ValueError(message("derivative.graph.swapped", error=error)) from None
    _check_view(outputs, inputs)


def raise_if_freed(error: RuntimeError, nodes: Iterable[Node]) -> None:
    """If `error` says that the graph was freed, raise an error that names the freed node.

    Return if `error` has another reason or if no node in `nodes` was freed.
    """
    if _FREED not in str(error):
        return
    for node in nodes:  # If no node was freed, the error is about another graph.
        if any(slot.state == "freed" for slot in _autograd.saved_slots(node)):
            name = _autograd.node_name(node)
            refusal = message("derivative.graph.freed", node=name, error=error)
            raise RuntimeError(refusal) from error


_FREED = "backward through the graph a second time"


# Constant derivatives, by the tensor's id: the tensor, the inputs and the tensor's version counter.
_constants: dict[int, tuple[ref[Tensor], ref[Tensor], int | None]] = {}


def note_constant(derivative: Tensor, outputs: Tensor, inputs: Tensor) -> None:
    """Remember that `derivative`, a derivative of `outputs`, is constant, as long as it is alive.

    A constant derivative has no graph, just like a tensor computed under `no_grad`. This tells them
    apart. If `outputs` has no graph itself, nothing is stored unless it is a known constant too.
    """
    if outputs.requires_grad or _is_known_constant(outputs, inputs):
        key = id(derivative)
        noted = ref(derivative, lambda _: _constants.pop(key, None))
        _constants[key] = noted, ref(inputs), _autograd.version(derivative)


def _is_known_constant(outputs: Tensor, inputs: Tensor) -> bool:
    derivative, source, version = _constants.get(id(outputs), (None, None, None))
    if derivative is None or source is None or derivative() is not outputs:
        return False
    return source() is inputs and version == _autograd.version(outputs)


def _check_view(outputs: Tensor, inputs: Tensor) -> None:
    """Raise an error if `inputs` is a view of a tensor that `outputs` depends on.

    Without the error, the derivative would be zero, which would be misleading.
    """
    paths = ((source, _autograd.path_between(outputs, source)) for source in _sources(inputs))
    source = next((source for source, path in paths if path is not None), None)
    if source is None:
        return
    columns = columns_shown(inputs, source)
    if columns is None or len(columns) == source.shape[-1]:
        raise RuntimeError(message("derivative.graph.view"))
    key = "derivative.graph.column" if len(columns) == 1 else "derivative.graph.columns"
    words = {"shape": tuple(source.shape), "first": columns[0], "last": columns[-1]}
    raise RuntimeError(message(key, length=source.shape[-1], **words))


def _sources(view: Tensor) -> Iterator[Tensor]:
    """Yield the tensors that `view` may be a view of: its base, and leaves with the same memory."""
    base = _autograd.base(view)
    if base is None:
        return
    yield base
    graph = () if view.grad_fn is None else _autograd.walk([view.grad_fn])
    for leaf in map(_autograd.leaf_variable, graph):
        if leaf is not None and _autograd.storage(leaf) == _autograd.storage(base):
            yield leaf


def columns_shown(view: Tensor, source: Tensor) -> range | None:
    """Return the range of columns of `source` that `view` contains.

    Return None if `view` does not consist of successive columns of `source`.

    The shape of `source` is ``(*batch, columns)``. A view of several columns has the shape
    ``(*batch, some)``, and a view of a single column may have the shape ``batch``.
    """
    if source.dim() == 0:
        return None
    shown = view.unsqueeze(-1) if view.shape == source.shape[:-1] else view
    if shown.shape[:-1] != source.shape[:-1] or shown.stride()[:-1] != source.stride()[:-1]:
        return None
    width = shown.shape[-1]
    if width > 1 and shown.stride(-1) != source.stride(-1):
        return None
    first = (shown.storage_offset() - source.storage_offset()) // max(source.stride(-1), 1)
    return range(first, first + width)
