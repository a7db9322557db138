"""A card: a title, a table of facts, and sentences that follow from them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from leafgrad._display.markup import preformatted, visible
from leafgrad._display.text_width import cells, wrap

WIDTH = 79


@dataclass(frozen=True, kw_only=True)
class Card:
    """The contents of a card.

    Attributes:
        title: The name of the value, and what it is.
        rows: Pairs of a fact's name and its value.
        sentences: Conclusions from the facts.
    """

    title: str
    rows: tuple[tuple[str, str], ...]
    sentences: tuple[str, ...]

    def to_text(self) -> str:
        """Return the card as text for a terminal, at most 79 columns wide."""
        width = max(cells(name) for name, _ in self.rows)
        rows = (f"  {name}{'':{width - cells(name)}}  {fact}" for name, fact in self.rows)
        lines = (x for one in self.sentences for x in wrap(f"  - {visible(one)}", WIDTH, "    "))
        return "\n".join([*map(visible, [self.title, *rows]), *lines])


class ShownAsCard(ABC):
    """Base class of values that print as a card, in a terminal and in a notebook."""

    @abstractmethod
    def _card(self) -> Card:
        """Return the card that describes the value."""

    def __str__(self) -> str:
        return self._card().to_text()

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"<{kind}: {self._card().title.removeprefix(f'{kind.lower()}: ')}>"

    def _repr_html_(self) -> str:
        return preformatted(str(self))
