"""Translate the Markdown of a page message by message, as Sphinx does."""

import re
from collections.abc import Mapping
from pathlib import Path

from babel.messages.pofile import read_po
from sphinx.config import Config

CELL = re.compile(r"^(`{3,})\{code-cell\}.*\n(?:.*\n)*?\1$", re.MULTILINE)
BEFORE = r"(?m:^[ \t]*(?:notebook: |#{1,6} |[-*+] |\d+\. |:{3,}\{[\w-]+\} )?|\| *)"
AFTER = r"(?=[ \t]*(?:\||$))"
KEPT = "\0{}\0"
"""A placeholder for text that is translated already, so that no message is found in it."""


def messages(config: Config, folder: Path, page: str) -> Mapping[str, str]:
    """Return the translations of a page's messages, by English message."""
    for locales in config.locale_dirs:
        file = folder / locales / str(config.language) / "LC_MESSAGES" / f"{page}.po"
        if file.is_file():
            with file.open("rb") as stream:
                found = [one for one in read_po(stream) if one.id and one.string and not one.fuzzy]
            return {str(one.id): str(one.string) for one in found}
    return {}


def translated(text: str, catalogue: Mapping[str, str]) -> str:
    """Return the Markdown `text` of a page with its sentences translated by `catalogue`.

    Sentences that are not in the catalogue stay English, and so do code cells.
    """
    kept: list[str] = []

    def keep(part: str) -> str:
        kept.append(part)
        return KEPT.format(len(kept) - 1)

    text = CELL.sub(lambda cell: keep(cell[0]), text)
    for said in sorted(catalogue, key=len, reverse=True):
        words = r"\s+".join(map(re.escape, said.split()))
        sentence = re.compile(f"({BEFORE}){words}{AFTER}", re.MULTILINE)
        if sentence.search(text):
            text = sentence.sub(rf"\g<1>{keep(catalogue[said])}", text)
    for number in reversed(range(len(kept))):
        text = text.replace(KEPT.format(number), kept[number])
    return text
