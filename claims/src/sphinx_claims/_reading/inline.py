"""What stands in a paragraph: roles that are executed, results in code spans, comments."""

import difflib
import html
from collections.abc import Iterator

from markdown_it.token import Token

from sphinx_claims._page import Inline, Problem, Stated
from sphinx_claims._reading.compared import compared
from sphinx_claims._reading.headline import formula, headline
from sphinx_claims._reading.html import read_html
from sphinx_claims._reading.typed_results import ROLES, by_hand, printed_value

_TO_CLAIM = "; {claim} checks an expression where it stands"


def read_inline(token: Token, line: int) -> Iterator[Inline | Problem | Stated]:
    """Yield the expressions and results in the text of `token`, which begins on `line`."""
    children = token.children or []
    if any(child.type == "html_inline" for child in children):
        yield from read_html("".join(map(_as_html, children)), line)
    said = {id(child): text for child, text in compared(children)}
    for child in children:
        if id(child) in said:
            yield Problem(line, by_hand(said[id(child)]) + _TO_CLAIM)
        match child.type:
            case "softbreak" | "hardbreak":
                line += 1
            case "myst_role":
                yield from _role(child.meta["name"], child.content, line)
            case "code_inline" | "text" if value := printed_value(child.content):
                yield Problem(line, by_hand(value))
            case "math_inline":
                yield from formula(child.content, line)
            case "image":
                words = f"{child.content}\n{child.attrs.get('title', '')}"
                yield from headline(words, line, "text for a picture")


def _as_html(child: Token) -> str:
    if child.type in {"softbreak", "hardbreak"}:
        return "\n"
    return child.content if child.type == "html_inline" else html.escape(child.content)


def _role(name: str, source: str, line: int) -> Iterator[Inline | Problem]:
    if name in ROLES:
        yield Inline(line=line, role=name, source=source)
    elif name == "eval" or name.startswith("glue"):
        yield Problem(line, f"nobody evaluates {{{name}}}`{source}`: use {{value}}")
    elif meant := difflib.get_close_matches(name.lower(), ROLES, n=1, cutoff=0.75):
        yield Problem(line, f"nobody evaluates {{{name}}}`{source}`: is {{{meant[0]}}} meant?")
