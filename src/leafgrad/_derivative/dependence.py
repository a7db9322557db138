"""How outputs hang on inputs: the path through the graph between them, or why there is none."""

from collections.abc import Iterable, Iterator
from weakref import ref

from torch import Tensor
from torch.autograd.graph import Node

from leafgrad import _autograd


def find_path(
    outputs: Tensor, inputs: Tensor, *, allow_unused: bool | None
) -> _autograd.Path | None:
    """Return the nodes between, or None where nothing leads to `inputs` and this is allowed.

    That `allow_unused` is None says that whoever asks cannot allow it.
    """
    if not (inputs.requires_grad and outputs.requires_grad):
        if inputs.requires_grad and _is_known_constant(outputs, inputs):
            return None
        raise RuntimeError(_lacking(inputs))
    path = _autograd.path_between(outputs, inputs)
    if path is not None:
        return path
    _check_view(outputs, inputs)
    if not allow_unused:
        cure = "" if allow_unused is None else ", or pass allow_unused=True for zeros"
        raise RuntimeError(
            "outputs must depend on inputs, but no path in its graph leads there"
            f"{_why_apart(outputs, inputs)}{cure}"
        )
    return None


def _why_apart(outputs: Tensor, inputs: Tensor) -> str:
    """Return why no path leads to `inputs`, as far as that shows, and what to do."""
    if _are_swapped(outputs, inputs):
        return f", but {_SWAPPED}"
    version = _autograd.version(inputs)
    if version and inputs.grad_fn is not None:
        return (
            f", and inputs was changed in place since it was made (version {version}), which makes "
            "it another tensor to the graph: compute outputs after that, or change a clone() of it"
        )
    return (
        ": compute outputs from this very tensor (a copy, or a slice taken later, is another one)"
    )


def _are_swapped(outputs: Tensor, inputs: Tensor) -> bool:
    return _autograd.path_between(inputs, outputs) is not None


_SWAPPED = "one leads the other way: pass the result first, then what it came from"


# These are called where an error is caught, as entering a context takes 1 % of a first derivative.
def raise_if_apart(error: ValueError, outputs: Tensor, inputs: Tensor) -> None:
    """Raise another error where shapes or orders do not fit since another tensor was meant.

    It is the result where the two are swapped, or the tensor that `inputs` is a view of.
    """
    if _autograd.path_between(outputs, inputs) is not None:
        return
    if _are_swapped(outputs, inputs):
        raise ValueError(f"outputs must depend on inputs, but {_SWAPPED} ({error})") from None
    _check_view(outputs, inputs)


def raise_if_freed(error: RuntimeError, nodes: Iterable[Node]) -> None:
    """Raise an error that names the node that was freed, where PyTorch says that one was."""
    if _FREED not in str(error):
        return
    for node in nodes:  # where none of them was, it is one of another graph
        if any(slot.state == "freed" for slot in _autograd.saved_slots(node)):
            raise RuntimeError(
                f"outputs must have a graph that is not freed, but {_autograd.node_name(node)} in "
                "it is, as a backward() or an autograd.grad() went through it before: pass "
                "retain_graph=True to that one, or compute outputs again (PyTorch says: "
                f"{error})"
            ) from error


_FREED = "backward through the graph a second time"


# Derivatives without a graph, by their identity: what they are derivatives in, and their version.
_constants: dict[int, tuple[ref[Tensor], ref[Tensor], int | None]] = {}


def note_constant(derivative: Tensor, inputs: Tensor) -> None:
    """Remember that a derivative was proven to be constant, as long as it lives.

    It has no graph, so that nothing else tells it from what was computed without one.
    """
    key = id(derivative)
    noted = ref(derivative, lambda _: _constants.pop(key, None))
    _constants[key] = noted, ref(inputs), _autograd.version(derivative)


def _is_known_constant(outputs: Tensor, inputs: Tensor) -> bool:
    derivative, source, version = _constants.get(id(outputs), (None, None, None))
    if derivative is None or source is None or derivative() is not outputs:
        return False
    return source() is inputs and version == _autograd.version(outputs)


def _lacking(inputs: Tensor) -> str:
    """Return why there is no graph, where inputs or else outputs does not require grad."""
    if not inputs.requires_grad:
        return (
            "inputs must require grad before outputs is computed from it, but does not: call "
            "inputs.requires_grad_() and compute outputs again, or pass a function as outputs"
        )
    return (
        "outputs must carry the graph that computed it from inputs, but requires no grad: it was "
        "computed in torch.no_grad() or torch.inference_mode(), or from other tensors, or was "
        "detached, or comes from what PyTorch does not differentiate, such as "
        "torch.special.bessel_j0; compute it from inputs with gradients recorded"
    )


def _check_view(outputs: Tensor, inputs: Tensor) -> None:
    """Raise where `inputs` is a view of what `outputs` depends on: zeros would be misleading."""
    paths = ((source, _autograd.path_between(outputs, source)) for source in _sources(inputs))
    source = next((source for source, path in paths if path is not None), None)
    if source is None:
        return
    columns = columns_shown(inputs, source)
    if columns is None or len(columns) == source.shape[-1]:
        raise RuntimeError(
            "inputs must be in the graph of outputs, but outputs was computed from the tensor that "
            "inputs is a view of: differentiate with respect to that tensor, or compute outputs "
            "from the view"
        )
    shown = f"columns {columns[0]} to {columns[-1]}"
    if len(columns) == 1:
        shown = f"column {columns[0]}"
    raise RuntimeError(
        "inputs must be in the graph of outputs, but outputs was computed from a tensor X of shape "
        f"{tuple(source.shape)}, of which inputs only shows {shown}: differentiate with "
        f"respect to X, with a multi-index of length {source.shape[-1]} that counts there"
    )


def _sources(view: Tensor) -> Iterator[Tensor]:
    """Yield the tensors with a graph that `view` may be a view of: its base, and leaves."""
    base = _autograd.base(view)
    if base is None:
        return
    yield base
    graph = () if view.grad_fn is None else _autograd.walk([view.grad_fn])
    for leaf in map(_autograd.leaf_variable, graph):
        if leaf is not None and _autograd.storage(leaf) == _autograd.storage(base):
            yield leaf


def columns_shown(view: Tensor, source: Tensor) -> range | None:
    """Return the columns of `source` that the view shows, None where it shows something else.

    The shape of `source` is ``(*batch, columns)``, and that of a view of columns
    ``(*batch, some)``, or ``batch`` for a single one.
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
