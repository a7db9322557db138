"""Where a gradient's path ends: the enum of ways, and the value for one place."""

from dataclasses import dataclass
from enum import StrEnum

from leafgrad._graph.nodes import Source


class CutKind(StrEnum):
    """How a result came to be without a graph; ``str()`` of it reads as prose.

    Attributes:
        DETACHED: By ``detach()``.
        DATA: By ``.data``.
        NO_GRAD: It was computed while gradients were switched off.
        NOT_FLOATING: The result holds integers or truth values, which have no gradient.
        NOT_DIFFERENTIABLE: The operation has no derivative.
        COPIED: Its values went into a tensor that was made anew, such as a parameter.
        PYTHON: The value became a number or a list of Python's.
        NUMPY: The value became an array, of numpy or another library.
        COLLECTIVE: A collective of ``torch.distributed`` wrote the values into other tensors.
    """

    DETACHED = "detached"
    DATA = "taken as .data"
    NO_GRAD = "computed without recording"
    NOT_FLOATING = "turned into integers or truth values"
    NOT_DIFFERENTIABLE = "put through an operation without a derivative"
    COPIED = "made into a new tensor"
    PYTHON = "turned into a number of Python's"
    NUMPY = "turned into an array outside PyTorch"
    COLLECTIVE = "sent through a collective operation"


DERIVATIVE = "grad(create_graph=True)"
"""The operation of a derivative without a graph: of something linear, that is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """A place at which something that depends on a tensor lost its graph.

    Attributes:
        kind: How.
        operation: The function that was called, such as ``"detach"``.
        source: The line of code, where it is known.
        switch: What had switched gradients off, such as ``"no_grad()"``, where that is how.
        switch_source: The line that did; None where it came before the recording.
        is_difference: Whether what was cut off is a difference, as in ``z + (q - z).detach()``.
    """

    kind: CutKind
    operation: str
    source: Source | None
    switch: str | None = None
    switch_source: Source | None = None
    is_difference: bool = False
