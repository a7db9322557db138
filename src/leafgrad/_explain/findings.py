"""What a backward would fail at or leave out, as values."""

from dataclasses import dataclass
from typing import Any

from leafgrad._display.jsonable import fields_as_json
from leafgrad._explain.explanation import GradExplanation
from leafgrad._explain.findings_card import card
from leafgrad._graph.nodes import SavedTensor, TracedNode
from leafgrad._record.cut import Cut


@dataclass(frozen=True, kw_only=True, slots=True)
class InPlaceConflict:
    """A saved tensor that was written in place since it was saved.

    Attributes:
        node: The node that saved it; its ``source`` is the line that did, where that is known.
        saved: What it saved, with the versions then and now; its ``writes`` are what wrote since,
            where that was recorded.
    """

    node: TracedNode
    saved: SavedTensor

    @property
    def is_certain(self) -> bool:
        """Whether backward fails for sure; a custom function may never look at what it saved."""
        return self.saved.is_modified and self.node.custom_function is None


@dataclass(frozen=True, kw_only=True, slots=True)
class OnceDifferentiable:
    """A node through which a gradient can be computed but not differentiated again.

    Attributes:
        node: The node.
        reason: Why.
    """

    node: TracedNode
    reason: str


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """What a backward would fail at or leave out; `preflight` makes it.

    Everything is in the order in which backward would meet it.

    Attributes:
        conflicts: The saved tensors that were written in place.
        freed: The nodes whose saved tensors are gone.
        detached: The nodes that saved a tensor which ``detach_()`` has cut from its graph since.
        moved: The leaves that have become results of operations since, by a write in place.
        refusing: The nodes that stand for a derivative that does not exist.
        without_gradient: Why a named tensor will get no gradient, one explanation a tensor.
        unseen: The named tensors of which it cannot be seen whether they will get one.
        all_zero: The named tensors whose gradient will be zero everywhere, as the graph shows.
        once_differentiable: The nodes that stand in the way of a second derivative, which a plain
            backward passes.
        hidden: The nodes of which PyTorch does not show what they saved, such as a write into a
            view, so that nothing of the kind can be found there.
        running: The nodes whose backward seems to run another one, such as a reentrant checkpoint,
            of which the graph shows nothing.
        failures: The nodes at which backward fails for sure.
        lacks_graph: Whether no output requires grad, so that backward fails before it comes to any
            node.
        cuts: Where the outputs lost their graph in that case, as far as a recording tells.
    """

    conflicts: tuple[InPlaceConflict, ...]
    freed: tuple[TracedNode, ...]
    detached: tuple[TracedNode, ...]
    moved: tuple[TracedNode, ...]
    refusing: tuple[TracedNode, ...]
    without_gradient: tuple[GradExplanation, ...]
    unseen: tuple[GradExplanation, ...]
    all_zero: tuple[GradExplanation, ...]
    once_differentiable: tuple[OnceDifferentiable, ...]
    hidden: tuple[TracedNode, ...]
    running: tuple[TracedNode, ...]
    failures: tuple[TracedNode, ...]
    lacks_graph: bool
    cuts: tuple[Cut, ...]

    @property
    def will_fail(self) -> bool:
        """Whether backward fails for sure."""
        return self.lacks_graph or bool(self.failures)

    @property
    def may_fail(self) -> bool:
        """Whether backward fails, or may fail if a custom function looks at what it saved.

        As far as nodes show that: see `hidden` and `running`.
        """
        return self.will_fail or bool(self.conflicts or self.freed)

    @property
    def first_failure(self) -> TracedNode | None:
        """The node at which backward fails, None where it comes to none that is sure to fail."""
        return next(iter(self.failures), None)

    def __str__(self) -> str:
        return card(self).to_text()

    def _repr_html_(self) -> str:
        return card(self).to_html()

    def to_dict(self) -> dict[str, Any]:
        """Give every field under its name, as JSON types only.

        Returns:
            The findings as dicts, and ``will_fail`` and ``may_fail``.

        Example:
            >>> import torch
            >>> from leafgrad import preflight
            >>> preflight(torch.ones(2, requires_grad=True).exp()).to_dict()["may_fail"]
            False
        """
        fields = fields_as_json(self)
        return {**fields, "will_fail": self.will_fail, "may_fail": self.may_fail}
