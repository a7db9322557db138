"""Why a tensor gets no gradient, as a value."""

from typing import NamedTuple

import torch

from leafgrad._graph.nodes import Source
from leafgrad._record.cut import DERIVATIVE, Cut, CutKind


class Cause(NamedTuple):
    """Why a tensor gets no gradient; tensors with equal causes share a finding.

    Attributes:
        code: The code of the finding.
        variant: Which of its messages fit best.
        at: The expression at fault.
        marks: Further places, each with the key of its label.
        operation: The function that was called.
    """

    code: str
    variant: str = ""
    at: Source | None = None
    marks: tuple[tuple[str, Source], ...] = ()
    operation: str = ""


def cause_of_cut(cut: Cut) -> Cause:
    """Return the cause that a cut stands for."""
    code, variant = _CODES.get(cut.operation, _CODES_OF_KINDS[cut.kind])
    if code == "no-derivative" and cut.operation == "sample" and cut.kind is CutKind.NO_GRAD:
        variant = "sample"
    if code == "no-grad" and cut.switch == "inference_mode()":
        variant = "inference"
    elif code == "no-grad" and cut.switch == "set_grad_enabled(False)":
        variant = "setting" if torch.is_grad_enabled() else "still-off"
    if code == "detached" and cut.is_difference:
        variant = "straight-through"
    switch = cut.switch_source if code == "no-grad" else None
    marks = () if switch is None else (("no-grad.switch", switch),)
    return Cause(code, variant, cut.source, marks, cut.operation)


_CODES_OF_KINDS = {
    CutKind.DETACHED: ("detached", ""),
    CutKind.DATA: ("detached", "data"),
    CutKind.NO_GRAD: ("no-grad", ""),
    CutKind.NOT_FLOATING: ("no-derivative", "integer"),
    CutKind.NOT_DIFFERENTIABLE: ("no-derivative", ""),
    CutKind.COPIED: ("copied", ""),
    CutKind.PYTHON: ("converted", ""),
    CutKind.NUMPY: ("converted", "numpy"),
    CutKind.COLLECTIVE: ("collective", ""),
}
_GATHERING = ("all_gather", "all_gather_into_tensor", "all_gather_single", "gather")
_COMPARISONS = "gt lt ge le eq ne greater less greater_equal less_equal nonzero".split()
_CASTS = "long int to type short char byte".split()
_CODES = {
    DERIVATIVE: ("linear", ""),
    "grad": ("create-graph", ""),
    "deepcopy": ("other-tensor", "deepcopy"),
    "state_dict": ("other-tensor", "state-dict"),
    "CheckpointFunction": ("no-grad", "checkpoint"),
    "Parameter": ("copied", "parameter"),
    **dict.fromkeys(("copy_", "load_state_dict", ".data ="), ("copied", "weights")),
    **dict.fromkeys(("argmax", "max"), ("no-derivative", "argmax")),
    **dict.fromkeys(("argmin", "min"), ("no-derivative", "argmin")),
    **dict.fromkeys(("topk", "argsort", "sort"), ("no-derivative", "indices")),
    **dict.fromkeys(("searchsorted", "bucketize"), ("no-derivative", "place")),
    **dict.fromkeys(_COMPARISONS, ("no-derivative", "comparison")),
    **dict.fromkeys([f"__{name}__" for name in _COMPARISONS], ("no-derivative", "comparison")),
    **dict.fromkeys(_CASTS, ("no-derivative", "cast")),
    "sample": ("no-derivative", "choice"),
    "multinomial": ("no-derivative", "choice"),
    "one_hot": ("no-derivative", "one-hot"),
    **dict.fromkeys([f"torch.distributed.{name}" for name in _GATHERING], ("collective", "gather")),
}
