"""Where NaN and infinity come from, as a value that shows itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from leafgrad._display.card import Card, ShownAsCard
from leafgrad._display.jsonable import fields_as_json
from leafgrad._display.units import count, first_few, shape_text, torch_name
from leafgrad._graph.nodes import Source, TracedNode, place_text
from leafgrad._graph.summary import NotFinite, TensorSummary

MOST_ORIGINS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class NanOrigin:
    """A place where NaN or infinity came up.

    Attributes:
        way: ``"value"`` on the way forward, ``"gradient"`` on the way back.
        kind: ``"NaN"`` or ``"infinity"``.
        operation: The operation, as in ``"sqrt"``; ``"leaf"`` for a tensor that held it before.
        node: The node of the operation, with line and module as far as a recording saw them; None
            for an output without a graph.
        given: What the operation was given, each by its name or number and what is known of it.
        made: What it made or, on the way back, what arrived at it.
        passed_on: What it passed on, on the way back.
        because: One sentence that says how it comes about.
        cure: One sentence that says what to do.
        source: The line of an operation that left no node, where that is known. Then `node` is the
            one that was given its result.
    """

    way: Literal["value", "gradient"]
    kind: NotFinite
    operation: str
    node: TracedNode | None
    given: tuple[tuple[str, TensorSummary | None], ...]
    made: tuple[TensorSummary | None, ...]
    passed_on: tuple[TensorSummary | None, ...]
    because: str
    cure: str
    source: Source | None = None

    @property
    def place(self) -> str:
        """Where it came up, in words."""
        if self.source is not None or self.node is None:
            return self.operation if self.source is None else f"{self.operation}, at {self.source}"
        return place_text(self.node)


@dataclass(frozen=True, kw_only=True, repr=False)
class NanReport(ShownAsCard):
    """Where NaN and infinity come from; `find_nan` makes it.

    Attributes:
        origins: The places where they came up and from which they went on to an output or to a
            leaf: those of the values in the order of the operations, then those of the gradients
            in the order of the backward.
        unrecorded: How many operations there are whose values nobody recorded.
        without_gradients: Why no backward was run, or None if one was.
    """

    origins: tuple[NanOrigin, ...]
    unrecorded: int
    without_gradients: str | None

    def __bool__(self) -> bool:
        """Whether anything was found."""
        return bool(self.origins)

    def _card(self) -> Card:
        first = self.origins[0] if self.origins else None
        title = "nothing that was seen is NaN or infinite" if first is None else _headline(first)
        rows = [row for origin in self.origins[:MOST_ORIGINS] for row in _rows(origin)]
        rows.append(("looked at", _looked_at(self)))
        return Card(title=f"find_nan: {title}", rows=tuple(rows), sentences=tuple(_sentences(self)))

    def to_dict(self) -> dict[str, Any]:
        """Return every field under its name, as JSON types only.

        Returns:
            The origins with their nodes.
        """
        return fields_as_json(self)


def came_in_with(node: TracedNode) -> tuple[str, ...]:
    """Return what brought in what is not finite; no mask, whose infinities are meant, for NaN."""
    given = node.value_turn_given
    is_masked = node.value_turn_kind == "NaN" and all("mask" in name for name in given)
    return () if is_masked else given


def _headline(origin: NanOrigin) -> str:
    node = origin.node
    if node is None and origin.source is None:
        return f"an output holds {origin.kind}"
    if node is None or origin.source is not None:
        return f"{origin.kind} comes up where nothing has a graph, in {origin.place}"
    if origin.way == "value" and (node.is_leaf or came_in_with(node)):
        held = came_in_with(node) or (node.leaf_name or "a leaf",)
        return f"{origin.kind} was in {' and '.join(held)} before"
    line = "" if node.source is None else f", {node.source}"
    return f"{origin.kind} comes up in the {origin.way} of {origin.operation}{line}"


def _rows(origin: NanOrigin) -> Iterator[tuple[str, str]]:
    near = (
        ", or right before it"
        if origin.way == "value" and origin.node is not None and origin.node.value_turn_is_near
        else ""
    )
    yield f"{origin.way}: {origin.kind}", f"from {origin.place}{near}"
    for name, value in origin.given:
        yield f"  given {name}", _text(value)
    for value in origin.made:
        yield "  made" if origin.way == "value" else "  arrived", _text(value)
    for value in origin.passed_on:
        yield "  passed on", _text(value)


def _text(value: TensorSummary | None) -> str:
    if value is None:
        return "not recorded"
    return f"{shape_text(value.shape)} {torch_name(value.dtype)}: {value}"


def _looked_at(report: NanReport) -> str:
    values = "all values"
    if report.unrecorded:
        values = f"values but those of {count(report.unrecorded, 'operation')}"
    return values if report.without_gradients else f"{values}, and the gradients of one backward"


def _sentences(report: NanReport) -> Iterator[str]:
    told = report.origins[:MOST_ORIGINS]
    yield from dict.fromkeys(words for one in told for words in (one.because, one.cure))
    if rest := [one.place for one in report.origins[MOST_ORIGINS:]]:
        yield f"It comes up elsewhere as well: {first_few(rest, MOST_ORIGINS)}."
    if report.without_gradients is not None:
        yield f"Gradients were not looked at: {report.without_gradients}"
    if report.unrecorded:
        yield (
            "Values are known where record(values=True) stood around the forward, "
            "and the recording was handed over."
        )
