"""A card: a title, rows of facts and sentences about them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from leafgrad._display.markup import preformatted, visible
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
        return preformatted(str(self))
