"""The inputs of a graph: what its operations were given from outside, without a gradient."""

from dataclasses import dataclass

import torch

from leafgrad._graph.nodes import Shape


@dataclass(frozen=True, kw_only=True, slots=True)
class InputUse:
    """One operation that an input of the graph was given to.

    Attributes:
        node: The index of its node.
        argument: What the operation calls it, as in `SavedTensor.name`.
        output_nr: The edge of the node that stands for it, which leads nowhere; None where no edge
            does, as for integers, or where that is not known.

    Example:
        >>> import torch
        >>> from leafgrad import trace_graph
        >>> data, weight = torch.ones(3, 2), torch.ones(2, requires_grad=True)
        >>> trace = trace_graph(weight * data, names={"data": data})
        >>> trace.inputs[0].uses
        (InputUse(node=0, argument='other', output_nr=1),)
        >>> trace.nodes[0].name, trace.nodes[0].edges[1].target
        ('MulBackward0', None)
    """

    node: int
    argument: str
    output_nr: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedInput:
    """A tensor that needs no gradient and came into the graph from outside, as data does.

    A graph knows those that an operation saved. Frozen parameters and buffers are none.

    Attributes:
        name: The name given to it, or the argument of the module that a recording saw it passed
            to, with ``"part of"`` before it where the operation was given no more; None where
            it has none.
        shape: Its sizes, of all that was given: where that is a reshaped view, those of the tensor
            behind it.
        dtype: Its data type.
        device: Where it is.
        uses: The operations that are known to have been given it.

    Example:
        >>> import torch
        >>> from leafgrad import trace_graph
        >>> data = torch.ones(3, 2)
        >>> model = torch.nn.Linear(2, 1)
        >>> (given,) = trace_graph(model(data), names={"model": model, "data": data}).inputs
        >>> given.name, given.shape, given.dtype, [use.argument for use in given.uses]
        ('data', (3, 2), torch.float32, ['mat1'])
    """

    name: str | None
    shape: Shape
    dtype: torch.dtype
    device: torch.device
    uses: tuple[InputUse, ...]
