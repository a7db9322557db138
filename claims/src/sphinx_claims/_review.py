"""`claims review LANGUAGE [PATHS]`: show translations that nobody has compared yet."""

from collections.abc import Sequence
from pathlib import Path

from sphinx_claims._config import TABLE, Config
from sphinx_claims._judging.pages import read_pages
from sphinx_claims._translating.catalogue import read_reviews, review_digests, write_reviews
from sphinx_claims._translating.translation import (
    TranslatedPage,
    languages,
    reviews_file,
    translated_pages,
)


def review(config: Config, files: Sequence[Path], language: str, *, accept: bool) -> bool:
    """Print the translations that nobody has compared. Return whether there are none.

    With `accept`, store all of them as compared and return True.
    """
    known = languages(config)
    if language not in known:
        have = f"there are {', '.join(known)}" if known else f"translations in {TABLE} names none"
        raise ValueError(f"a language must have catalogues, and {language} has none: {have}")
    pages = [*translated_pages(config, language, read_pages(files, config))]
    waiting = [(page, message) for page in pages for message in page.uncompared()]
    if accept:
        _keep(config, language, pages)
    for page, message in waiting:
        print(f"{page.path}:{message.line}\n    {message.source}\n    {message.translation}")
    told = "are kept as compared" if accept else "wait for a reader: add --accept once compared"
    print(f"{len(waiting)} of {sum(len(page.messages) for page in pages)} translations {told}")
    return accept or not waiting


def _keep(config: Config, language: str, pages: Sequence[TranslatedPage]) -> None:
    """Store all messages of the given pages as compared. Drop messages that no longer exist."""
    file = reviews_file(config, language)
    kept = dict(read_reviews(file))
    for page in pages:
        kept[page.page.path] = review_digests(page.messages)
    write_reviews(file, {path: of_page for path, of_page in kept.items() if of_page})
