"""HTML and SVG markup. Text is escaped here only, so that no name can inject markup."""

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
    """Replace invisible characters: controls, direction marks, surrogates.

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
    """Return an element; ``_`` in names of attributes becomes ``-``, and `class_` ``class``."""
    written = ""
    for key, value in attributes.items():
        shown = coordinate(value) if isinstance(value, float) else value
        written += f' {key.rstrip("_").replace("_", "-")}="{text(shown)}"'
    inner = "".join(content)
    return Markup(f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>")


def preformatted(lines: str) -> Markup:
    """Return lines of text as they are, in the colours of the page."""
    style = "color: inherit; background: none; overflow-x: auto"
    return Markup(f'<pre style="{style}">{escape(lines)}</pre>')


def coordinate(value: float) -> str:
    """Return a length to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def path(start: tuple[float, float], *steps: str) -> str:
    """Return a path from a point, with steps in SVG's notation."""
    return f"M{coordinate(start[0])} {coordinate(start[1])}{''.join(steps)}"
