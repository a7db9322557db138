"""An `{unproven}` directive -> Escape: what it holds is shown and not proven, and it says why."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sphinx_claims._page import (
    Cell,
    Claim,
    Doctest,
    Escape,
    Heading,
    Inline,
    Item,
    Problem,
    Stated,
)

_PROVEN = (Cell, Claim, Inline)


def read_escape(
    found: Sequence[Item | Problem], options: Mapping[str, Any], line: int
) -> Iterator[Item | Problem]:
    """Yield the escape on `line` for what was `found` in it, or why there is none."""
    because = " ".join(str(options.get("because") or "").split())
    for key in sorted(options.keys() - {"because"}):
        yield Problem(line, f"the option of {{unproven}} is because, not {key!r}")
    if not because:
        yield Problem(line, "{unproven} must say why, in :because:")
    if any(isinstance(thing, _PROVEN) for thing in found):
        rule = "{unproven} must hold nothing that would be proven"
        yield Problem(line, f"{rule}, and here is a cell, a claim or a role: take it out")
    elif not any(isinstance(thing, Problem | Doctest | Stated) for thing in found):
        yield Problem(line, "nothing in here has to be proven: take {unproven} away")
    yield Escape(line=line, because=because)
    yield from (thing for thing in found if isinstance(thing, Heading))
