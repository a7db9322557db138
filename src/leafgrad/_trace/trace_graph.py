"""Tracing: from live outputs to a `GraphTrace`."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from leafgrad import _autograd
from leafgrad._arguments.names import Names, named_modules, named_tensors, read_names
from leafgrad._arguments.outputs import iter_outputs, root_nodes, unwrap_functorch
from leafgrad._arguments.signature import public_function
from leafgrad._messages import message
from leafgrad._record.record import Recording, log_of
from leafgrad._trace.find_inputs import graph_inputs
from leafgrad._trace.gradients import Weights, add_gradients
from leafgrad._trace.graph_trace import GraphTrace
from leafgrad._trace.modules import traced_modules
from leafgrad._trace.reader import GraphReader
from leafgrad._trace.values import add_values


@public_function()
def trace_graph(
    outputs: Any,
    *,
    names: Names = None,
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
            of lists, tuples, dicts and dataclasses of them, as models return it. Tensors that need
            no gradient have no graph, and are left out as long as another one has. So is what is
            neither, such as None or a number, and what a cache or another object holds.
        names: What tensors are called: a module gives the names of its parameters and buffers, an
            optimizer those of its parameters, a mapping leads from name to tensor, or to a module
            whose names follow after a dot. The name of a result is shown at its node. Where a
            recording saw modules run, they have their paths in the modules that are given here.
            Where nothing was recorded, nodes between the uses of a module's parameters are taken to
            be that module's.
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
            PyTorch's error. But no leaf's ``.grad`` is filled, so hooks that wait
            for that do not run, the graph is not freed, and a ``.grad`` that a tensor retains stays
            as it was. Of a model that several processes share, all have to call it.
        grad_outputs: The gradients that this backward starts with, one for each output that needs
            a gradient, as in `torch.autograd.grad`; None for the 1 of a single number.

    Returns:
        The graph as a value that keeps nothing alive.

    Raises:
        TypeError: If `outputs` holds anything else, or `names` does not lead from strings to
            tensors or modules, or `recording` is no recording, or `saved`, `values` or `gradients`
            no bool.
        ValueError: If `outputs` holds nothing, or nothing that needs a gradient, or the
            gradients have nothing to start from.

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
            raise TypeError(message("errors.trace.bool", name=name, type=type(asked).__name__))
    if grad_outputs is not None and not gradients:
        raise ValueError(message("errors.trace.grad-outputs-alone"))
    log, names = log_of(recording), read_names(names)
    with _autograd.unobserved():
        named = [(name, unwrap_functorch(tensor)) for name, tensor in named_tensors(names)]
        ends = [unwrap_functorch(end) for end in iter_outputs(outputs)]
        roots = root_nodes(ends)
        unnamed = [(None, end) for end in ends if isinstance(end, torch.Tensor)]
        tensors = [*named, *unnamed]
        modules = named_modules(names)
        reader = GraphReader(roots, tensors)
        if isinstance(names, Mapping):
            _check_attached(dict(named), [*reader.leaves.values()])
        nodes = reader.read(log, modules, saved=saved, infers_modules=recording is None)
        traced = traced_modules(nodes, modules, reader.calls)
        inputs = graph_inputs(nodes, reader.nodes, [*log.given_tensors(), *named], modules, log)
        starts = [reader.places[root] for root in dict.fromkeys(roots)]
        if values:
            nodes = add_values(nodes, starts, reader.graph, tensors, log)
    if gradients:
        nodes = add_gradients(nodes, starts, reader.graph, ends, grad_outputs)
    traced_roots = tuple([nodes[start] for start in starts])
    return GraphTrace(nodes=nodes, roots=traced_roots, modules=traced, inputs=inputs)


def _check_attached(named: Mapping[str, torch.Tensor], leaves: Sequence[torch.Tensor]) -> None:
    """Raise where names were given to copies only that share the memory of leaves, to no avail."""
    tensors = named.values()
    if any(_autograd.plain(tensor, "requires_grad") for tensor in tensors):
        return
    memory = {_autograd.storage(leaf): leaf for leaf in leaves}
    memory.pop(None, None)
    for name, tensor in named.items():
        leaf = memory.get(_autograd.storage(tensor))
        if leaf is not None and not any(leaf is one for one in tensors):
            raise ValueError(message("errors.names.detached", name=name))
