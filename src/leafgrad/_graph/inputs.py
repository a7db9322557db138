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
    """

    name: str | None
    shape: Shape
    dtype: torch.dtype
    device: torch.device
    uses: tuple[InputUse, ...]
