"""HTML and SVG elements from text. Only this file escapes text, so no name can inject markup."""

import unicodedata
from html import escape
from typing import NewType

Markup = NewType("Markup", str)

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
UNSEEN = ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")


def text(content: object) -> Markup:
    """Return a text as markup, with special characters escaped and invisible ones replaced."""
    return Markup(escape(visible(str(content))))


def visible(content: str) -> str:
    """Replace invisible characters, such as controls and direction marks, by a replacement mark.

    XML cannot escape most of them, and a direction mark would also reverse the text after it.
    """
    if content.isprintable():
        return content
    return "".join(
        REPLACEMENT if unicodedata.category(character) in UNSEEN else character
        for character in content
    )


def element(name: str, *content: Markup, **attributes: object) -> Markup:
    """Return an HTML or SVG element.

    In attribute names, ``_`` becomes ``-``, and `class_` becomes ``class``.
    """
    written = ""
    for key, value in attributes.items():
        shown = coordinate(value) if isinstance(value, float) else value
        written += f' {key.rstrip("_").replace("_", "-")}="{text(shown)}"'
    inner = "".join(content)
    return Markup(f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>")


def preformatted(lines: str) -> Markup:
    """Return lines of text as an HTML `pre` element in the colours of the page."""
    style = "color: inherit; background: none; overflow-x: auto"
    return Markup(f'<pre style="{style}">{escape(lines)}</pre>')


def coordinate(value: float) -> str:
    """Return the length `value` as text, rounded to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def path(start: tuple[float, float], *steps: str) -> str:
    """Return the `d` attribute of an SVG path from a start point and further path commands."""
    return f"M{coordinate(start[0])} {coordinate(start[1])}{''.join(steps)}"
