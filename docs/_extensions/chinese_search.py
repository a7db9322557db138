"""Search in Chinese: text is cut into pairs of characters, as search.js cuts a query.

Words need no dictionary so, and a part of a sentence is found where all of its pairs stand. What is
not Chinese is found as on the English site.
"""

import re
from collections.abc import Iterator

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish
from sphinx.util.typing import ExtensionMetadata

RUNS = re.compile(r"[\u4e00-\u9fff]+|[^\W\u4e00-\u9fff]+")


class SearchChinese(SearchEnglish):
    """Pairs of Chinese characters, and English words."""

    lang = "zh"

    def split(self, input: str) -> list[str]:  # noqa: A002 - Sphinx calls it so
        """Cut a text into words and pairs."""
        return [part for run in RUNS.findall(input) for part in pairs(run)]


def pairs(run: str) -> Iterator[str]:
    """Yield each pair of adjacent characters in Chinese text; yield other text as words."""
    if len(run) == 1 or not "\u4e00" <= run[0] <= "\u9fff":
        yield run
    else:
        yield from (run[place : place + 2] for place in range(len(run) - 1))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Replace Sphinx's Chinese search, whose dictionary lacks the terms of this site."""
    app.add_search_language(SearchChinese)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
