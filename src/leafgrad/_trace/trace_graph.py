"""`trace_graph`: copy the graph behind live outputs into a `GraphTrace`."""

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
    """Return a copy of the autograd graph behind some outputs, to print, draw and search.

    The copy keeps no tensor alive. Reading the graph calls no hook and runs no checkpointed block
    again. Only with ``gradients=True`` does the function run a backward pass.

    Args:
        outputs: The tensor that the graph computes, or several in lists, tuples, dicts or
            dataclasses, as models return them.
        names: The names of tensors, to show them at their nodes: a module, an optimizer, or a
            mapping from name to tensor or module.
        recording: The recording from the `record` block in which the outputs were computed, in this
            thread. With it, each node has its module and its line of code.
        saved: Whether to read the saved tensors. A trace without them often takes half the time.
        values: Whether to read the results of operations. Most of them come from a recording made
            with ``record(values=True)``.
        gradients: Whether to run one backward pass and read its gradients. The pass keeps the graph
            and changes no ``.grad``.
        grad_outputs: The gradients that this pass starts with, as in `torch.autograd.grad`.

    Returns:
        The graph as a `GraphTrace`.

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

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `outputs` is empty, if no output requires grad, or if the backward pass has
            nothing to start from.

    Note:
        **Outputs.** An output can also be a `torch.autograd.graph.GradientEdge`. If at least one
        output requires grad, tensors that do not require grad are ignored. So are other values,
        such as None, numbers or the contents of a cache object. Graphs that were freed, or whose
        tensors were modified in place, are read like any other.

        **Names.** A module provides the names of its parameters and buffers, an optimizer those of
        its parameters. If a mapping contains a module, the names of its tensors follow after a dot.
        A result's name is shown at its node. If modules were recorded, their paths begin at the
        modules in `names`. Without a recording, a node between two nodes that use parameters of a
        module is assigned to that module.

        **Recordings.** You have to pass the recording, because leafgrad cannot find the right one
        itself: a recording identifies nodes by their sequence numbers, and nodes of different
        threads may have the same numbers.

        **Saved tensors.** With ``saved=False``, no node has saved tensors or counts as freed.

        **Values.** Values are stored in `TracedNode.values`. Besides a recording, they come from
        leaves, outputs, named tensors and saved tensors. Nothing is recomputed: other values show
        as not recorded.

        **Gradients.** Gradients are stored in `TracedNode.gradients` and `TracedEdge.gradient`. The
        pass calls `torch.autograd.grad` with ``retain_graph=True``. `grad_outputs` has one gradient
        for each output that requires grad; None means 1 for an output with a single number. Hooks
        on tensors and nodes run and may change gradients, but post-accumulate-grad hooks do not
        run, because no ``.grad`` changes. Checkpointed blocks and custom functions run. A freed
        graph raises PyTorch's error. If several processes share the model, all of them must make
        this call.

        **Deep graphs.** A chain of 100,000 operations works. If a graph is more than 1,000
        operations deep, a few nodes get an entry in their ``metadata``, which makes the graph safe
        to free.

        **Sources.** A trace follows the documentation of ``torch.autograd.graph.Node``. Where this
        documentation leaves something open, it follows what PyTorch does.
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
    """Raise an error if only detached copies of leaves have names: no name would be shown."""
    tensors = named.values()
    if any(_autograd.plain(tensor, "requires_grad") for tensor in tensors):
        return
    memory = {_autograd.storage(leaf): leaf for leaf in leaves}
    memory.pop(None, None)
    for name, tensor in named.items():
        leaf = memory.get(_autograd.storage(tensor))
        if leaf is not None and not any(leaf is one for one in tensors):
            raise ValueError(message("errors.names.detached", name=name))
