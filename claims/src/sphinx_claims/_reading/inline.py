"""Read the roles in a paragraph whose content is executed."""

import difflib
from collections.abc import Iterator

from markdown_it.token import Token

from sphinx_claims._page import Inline, Problem

ROLES = ("claim", "value")
"""The roles whose content is executed."""


def read_inline(token: Token, line: int) -> Iterator[Inline | Problem]:
    """Yield the expressions in the text of `token`, which begins on `line`, and problems."""
    for child in token.children or ():
        if child.type in {"softbreak", "hardbreak"}:
            line += 1
        elif child.type == "myst_role":
            name, source = child.meta["name"], child.content
            if name in ROLES:
                yield Inline(line=line, role=name, source=source)
            elif meant := difflib.get_close_matches(name.lower(), ROLES, n=1, cutoff=0.75):
                message = f"{{{name}}}`{source}` is not executed: did you mean {{{meant[0]}}}?"
                yield Problem(line, message)
