"""A card: a title, rows of facts and sentences about them, as text and as HTML."""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from html import escape

from leafgrad._display.markup import visible
from leafgrad._display.text_width import cells, wrap

WIDTH = 79


@dataclass(frozen=True, kw_only=True)
class Card:
    """The contents of a card.

    Attributes:
        title: The value's name and what it is.
        rows: Pairs of a fact's name and the fact.
        sentences: What follows from the facts.
    """

    title: str
    rows: tuple[tuple[str, str], ...]
    sentences: tuple[str, ...]

    def to_text(self) -> str:
        """Return the card for a terminal, aligned and wrapped below 80 columns."""
        width = max(cells(name) for name, _ in self.rows)
        rows = (f"  {name}{'':{width - cells(name)}}  {fact}" for name, fact in self.rows)
        lines = (x for one in self.sentences for x in wrap(f"  - {visible(one)}", WIDTH, "    "))
        return "\n".join([*map(visible, [self.title, *rows]), *lines])

    def to_html(self) -> str:
        """Return the card for a notebook or a page, in the colours of the page."""
        rows = "".join(map(_html_row, self.rows))
        marked = (re.sub("`(.*?)`", _code(r"\1"), escape(sentence)) for sentence in self.sentences)
        items = "".join(f"<li>{sentence}</li>" for sentence in marked)
        return (
            '<div style="overflow-x: auto">'
            f'<table style="{TABLE}"><caption style="{CAPTION}">{escape(self.title)}</caption>'
            f"<tbody>{rows}</tbody></table>"
            f'<ul style="{LIST}">{items}</ul></div>'
        )


class ShownAsCard(ABC):
    """A value that a terminal and a notebook show as a card."""

    @abstractmethod
    def _card(self) -> Card:
        """Return the card of the value."""

    def __str__(self) -> str:
        return self._card().to_text()

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"<{kind}: {self._card().title.removeprefix(f'{kind.lower()}: ')}>"

    def _repr_html_(self) -> str:
        return self._card().to_html()


TABLE = "border-collapse: collapse; color: inherit; background: none; margin: 0"
CAPTION = (
    "caption-side: top; text-align: left; font-weight: bold; color: inherit; text-wrap: nowrap"
)
CELL = "text-align: left; padding: 0.1em 1em 0.1em 0; border: 0; background: none"
LIST = "margin: 0.4em 0; padding-left: 1.2em; max-width: 44em"


def _html_row(row: tuple[str, str]) -> str:
    name, fact = map(escape, row)
    return (
        f'<tr><th scope="row" style="{CELL}; font-weight: normal; opacity: 0.75">{name}</th>'
        f'<td style="{CELL}">{_code(fact)}</td></tr>'
    )


def _code(fact: str) -> str:
    return f'<code style="color: inherit">{fact}</code>'
