"""Results in the labels of a diagram that somebody drew: in Mermaid, in DOT, with characters."""

import re
from collections.abc import Iterator

from sphinx_claims._page import Stated
from sphinx_claims._reading.headline import headline
from sphinx_claims._reading.languages import DRAWN

_ATTRIBUTES = frozenset("digraph dot graph graphviz".split())
"""The languages in which brackets hold attributes, such as `[fontsize=10]`."""

_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
_BRACKETED = r"\[[^\]\n]*\]|\([^()\n]*\)|\{[^{}\n]*\}|\|[^|\n]*\|"
_LABEL = {True: re.compile(_QUOTED), False: re.compile(f"{_QUOTED}|{_BRACKETED}")}
_DRAWN = re.compile(r"[\u2190-\u21ff\u2500-\u257f\u27f5-\u27ff]|-->|->|<-|\+--")


def diagram(source: str, language: str, line: int) -> Iterator[Stated]:
    """Yield the numbers in the labels of a diagram whose first line is `line`."""
    for below, text in enumerate(source.split("\n")):
        if language in DRAWN:
            for label in _LABEL[language in _ATTRIBUTES].findall(text):
                yield from headline(label[1:-1].strip('"'), line + below, "diagram")
        elif _DRAWN.search(text):
            for label in re.split(rf"{_DRAWN.pattern}|\s{{2,}}", text):
                yield from headline(label, line + below, "diagram")
