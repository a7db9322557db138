"""Tracing: from live outputs to a `GraphTrace`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from leafgrad import _autograd
from leafgrad._ends import ends_in, inside_transforms, roots_of
from leafgrad._gradients import Weights, with_gradients
from leafgrad._log import Log
from leafgrad._origin import Nodes, as_they_are, with_inferred_modules, with_owners
from leafgrad._reader import Reader
from leafgrad._reading import Saved
from leafgrad._record import Recording
from leafgrad._trace import GraphTrace, trace_of
from leafgrad._values import with_values


def trace_graph(
    outputs: Any,
    *,
    names: torch.nn.Module | Mapping[str, torch.Tensor] | None = None,
    recording: Recording | None = None,
    saved: bool = True,
    values: bool = False,
    gradients: bool = False,
    grad_outputs: Weights = None,
) -> GraphTrace:
    """Copy the autograd graph behind some outputs into values.

    Nothing is run unless `gradients` asks for it: no hook is called, no checkpointed block computed
    again, and a graph that is freed, or whose tensors were modified in place, is read like any
    other. Everything is walked in loops, so 100,000 operations in a chain are no special case. A
    few nodes of a graph more than 1,000 operations deep get a private entry in their ``metadata``,
    which makes it safe to free.

    Args:
        outputs: A tensor of any shape and dtype, a `torch.autograd.graph.GradientEdge`, or any nest
            of lists, tuples and dicts of them. Those that need no gradient have no graph, and are
            left out as long as another one has.
        names: What tensors are called: a module gives the names of its parameters and buffers, a
            mapping leads from name to tensor. The name of a result is shown at its node. Where
            nothing was recorded, nodes between the uses of a module's parameters are taken to be
            that module's.
        recording: What `record` gave while the outputs were computed in this thread. It is asked
            for, not found by itself, as nodes of different threads may have the same number: only
            you know that it is about these.
        saved: Whether to read what the nodes keep for backward. False gives the structure alone,
            often in half of the time: no node has saved tensors then, and none is called freed.
        values: Whether to read what the operations made, as `TracedNode.values`: from a recording
            that was made with ``record(values=True)``, from the leaves, outputs and named tensors,
            and from what the nodes saved. Nothing is computed again: what none of these knows shows
            as not recorded.
        gradients: Whether to run one backward, by `torch.autograd.grad` and ``retain_graph=True``,
            and to read what it passes on, as `TracedNode.gradients` and `TracedEdge.gradient`. It
            is a backward like any other: hooks on tensors and nodes run and may change gradients,
            checkpointed blocks and the backward of custom functions run, and a freed graph raises
            PyTorch's own error. But no leaf's ``.grad`` is filled, so hooks that wait for that do
            not run, the graph is not freed, and a ``.grad`` that a tensor retains stays as it was.
        grad_outputs: The gradients that this backward starts with, one for each output that needs
            a gradient, as in `torch.autograd.grad`; None for the 1 of a single number.

    Returns:
        The graph as a value that keeps nothing alive.

    Raises:
        TypeError: If `outputs` holds anything else, or `names` is neither a module nor a mapping
            from strings to tensors, or `recording` is no recording, or `saved`, `values` or
            `gradients` no bool.
        ValueError: If `outputs` holds nothing, or nothing that needs a gradient, or the gradients
            have nothing to start from.

    Example:
        >>> import torch
        >>> from leafgrad import trace_graph
        >>> x = torch.ones(3, requires_grad=True)
        >>> y = torch.ones(3, requires_grad=True)
        >>> print(trace_graph(x * x + torch.sin(2 * y), names={"x": x, "y": y}))
        6 nodes, 6 edges, depth 3, all float32 on cpu, 4 tensors saved
        <BLANKLINE>
           node            tensor  output  leads to   saved
        0  AddBackward0            (3,)    1, 3
        1  MulBackward0            (3,)    2 x, 2 x   other (3,), self (3,)
        2  AccumulateGrad  x       (3,)
        3  SinBackward0            (3,)    4          self (3,)
        4  MulBackward0            (3,)    5 y, none  other () int64
        5  AccumulateGrad  y       (3,)

    What a node tells is documented at ``torch.autograd.graph.Node``; where that is silent, it is
    what PyTorch was seen to do.
    """
    for name, asked in {"saved": saved, "values": values, "gradients": gradients}.items():
        if not isinstance(asked, bool):
            raise TypeError(
                f"{name} must be a bool, not {type(asked).__name__}; True asks for them"
            )
    if grad_outputs is not None and not gradients:
        raise ValueError("grad_outputs must come with gradients=True, which asks for a backward")
    log = log_of(recording)
    with _autograd.unobserved():
        named = [(name, inside_transforms(tensor)) for name, tensor in named_tensors(names)]
        ends = [inside_transforms(end) for end in ends_in(outputs)]
        roots = roots_of(ends)
        numbers, wiring = _autograd.survey(roots)
        unnamed = [(None, end) for end in ends if isinstance(end, torch.Tensor)]
        tensors = [*named, *unnamed]
        reader = Reader(numbers, tensors, log)
        kept = reader.saved() if saved else Saved()
        reading = reader.read(wiring, kept, _completion(names, recording))
        if not (values or gradients):
            return trace_of(reading)
        graph = _autograd.walk(roots)
        traced, starts = reading.nodes_and_roots()
        if values:
            traced = with_values(traced, graph, [tensor for _, tensor in tensors], log)
    if gradients:
        traced = with_gradients(traced, graph, ends, grad_outputs)
    return GraphTrace(nodes=traced, roots=tuple(traced[start.index] for start in starts))


def _completion(names: object, recording: Recording | None) -> Callable[[Nodes], Nodes]:
    """Choose what is said of modules beyond what was recorded."""
    if not isinstance(names, torch.nn.Module):
        return as_they_are
    return with_inferred_modules if recording is None else with_owners


def log_of(recording: object) -> Log:
    match recording:
        case None:
            return _NOTHING
        case Recording():
            return recording.log
        case _:
            raise TypeError(
                f"recording must be what record() gave, not {type(recording).__name__}; "
                "name it as in `with record() as recording:`"
            )


_NOTHING = Log(0)


def named_tensors(names: object) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what has a name; a view that PyTorch refuses to place in a graph has no use for it."""
    for name, tensor in _names_and_tensors(names):
        if not isinstance(name, str):
            raise TypeError(
                f"the keys of names must be strings, not {type(name).__name__}; "
                "name tensors as in names={'x': x}"
            )
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"names[{name!r}] must be a tensor, not {type(tensor).__name__}; "
                "a mapping leads from name to tensor, as in names={'x': x}"
            )
        if not _autograd.is_invalid_view(tensor):
            yield name, tensor


def _names_and_tensors(names: object) -> Iterator[tuple[object, object]]:
    match names:
        case None:
            pass
        case torch.nn.Module():
            yield from names.named_parameters(remove_duplicate=False)
            yield from names.named_buffers(remove_duplicate=False)
        case Mapping():
            _check_state(names)
            yield from names.items()
        case _:
            raise TypeError(
                "names must be a module or a mapping from name to tensor, not "
                f"{type(names).__name__}; pass the model, or name tensors as in names={{'x': x}}"
            )


def _check_state(names: Mapping[object, object]) -> None:
    """Refuse what ``state_dict()`` gave: its tensors are other ones, which are in no graph."""
    if _autograd.is_state(names) and names and not any(map(_is_kept, names.values())):
        raise ValueError(
            "names must hold the tensors themselves, not those of state_dict(), which are detached "
            "and in no graph; pass the model, or dict(model.named_parameters())"
        )


def _is_kept(value: object) -> bool:
    """Say whether ``state_dict(keep_vars=True)`` may have given this."""
    return isinstance(value, torch.nn.Parameter) or getattr(value, "requires_grad", False)
