"""A block of code or text that a page shows: executed as examples, or looked at."""

import doctest
from collections.abc import Iterator

from sphinx_claims._page import Doctest, Problem, Stated
from sphinx_claims._reading.diagram import diagram
from sphinx_claims._reading.languages import Kind, kind_of, language_of
from sphinx_claims._reading.typed_results import (
    by_hand,
    comments_in_examples,
    shown_result,
    unchecked,
)
from sphinx_claims._reading.unexecuted_code import has_examples, unexecuted


def snippet(source: str, info: str, fence: int, line: int) -> Iterator[Doctest | Problem | Stated]:
    """Yield the examples or results in a block from `line` on, or what is wrong at its `fence`."""
    language = language_of(info)
    says_nothing = not language or kind_of(language) is Kind.TEXT
    if has_examples(source) and (says_nothing or kind_of(language) is Kind.PYTHON):
        yield Doctest(line=line, source=source)
        for below, text in comments_in_examples(source):
            yield Problem(line + below, unchecked(text))
        yield from snippet_problems(_between(source), "", fence)
    else:
        yield from snippet_problems(source, info, fence)
        if says_nothing or kind_of(language) is Kind.PLAIN:
            yield from diagram(source, language, line)


def snippet_problems(source: str, info: str, fence: int) -> Iterator[Problem]:
    """Yield what is wrong with a block that nobody executes."""
    reason = unexecuted(source, language_of(info)) if source.strip() else None
    node = shown_result(source)
    if reason is not None or node is not None:
        yield Problem(fence, reason or by_hand(node or ""), snippet=source.strip())


def _between(source: str) -> str:
    """Return what stands between the examples of a block and their outputs."""
    try:
        found = doctest.DocTestParser().parse(source)
    except ValueError:  # which those who execute them tell
        return ""
    return "\n".join(text for text in found if isinstance(text, str))
