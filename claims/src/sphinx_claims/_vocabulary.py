"""The words of the library that pages are about, by which typed results and code are known."""

import contextlib
import dataclasses
import re
from collections.abc import Iterable, Iterator
from contextvars import ContextVar


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """What `[tool.claims.vocabulary]` says, nothing by default.

    Attributes:
        names: What packages are called in code and in sentences, as `np` and `NumPy`: a number
            behind one is a release, and a snippet that uses one is Python.
        printed: What the printed values begin with, as `array(`.
        results: Regular expressions for words that only a program gives, as the names of its nodes.
    """

    names: tuple[str, ...] = ()
    printed: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


_current: ContextVar[Vocabulary] = ContextVar("vocabulary")
_NONE = Vocabulary()


def known() -> Vocabulary:
    """Return the words by which pages are read here."""
    return _current.get(_NONE)


@contextlib.contextmanager
def speaking(vocabulary: Vocabulary) -> Iterator[None]:
    """Read pages by the words of one project."""
    token = _current.set(vocabulary)
    try:
        yield
    finally:
        _current.reset(token)


def one_of(words: Iterable[str]) -> str:
    """Return a regular expression for any of these words, which never matches if there is none."""
    return f"(?:{'|'.join(map(re.escape, words)) or '(?!)'})"
