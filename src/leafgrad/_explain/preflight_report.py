"""What a backward would fail at or leave out, as values that show themselves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from leafgrad._display.card import Card, ShownAsCard
from leafgrad._display.jsonable import fields_as_json
from leafgrad._display.units import count, shape_text
from leafgrad._explain.conflict_words import conflict_sentences
from leafgrad._explain.findings import (
    InPlaceConflict,
    Miscounted,
    OnceDifferentiable,
    place_of_node,
)
from leafgrad._graph.nodes import Shape, TracedNode


@dataclass(frozen=True, kw_only=True, repr=False)
class Preflight(ShownAsCard):
    """What a backward would fail at or leave out; `preflight` makes it.

    Everything is in the order in which backward would meet it.

    Attributes:
        conflicts: The saved tensors that were written in place.
        freed: The nodes whose saved tensors are gone.
        detached: The nodes that saved a tensor which ``detach_()`` has cut from its graph since.
        moved: The leaves that have become results of operations since, by a write in place.
        refusing: The nodes that stand for a derivative that does not exist.
        miscounted: The custom functions whose backward returns another number of gradients than
            there are inputs.
        once_differentiable: The nodes that stand in the way of a second derivative, which a plain
            backward passes.
        hidden: The nodes of which PyTorch does not show what they saved, such as a write into a
            view, so that nothing of the kind can be found there.
        running: The nodes whose backward seems to run another one, such as a reentrant checkpoint,
            of which the graph shows nothing.
        silent: What has changed since the forward pass without autograd's notice, a sentence each:
            backward runs, and computes wrong gradients.
        checkpointed: A node of each checkpointed block that backward runs again, and what is known
            against that.
        failures: The nodes at which backward fails for sure.
        shapes: The shapes of the outputs that are more than one number, or complex, for which
            backward has to be given a gradient.
        second_backward: Where the nodes were freed and how the outputs come to them, with what to
            do; None where nothing is freed.
        is_switched_off: Whether gradients are switched off where `preflight` is called.
        lacks_graph: Whether no output requires grad, so that backward fails before it comes to any
            node.
    """

    conflicts: tuple[InPlaceConflict, ...]
    freed: tuple[TracedNode, ...]
    detached: tuple[TracedNode, ...]
    moved: tuple[TracedNode, ...]
    refusing: tuple[TracedNode, ...]
    miscounted: tuple[Miscounted, ...]
    once_differentiable: tuple[OnceDifferentiable, ...]
    hidden: tuple[TracedNode, ...]
    running: tuple[TracedNode, ...]
    silent: tuple[str, ...]
    checkpointed: tuple[tuple[TracedNode, str], ...]
    failures: tuple[TracedNode, ...]
    shapes: tuple[Shape, ...]
    second_backward: str | None
    is_switched_off: bool
    lacks_graph: bool

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

    def __bool__(self) -> bool:
        raise TypeError(
            "a Preflight is neither true nor false, as it may mean a problem or none; ask for "
            ".will_fail or .may_fail"
        )

    @property
    def first_failure(self) -> TracedNode | None:
        """The node at which backward fails, None where it comes to none that is sure to fail."""
        return next(iter(self.failures), None)

    def _card(self) -> Card:
        """Return a card with the counts as rows, and what matters of each finding as a sentence."""
        rows = [
            ("in-place conflicts", len(self.conflicts)),
            ("freed nodes", len(self.freed)),
            ("refusing nodes", len(self.refusing)),
            ("differentiable only once", len(self.once_differentiable)),
        ]
        return Card(
            title=f"preflight: {_verdict(self)}",
            rows=tuple((name, str(number)) for name, number in rows),
            sentences=tuple(_sentences(self)),
        )

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


AGAIN_IN_BACKWARD = (
    "The checkpointed block of {node} runs again in backward(). What has changed since of what it "
    "reads, such as weights and flags, is seen only as far as it was recorded."
)
SWITCH_ON = (
    "Gradients are switched off at this very moment: leave the no_grad() around it, or call "
    "torch.set_grad_enabled(True) before the outputs are computed."
)
MAX_SENTENCES = 5
"""How many findings of a kind get a sentence of their own."""


def _verdict(found: Preflight) -> str:
    if found.lacks_graph:
        return "backward will fail, as no output requires grad"
    if found.first_failure is not None:
        return f"backward will fail at {found.first_failure.name}"
    if found.may_fail:
        return "backward may fail"
    if found.silent:
        return "backward will compute wrong gradients"
    hides_something = found.hidden or found.running or found.checkpointed
    return f"no failure found{', as far as nodes show' if hides_something else ''}"


def _sentences(found: Preflight) -> Iterator[str]:
    if found.lacks_graph:
        yield _without_graph(found)
    yield from _first(conflict_sentences(found.conflicts), "conflict", "conflicts")
    yield from _first(found.silent, "silent error", "silent errors")
    yield from _on_failing_nodes(found)
    yield from _on_unseen_nodes(found)
    once = [
        f"{place_of_node(one.node)} stands in the way of a second derivative: {one.reason}."
        for one in found.once_differentiable
    ]
    yield from _first(once, "node", "nodes")
    if found.shapes and not (found.lacks_graph or found.may_fail):
        yield (
            f"An output of shape {shape_text(found.shapes[0])} is not one real number, so that "
            "backward() has to be given its gradient= as well. For a loss, call mean() or sum() on "
            "it, or leave reduction='none' out."
        )


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
            f"What {place_of_node(found.freed[0])} saved{others} was freed by an earlier "
            f"backward{found.second_backward}"
        )
    if found.detached:
        yield (
            f"A tensor that {place_of_node(found.detached[0])} saved has been cut from its graph "
            "by detach_() since, which backward refuses: use detach() instead, which gives another "
            "tensor."
        )
    if found.moved:
        yield (
            f"A leaf of shape {found.moved[0].shapes[0]} has become the result of a write in place "
            "since it was used, which backward refuses: give the result a name of its own."
        )
    if found.refusing:
        yield (
            f"{place_of_node(found.refusing[0])} stands for a derivative that does not exist, and "
            f"raises.{_cure_of_refusal(found.refusing[0])}"
        )
    for one in found.miscounted:
        yield (
            f"{one.told}, which backward refuses. Return one for each input of forward(), in "
            "order, and None for those that need none."
        )


def _cure_of_refusal(node: TracedNode) -> str:
    """Return what to do about an operation without a derivative, where that is known."""
    if node.name.startswith("GeneratedBackwardFor_"):
        return " Register a backward for the operator by torch.library.register_autograd()."
    if node.name.startswith("CompiledFunction"):
        return (
            " torch.compile made it: the backward of compiled code cannot be differentiated. Use "
            "the original module, not the compiled one, where a second derivative is computed."
        )
    if node.custom_function is not None:
        return " Write a backward() for it, which returns one gradient for each input."
    if node.name != "NotImplemented":
        return ""
    return (
        " Where a step such as x // y has no derivative but 0, divide by /, or pass the gradient "
        "straight through, as in q + (q.floor() - q).detach() for q = x / y; where none should "
        "pass, compute on x.detach()."
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
    doubts = {doubt: node for node, doubt in reversed(found.checkpointed)}
    for doubt, node in doubts.items():
        yield (doubt or AGAIN_IN_BACKWARD).format(node=place_of_node(node))


def _without_graph(found: Preflight) -> str:
    """Return what a backward without a graph fails at; `diagnose` finds where it was lost."""
    reason = (
        "None of the outputs requires grad, which backward refuses (element 0 of tensors does not "
        "require grad and does not have a grad_fn)"
    )
    if found.is_switched_off:
        return f"{reason}. {SWITCH_ON}"
    return (
        f"{reason}: compute them from a tensor that requires grad, outside no_grad() and "
        "detach(); diagnose() shows where their graph was lost."
    )


def _place_of_all(nodes: Sequence[TracedNode]) -> str:
    """Return the name and line of the first node, and how many there are besides."""
    others = f" and {count(len(nodes) - 1, 'other node')}" if len(nodes) > 1 else ""
    return f"{place_of_node(nodes[0])}{others}"
