"""Check a site in another language: its translated claims, and the state of each translation."""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sphinx_claims._config import Config, relative_path
from sphinx_claims._page import Claim, Page, Problem
from sphinx_claims._translating.catalogue import (
    Catalogue,
    Message,
    digest,
    read_catalogue,
    read_reviews,
)
from sphinx_claims._translating.differences import differences, is_reordered
from sphinx_claims._translating.glossary import Words, words_for

WORDS = ("current", "stale", "missing", "false", "unreviewed")
_MESSAGES = "LC_MESSAGES"
_REVIEWS = "reviewed.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Translation:
    """The translations of all claims in one language, and the state of each translation.

    `sentences` and `words` map the id of a claim to its translation and to its state: `current`,
    `missing`, `stale` (the sentence has changed since), `false` (its numbers, code,
    links or terms differ) or `unreviewed` (nobody has compared the two).
    """

    language: str
    sentences: Mapping[str, str]
    words: Mapping[str, str]
    problems: tuple[tuple[str, Problem], ...]

    @property
    def totals(self) -> Mapping[str, int]:
        """The number of claims in each state of translation."""
        return {word: [*self.words.values()].count(word) for word in WORDS}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslatedPage:
    """One page in one language: its catalogue and its reviews.

    `path` is the path of the catalogue in reports. `reviews` maps the digest of each sentence that
    somebody compared to the digest of the sentence with its translation. `words` contains the
    translated words for glossary terms.
    """

    page: Page
    path: str
    catalogue: Catalogue | Problem
    reviews: Mapping[str, str]
    words: Words

    @property
    def messages(self) -> Sequence[Message]:
        """The messages whose translation readers see."""
        found = [] if isinstance(self.catalogue, Problem) else self.catalogue.values()
        return [message for message in found if message.is_shown]

    def message(self, claim: Claim) -> Message | None:
        """Return the message whose original is the sentence of a claim, or None."""
        return None if isinstance(self.catalogue, Problem) else self.catalogue.get(claim.statement)

    def word(self, claim: Claim) -> str:
        """Return the state of a claim's translation, as described in `Translation`."""
        message = self.message(claim)
        if message is None or message.is_fuzzy:
            return "stale"
        if not message.translation:
            return "missing"
        if self.is_false(message):
            return "false"
        return "current" if self.is_reviewed(message) else "unreviewed"

    def is_false(self, message: Message) -> bool:
        """Return whether a translation has other numbers, code, links or terms than its original.

        `differences` lists all parts that are compared.
        """
        return any(differences(message.source, message.translation, self.words))

    def is_reviewed(self, message: Message) -> bool:
        """Return whether somebody has compared a translation and its original as they are now."""
        known = self.reviews.get(digest(message.source))
        return known == digest(message.source, message.translation)

    def uncompared(self) -> list[Message]:
        """Return the messages that nobody has compared with the original as they are now."""
        return [message for message in self.messages if not self.is_reviewed(message)]

    def waiting(self) -> Iterator[Message]:
        """Yield the messages that somebody must compare with the original.

        These are uncompared claims, messages that have changed since they were compared, and
        messages whose numbers or code are in another order than in the original.
        """
        claims = {claim.statement for claim in self.page.claims}
        for message in self.uncompared():
            if (
                message.source in claims
                or digest(message.source) in self.reviews
                or is_reordered(message.source, message.translation)
            ):
                yield message

    def problems(self) -> Iterator[Problem]:
        """Yield the problems: an unreadable catalogue, and false or unreviewed translations."""
        if isinstance(self.catalogue, Problem):
            yield self.catalogue
            return
        for message in self.messages:
            for difference in differences(message.source, message.translation, self.words):
                yield Problem(message.line, f"{self._name(message)} is FALSE: {difference}")
        for message in self.waiting():
            if not self.is_false(message):
                found = "nobody has compared it with its sentence: see `claims review`"
                yield Problem(message.line, f"{self._name(message)} is unreviewed: {found}")

    def _name(self, message: Message) -> str:
        for claim in self.page.claims:
            if claim.statement == message.source:
                return f"the translation of claim {claim.id} ({self.page.path}:{claim.line})"
        return f"a translation for {self.page.path}"


def languages(config: Config) -> list[str]:
    """Return the names of the languages for which there are catalogues."""
    if config.translations is None:
        return []
    folder = config.root / config.translations
    return sorted(path.parent.name for path in folder.glob(f"*/{_MESSAGES}") if path.is_dir())


def reviews_file(config: Config, language: str) -> Path:
    """Return the path of the file that records which messages were compared in a language."""
    return config.root / str(config.translations) / language / _REVIEWS


def translated_pages(
    config: Config, language: str, pages: Sequence[Page]
) -> Iterator[TranslatedPage]:
    """Yield those of `pages` that have a catalogue in a language."""
    folder = config.root / str(config.translations)
    reviews = read_reviews(reviews_file(config, language))
    words = _words(config, folder / language)
    for page in pages:
        file = _catalogue_of(page.path, config, folder / language)
        if file.is_file():
            yield TranslatedPage(
                page=page,
                path=relative_path(config.root, file),
                catalogue=read_catalogue(file),
                reviews=reviews.get(page.path, {}),
                words=words,
            )


def read_translations(config: Config, pages: Sequence[Page]) -> tuple[Translation, ...]:
    """Return the translation of the claims on `pages` into each language with catalogues."""
    return tuple(_translation(config, language, pages) for language in languages(config))


def _translation(config: Config, language: str, pages: Sequence[Page]) -> Translation:
    found = [*translated_pages(config, language, pages)]
    pairs = [(page, claim) for page in found for claim in page.page.claims]
    known = {claim.id: page.word(claim) for page, claim in pairs}
    messages = {claim.id: page.message(claim) for page, claim in pairs}
    return Translation(
        language=language,
        sentences={key: one.translation for key, one in messages.items() if one and one.is_shown},
        words={c.id: known.get(c.id, "missing") for page in pages for c in page.claims},
        problems=tuple((page.path, problem) for page in found for problem in page.problems()),
    )


def _words(config: Config, folder: Path) -> Words:
    """Return the words for glossary terms in the language of `folder`; none without a glossary."""
    if config.glossary is None:
        return {}
    catalogue = read_catalogue(_catalogue_of(config.glossary, config, folder))
    if isinstance(catalogue, Problem):
        return {}
    return words_for((config.root / config.glossary).read_text(encoding="utf-8"), catalogue)


def _catalogue_of(path: str, config: Config, folder: Path) -> Path:
    """Return the path of a page's catalogue. Catalogues have the same folders as the pages."""
    source = (config.root / str(config.translations)).parent
    name = os.path.relpath(config.root / path, source)
    return (folder / _MESSAGES / name).with_suffix(".po")
