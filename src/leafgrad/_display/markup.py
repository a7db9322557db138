"""Markup: the one place where text becomes part of it, so that no name can smuggle any in."""

import unicodedata
from html import escape
from typing import NewType

Markup = NewType("Markup", str)

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
UNSEEN = ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")


def text(content: object) -> Markup:
    """Escape a text, after `visible`."""
    return Markup(escape(visible(str(content))))


def visible(content: str) -> str:
    """Replace what is not to be seen: controls, marks that turn the direction of text, surrogates.

    XML knows no escape for most of them, and a mark that turns text around would turn what
    follows, too.
    """
    if content.isprintable():
        return content
    return "".join(
        REPLACEMENT if unicodedata.category(character) in UNSEEN else character
        for character in content
    )


def element(name: str, *content: Markup, **attributes: object) -> Markup:
    """Write an element; `_` in the name of an attribute stands for ``-``, and ends `class_`."""
    written = ""
    for key, value in attributes.items():
        shown = coordinate(value) if isinstance(value, float) else value
        written += f' {key.rstrip("_").replace("_", "-")}="{text(shown)}"'
    inner = "".join(content)
    return Markup(f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>")


def preformatted(lines: str) -> Markup:
    """Write lines of text as they stand, in the colours of what is around them."""
    style = "color: inherit; background: none; overflow-x: auto"
    return Markup(f'<pre style="{style}">{escape(lines)}</pre>')


def coordinate(value: float) -> str:
    """Write a length to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def path(start: tuple[float, float], *steps: str) -> str:
    """Write a path from a point on, with steps as SVG has them."""
    return f"M{coordinate(start[0])} {coordinate(start[1])}{''.join(steps)}"
