"""Read the catalogue of a page: a gettext `.po` file with its messages in one language."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from babel.messages.pofile import PoFileError, read_po

from sphinx_claims._page import Problem

Reviews = Mapping[str, Mapping[str, str]]
"""For each page: the digest of a sentence -> the digest of the sentence and its translation."""

_LENGTH = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Message:
    """A sentence of a page and its translation, which may be empty.

    If `is_fuzzy`, the sentence has changed since it was translated.
    """

    line: int
    source: str
    translation: str
    is_fuzzy: bool

    @property
    def is_shown(self) -> bool:
        """Return whether readers see the translation; Sphinx does not show fuzzy ones."""
        return bool(self.translation) and not self.is_fuzzy


Catalogue = Mapping[str, Message]
"""The messages of a page, by their original sentence."""


def read_catalogue(file: Path) -> Catalogue | Problem:
    """Return the messages in a `.po` file by their original sentence, or a problem.

    The problem is returned if the file cannot be read.
    """
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


def read_reviews(file: Path) -> Reviews:
    """Return the digests of messages that were compared; an empty mapping if there is no file."""
    if not file.is_file():
        return {}
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return {page: {str(k): str(v) for k, v in of.items()} for page, of in kept.items()}
    except (AttributeError, ValueError) as error:
        raise ValueError(f"{file} must hold digests of sentences, page by page: {error}") from None


def write_reviews(file: Path, reviews: Reviews) -> None:
    """Write the digests of messages that were compared, grouped by page."""
    ordered = {page: dict(sorted(reviews[page].items())) for page in sorted(reviews)}
    file.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def review_digests(messages: Iterable[Message]) -> Mapping[str, str]:
    """Return the digests that record that somebody compared these messages with the original."""
    return {digest(one.source): digest(one.source, one.translation) for one in messages}


def digest(*texts: str) -> str:
    """Return a hash of one or more texts. It depends on their order."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_LENGTH]
