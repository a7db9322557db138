"""What a backward would fail at or leave out, as values that show themselves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from leafgrad._display.card import Card
from leafgrad._display.jsonable import fields_as_json
from leafgrad._display.units import count
from leafgrad._explain.explanation import CAUSE_OF_CUT, GradExplanation
from leafgrad._explain.sentences import cure, place_of_cuts
from leafgrad._graph.nodes import SavedTensor, TracedNode, Write
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
        without_gradient: An explanation for each named tensor that will get no gradient; one that
            was given several names may have several.
        unseen: The same for those of which it cannot be seen whether they will get one.
        all_zero: The same for those whose gradient will be zero everywhere, as the graph shows.
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
        return _card(self).to_text()

    def _repr_html_(self) -> str:
        return _card(self).to_html()

    def to_dict(self) -> dict[str, Any]:
        """Return every field under its name, as JSON types only.

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


MAX_SENTENCES = 5
"""How many findings of a kind get a sentence of their own."""


def _card(found: Preflight) -> Card:
    """Return a card with the counts as rows, and what matters of each finding as a sentence."""
    rows = [
        ("in-place conflicts", len(found.conflicts)),
        ("freed nodes", len(found.freed)),
        ("refusing nodes", len(found.refusing)),
        ("without gradient", len(found.without_gradient)),
        ("differentiable only once", len(found.once_differentiable)),
    ]
    if found.unseen:
        rows.append(("gradient cannot be seen", len(found.unseen)))
    if found.all_zero:
        rows.append(("gradient is zero everywhere", len(found.all_zero)))
    return Card(
        title=f"preflight: {_verdict(found)}",
        rows=tuple((name, str(number)) for name, number in rows),
        sentences=tuple(_sentences(found)),
    )


def _verdict(found: Preflight) -> str:
    if found.lacks_graph:
        return "backward will fail, as no output requires grad"
    if found.first_failure is not None:
        return f"backward will fail at {found.first_failure.name}"
    if found.may_fail:
        return "backward may fail"
    if found.hidden or found.running:
        return "nothing that backward would fail at, as far as nodes show"
    return "nothing that backward would fail at"


def _sentences(found: Preflight) -> Iterator[str]:
    if found.lacks_graph:
        yield _without_graph(found.cuts)
    yield from _first([*map(_conflict, found.conflicts)], "conflict", "conflicts")
    yield from _on_failing_nodes(found)
    yield from _on_unseen_nodes(found)
    for explanations, one, many in (
        (found.without_gradient, "tensor without gradient", "tensors without gradient"),
        (found.unseen, "tensor of which it cannot be seen", "tensors of which it cannot be seen"),
        (found.all_zero, "tensor with zeros alone", "tensors with zeros alone"),
    ):
        yield from _first([f"{e.name}: {e.because} {e.cure}" for e in explanations], one, many)
    once = [
        f"{_place(one.node)} stands in the way of a second derivative: {one.reason}."
        for one in found.once_differentiable
    ]
    yield from _first(once, "node", "nodes")


def _first(sentences: Sequence[str], one: str, many: str) -> Iterator[str]:
    """Yield the first few sentences, and how many there are besides."""
    yield from sentences[:MAX_SENTENCES]
    left = len(sentences) - MAX_SENTENCES
    if left > 0:
        yield f"And {left} other {one if left == 1 else many}."


def _on_failing_nodes(found: Preflight) -> Iterator[str]:
    """Yield a sentence for each way in which nodes fail, about the first one that does."""
    if found.freed:
        others = f", the first of {len(found.freed)}," if len(found.freed) > 1 else ""
        yield (
            f"What {_place(found.freed[0])} saved{others} was freed by an earlier backward: "
            "compute the outputs again, or pass retain_graph=True to that one."
        )
    if found.detached:
        yield (
            f"A tensor that {_place(found.detached[0])} saved has been cut from its graph by "
            "detach_() since, which backward refuses: use detach() instead, which gives another "
            "tensor."
        )
    if found.moved:
        yield (
            f"A leaf of shape {found.moved[0].shapes[0]} has become the result of a write in place "
            "since it was used, which backward refuses: give the result a name of its own."
        )
    if found.refusing:
        yield (
            f"{_place(found.refusing[0])} stands for a derivative that does not exist, and raises."
        )


def _on_unseen_nodes(found: Preflight) -> Iterator[str]:
    """Yield a sentence for each way in which nodes may fail unseen."""
    if found.hidden:
        yield (
            f"PyTorch does not show what {_place_of_all(found.hidden)} saved, so a write into "
            "that, or that it is gone, would not be found."
        )
    if found.running:
        yield (
            f"{_place_of_all(found.running)} may run a backward within this one, of which nothing "
            "is seen."
        )


def _without_graph(cuts: tuple[Cut, ...]) -> str:
    """Return where the outputs lost their graph, as far as a recording tells."""
    reason = (
        "None of the outputs requires grad, which backward refuses (element 0 of tensors does not "
        "require grad and does not have a grad_fn)"
    )
    if not cuts:
        return (
            f"{reason}: compute them from a tensor that requires grad, outside no_grad() and "
            "detach(), or inside record(), which tells the line where the graph was lost."
        )
    return f"{reason}: cut by {place_of_cuts(cuts)}. {cure(CAUSE_OF_CUT[cuts[0].kind], cuts)}"


def _conflict(conflict: InPlaceConflict) -> str:
    saved = conflict.saved
    version = "a version that is not told" if saved.saved_version is None else saved.saved_version
    then = f"saved {saved.name} at version {version}"
    now = f"it is at version {saved.current_version} now"
    unseen = "written outside of record(), which would tell the line"
    writes = "; ".join(map(_write, saved.writes)) or unseen
    doubt = "" if conflict.is_certain else " Backward fails if it looks at that."
    return f"{_place(conflict.node)} {then}, and {now}: {writes}.{doubt}"


def _write(write: Write) -> str:
    through = " through a view" if write.through_view else ""
    place = "" if write.source is None else f" in {write.source}"
    return f"written by {write.operation}{through}{place}"


def _place(node: TracedNode) -> str:
    """Return the name of a node, and the line that made it where that is known."""
    return node.name if node.source is None else f"{node.name} ({node.source})"


def _place_of_all(nodes: Sequence[TracedNode]) -> str:
    """Return the name and line of the first node, and how many there are besides."""
    others = f" and {count(len(nodes) - 1, 'other node')}" if len(nodes) > 1 else ""
    return f"{_place(nodes[0])}{others}"
