"""The catalogue of a page in one language: a `.po` file, as gettext has them."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from babel.messages.pofile import PoFileError, read_po

from sphinx_claims._page import Problem


@dataclasses.dataclass(frozen=True, kw_only=True)
class Message:
    """A sentence of a page and its translation, which is empty where there is none.

    A `is_fuzzy` one was made for another sentence, which has changed since.
    """

    line: int
    source: str
    translation: str
    is_fuzzy: bool

    @property
    def is_shown(self) -> bool:
        """Return whether a reader sees the translation: Sphinx shows none that is fuzzy."""
        return bool(self.translation) and not self.is_fuzzy


Catalogue = Mapping[str, Message]
"""The messages of a page by their source."""


def read_catalogue(file: Path) -> Catalogue | Problem:
    """Read a `.po` file; what cannot be read is a problem of it."""
    try:
        with file.open("rb") as stream:
            messages = [message for message in read_po(stream, abort_invalid=True) if message.id]
    except (OSError, PoFileError, UnicodeError, ValueError) as error:
        return Problem(
            getattr(error, "lineno", None) or 1, f"a catalogue must be readable: {error}"
        )
    return {
        str(message.id): Message(
            line=message.lineno or 1,
            source=str(message.id),
            translation=str(message.string or ""),
            is_fuzzy=message.fuzzy,
        )
        for message in messages
    }
