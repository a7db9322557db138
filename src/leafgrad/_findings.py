"""What a backward would fail at or leave out, as values."""

from dataclasses import dataclass
from typing import Any

from leafgrad._explanation import GradExplanation
from leafgrad._render._data import json_types
from leafgrad._render._preflight import card
from leafgrad._traced import SavedTensor, TracedNode


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
        once_differentiable: The nodes that stand in the way of a second derivative, which a plain
            backward passes.
        hidden: The nodes of which PyTorch does not show what they saved, such as a write into a
            view, so that nothing of the kind can be found there.
        failures: The nodes at which backward fails for sure.
    """

    conflicts: tuple[InPlaceConflict, ...]
    freed: tuple[TracedNode, ...]
    detached: tuple[TracedNode, ...]
    moved: tuple[TracedNode, ...]
    refusing: tuple[TracedNode, ...]
    without_gradient: tuple[GradExplanation, ...]
    once_differentiable: tuple[OnceDifferentiable, ...]
    hidden: tuple[TracedNode, ...]
    failures: tuple[TracedNode, ...]

    @property
    def will_fail(self) -> bool:
        """Whether backward fails for sure."""
        return bool(self.failures)

    @property
    def may_fail(self) -> bool:
        """Whether backward fails, or may fail if a custom function looks at what it saved.

        As far as nodes show that: see `hidden`.
        """
        return bool(self.failures or self.conflicts or self.freed)

    @property
    def first_failure(self) -> TracedNode | None:
        """The node at which backward fails, None where it is not sure to fail."""
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
        fields: dict[str, Any] = json_types(self)
        return {**fields, "will_fail": self.will_fail, "may_fail": self.may_fail}
