"""What a recording saw, as a line of text."""

from html import escape
from typing import TYPE_CHECKING

from leafgrad._display.units import count

if TYPE_CHECKING:
    from leafgrad._record.record import Recording


def text(recording: "Recording") -> str:
    """Count what it saw."""
    nodes = f"{count(recording.node_count, 'node')} from {count(len(recording.sources), 'line')}"
    modules = count(len(recording.modules), "module")
    writes = count(len(recording.writes), "write")
    return f"recording of {nodes}, {modules} and {writes} in place"


def html(recording: "Recording") -> str:
    """Show the text in a notebook."""
    return f"<p>{escape(text(recording))}</p>"
