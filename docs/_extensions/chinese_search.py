"""Search Chinese text by pairs of adjacent characters; `search.js` splits queries in the same way.

This needs no dictionary of words. A phrase matches pages that contain all of its pairs. Text that
is not Chinese is searched as on the English site.
"""

import re
from collections.abc import Iterator

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish
from sphinx.util.typing import ExtensionMetadata

RUNS = re.compile(r"[\u4e00-\u9fff]+|[^\W\u4e00-\u9fff]+")


class SearchChinese(SearchEnglish):
    """Sphinx's search for the Chinese site: pairs of Chinese characters, and English words."""

    lang = "zh"

    def split(self, input: str) -> list[str]:  # noqa: A002 - Sphinx calls it so
        """Return the English words and the pairs of Chinese characters in a text."""
        return [part for run in RUNS.findall(input) for part in pairs(run)]


def pairs(run: str) -> Iterator[str]:
    """Yield each pair of adjacent characters in Chinese text; yield other text as words.

    `run` consists only of Chinese characters, or is a word without any.
    """
    if len(run) == 1 or not "\u4e00" <= run[0] <= "\u9fff":
        yield run
    else:
        yield from (run[place : place + 2] for place in range(len(run) - 1))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Replace Sphinx's Chinese search, because its dictionary lacks the terms of this site."""
    app.add_search_language(SearchChinese)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
