"""Why a tensor has no gradient, as a value that shows itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from leafgrad._display.card import Card, ShownAsCard
from leafgrad._display.jsonable import fields_as_json
from leafgrad._record.cut import Cut, CutKind


class GradCause(StrEnum):
    """Why ``.grad`` is what it is; ``str()`` of it reads as prose.

    Attributes:
        FILLED: It holds a gradient.
        NOT_RUN: A path leads to it, and backward can run.
        CLEARED: A backward from the outputs ran and kept the graph, and ``.grad`` is empty.
        UNSEEN: The graph does not show whether a gradient comes to it.
        OTHERS: No gradient comes to it in this process, but other processes may send one.
        HELD_BACK: A gradient comes, which ``fully_shard`` keeps until it is synchronised.
        STOPPED: A path leads to it, but no gradient comes, as a custom function hands on none.
        ALL_ZERO: A gradient comes, which an operation on every path to it has made zero everywhere.
        SWAPPED: It was computed from the outputs, and not they from it.
        USED_UP: A backward went through the graph and freed it, and filled nothing or was cleared.
        NOT_RETAINED: It is no leaf, and does not retain its gradient.
        CONSTANT: It does not require grad.
        FROZEN: It is a parameter that does not require grad.
        INTEGER: Its type of numbers has no gradients.
        NOT_REACHED: No path leads from the outputs to it, and nothing was recorded that says why.
        BESIDE: It was made of a tensor on which the outputs depend, but they were not made of it.
        UNUSED: The outputs were recorded, and no value that came of it went into them.
        LINEAR: The outputs are made of a derivative that does not depend on it.
        LATE: It was used before its ``requires_grad`` was switched on.
        SHARED: It was used through another tensor that shares its memory and has no graph.
        WITHOUT_GRAPH: No output has a graph, and nothing was recorded that says why.
        LEAF_OUTPUTS: The outputs are leaves themselves, and nothing was recorded that says why.
        UNRECORDED_VIEW: It is a view that was taken while nothing was recorded.
        INVALID_VIEW: It is a view that PyTorch refuses to use since a write in place.
        WRAPPED: It lives inside a ``torch.func`` transform.
        DETACHED: The path to it was cut by ``detach()``.
        DATA: The path was cut by ``.data``.
        NO_GRAD: The path was cut where gradients were switched off.
        NOT_FLOATING: The path was cut by a result of integers or truth values.
        NOT_DIFFERENTIABLE: The path was cut by an operation without a derivative.
        COPIED: The path was cut by a tensor that was made anew of its values.
        PYTHON: The path was cut by a number or list of Python's.
        NUMPY: The path was cut by an array outside PyTorch.
        COLLECTIVE: The path was cut by a collective operation of ``torch.distributed``.

    Example:
        >>> import torch
        >>> from leafgrad import GradCause, explain_grad
        >>> x = torch.ones(2, requires_grad=True)
        >>> explain_grad(x, x.sum()).cause is GradCause.NOT_RUN
        True
    """

    FILLED = "filled"
    NOT_RUN = "waiting for backward"
    CLEARED = "cleared, or never stored"
    UNSEEN = "cannot be seen"
    OTHERS = "left to other processes"
    HELD_BACK = "held back by fully_shard"
    STOPPED = "stopped on the way"
    ALL_ZERO = "zero everywhere"
    SWAPPED = "asked the other way round"
    USED_UP = "graph used up"
    NOT_RETAINED = "not retained"
    CONSTANT = "does not require grad"
    FROZEN = "frozen"
    INTEGER = "numbers without gradients"
    NOT_REACHED = "not reached"
    BESIDE = "beside the path"
    UNUSED = "unused"
    LINEAR = "not in the derivative"
    LATE = "used before it required grad"
    SHARED = "used through another tensor"
    WITHOUT_GRAPH = "outputs without a graph"
    LEAF_OUTPUTS = "outputs that are leaves"
    UNRECORDED_VIEW = "unrecorded view"
    INVALID_VIEW = "invalid view"
    WRAPPED = "wrapped by torch.func"
    DETACHED = "cut by detach()"
    DATA = "cut by .data"
    NO_GRAD = "cut where nothing was recorded"
    NOT_FLOATING = "cut by a result without gradients"
    NOT_DIFFERENTIABLE = "cut by an operation without a derivative"
    COPIED = "cut by a new tensor"
    PYTHON = "cut by a number of Python's"
    NUMPY = "cut by an array outside PyTorch"
    COLLECTIVE = "cut by a collective operation"


CAUSE_OF_CUT = {
    CutKind.DETACHED: GradCause.DETACHED,
    CutKind.DATA: GradCause.DATA,
    CutKind.NO_GRAD: GradCause.NO_GRAD,
    CutKind.NOT_FLOATING: GradCause.NOT_FLOATING,
    CutKind.NOT_DIFFERENTIABLE: GradCause.NOT_DIFFERENTIABLE,
    CutKind.COPIED: GradCause.COPIED,
    CutKind.PYTHON: GradCause.PYTHON,
    CutKind.NUMPY: GradCause.NUMPY,
    CutKind.COLLECTIVE: GradCause.COLLECTIVE,
}
"""Each way to lose a graph is a cause."""


@dataclass(frozen=True, kw_only=True, repr=False)
class GradExplanation(ShownAsCard):
    """Why a tensor has no gradient, or will get none; `explain_grad` makes it.

    Attributes:
        name: The name of the tensor, or None.
        cause: The cause.
        because: One sentence that says what it comes from.
        cure: One sentence that says what to do.
        requires_grad: What ``tensor.requires_grad`` says.
        is_leaf: What ``tensor.is_leaf`` says; None for an invalid view, where it raises.
        retains_grad: What ``tensor.retains_grad`` says.
        has_grad: Whether ``.grad`` holds a gradient now.
        is_reached: Whether a path leads from the outputs to it.
        is_freed: Whether a part of the outputs' graph was freed, as by a backward.
        will_be_filled: Whether a backward from the outputs, if it succeeds, stores a gradient in
            ``.grad``, be it of zeros; None where that cannot be seen.
        hooks: The hooks on the tensor itself that may change or take away what is stored.
        cuts: Where the path was cut, as far as a recording tells, the first one first.
    """

    name: str | None
    cause: GradCause
    because: str
    cure: str
    requires_grad: bool
    is_leaf: bool | None
    retains_grad: bool
    has_grad: bool
    is_reached: bool
    is_freed: bool
    will_be_filled: bool | None
    hooks: tuple[str, ...]
    cuts: tuple[Cut, ...]

    def _card(self) -> Card:
        """Return a card with the facts as rows, and cause and cure as sentences."""
        sentences = [self.because, self.cure]
        if self.hooks:
            sentences.insert(
                1,
                "What its hooks do to the gradient is not looked at: they may make it zero or "
                "take it.",
            )
        return Card(
            title=f"gradient of {self.name or 'tensor'}: {self.cause}",
            rows=tuple(_rows(self)),
            sentences=tuple(sentences),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return every field under its name, as JSON types only.

        Returns:
            The cause and the kinds of cuts as their texts.

        Example:
            >>> import torch
            >>> from leafgrad import explain_grad
            >>> x = torch.ones(2, requires_grad=True)
            >>> explain_grad(x, x.sum()).to_dict()["cause"]
            'waiting for backward'
        """
        return fields_as_json(self)


def _rows(explanation: GradExplanation) -> Iterator[tuple[str, str]]:
    e = explanation
    yield ".grad", "filled" if e.has_grad else "None"
    yield "requires_grad", str(e.requires_grad)
    yield "is_leaf", "not known" if e.is_leaf is None else str(e.is_leaf)
    yield "retains_grad", str(e.retains_grad)
    yield "reached from outputs", str(e.is_reached)
    yield "graph freed", str(e.is_freed)
    if e.will_be_filled is None:
        yield "filled by backward", "cannot be seen"
    for hook in e.hooks:
        yield "hook", hook
    for cut in e.cuts:
        yield "cut", f"{cut.kind} by {cut.operation}, {cut.source}"
