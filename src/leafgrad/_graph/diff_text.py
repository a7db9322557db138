"""What came and went between two traces, as text: a line a kind of node."""

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from leafgrad._display.table import table
from leafgrad._display.units import count, size

if TYPE_CHECKING:
    from leafgrad._graph.diff import GraphDiff, KindChange

MOST_KINDS = 20


def text(diff: "GraphDiff") -> str:
    """Sum up what came and went, then list the kinds of node that changed."""
    return "\n".join(_lines(diff))


def html(diff: "GraphDiff") -> str:
    """Show the text in a notebook, in the colours of what is around it."""
    style = "color: inherit; background: none; overflow-x: auto"
    return f'<pre style="{style}">{escape(text(diff))}</pre>'


def _lines(diff: "GraphDiff") -> Iterator[str]:
    nodes = f"{count(len(diff.went), 'node')} went, {len(diff.came)} came"
    before = size(diff.before.total.bytes_without_parameters)
    after = size(diff.after.total.bytes_without_parameters)
    yield f"{nodes}; {before} before, {after} after, without parameters"
    if diff.kinds:
        yield ""
        rows = [("node", "before", "after", "bytes before", "after")]
        yield from table([*rows, *map(_row, diff.kinds[:MOST_KINDS])], right=(1, 2, 3, 4))
    if len(diff.kinds) > MOST_KINDS:
        yield f"and {count(len(diff.kinds) - MOST_KINDS, 'other kind')}"


def _row(change: "KindChange") -> tuple[str, ...]:
    nodes = change.nodes_before, change.nodes_after
    nbytes = change.bytes_before, change.bytes_after
    return change.name, *map(str, nodes), *map(size, nbytes)
