"""Kinds, scopes and exceptions: what a claim speaks of, and what other cells say of it."""

from pathlib import Path

import pytest

from sphinx_claims._config import Config
from sphinx_claims._judging.pages import read_pages

SCOPE = """\
`complex`
: Complex numbers.

Inside:

`empty`
: Tensors without elements.
"""
PAGE = """\
---
scope: +complex
---

:::{claim} root/two
:scope: WORDS

The root of four is two.
:::

```{code-cell} python
:exception-to: ID empty

root = 2
```
"""


@pytest.mark.parametrize(
    ("words", "identifier", "found"),
    [
        ("-complex -empty", "root/two", ""),
        ("empty", "root/two", "a word of a scope is + or - and one of complex, empty, not 'empty'"),
        ("", "root/three", ":exception-to: must name a claim, and no page has root/three"),
    ],
)
def test_words_of_scopes_and_ids_of_exceptions_must_be_known(
    words: str, identifier: str, found: str, tmp_path: Path
) -> None:
    (tmp_path / "scope.md").write_text(SCOPE)
    file = tmp_path / "page.md"
    file.write_text(PAGE.replace("WORDS", words).replace("ID", identifier))
    (page,) = read_pages([file], Config(root=tmp_path, scope="scope.md"))
    assert [problem.message[: len(found)] for problem in page.problems] == [found] * bool(found)
    if not found:
        assert page.claims[0].outside == {"complex", "empty"}
        assert page.claims[0].exceptions == ("empty",)
