"""Which translations a second reader has compared with their sentences."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from sphinx_claims._translating.catalogue import Message

Reviews = Mapping[str, Mapping[str, str]]
"""For each page the digest of a sentence, and that of it with its translation."""

_LENGTH = 16


def read_reviews(file: Path) -> Reviews:
    """Read what was reviewed in a language: nothing where there is no such file."""
    if not file.is_file():
        return {}
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return {
            page: {**{str(k): str(v) for k, v in of_page.items()}} for page, of_page in kept.items()
        }
    except (AttributeError, ValueError) as error:
        raise ValueError(f"{file} must hold digests of sentences, page by page: {error}") from None


def write_reviews(file: Path, reviews: Reviews) -> None:
    """Write what was reviewed in a language, page by page."""
    ordered = {page: dict(sorted(reviews[page].items())) for page in sorted(reviews)}
    file.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def reviewed(messages: Iterable[Message]) -> Mapping[str, str]:
    """Return what is to be kept of the messages of a page that somebody has compared."""
    return {
        digest(message.source): digest(message.source, message.translation) for message in messages
    }


def digest(*texts: str) -> str:
    """Return a number for some texts in their order."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_LENGTH]
