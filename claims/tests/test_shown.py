"""A badge vouches for the sentence that a reader sees: where another was judged, it is red."""

from pathlib import Path
from typing import Any

import pytest

Building = Any
"""The fixture `build`: a small site that builds itself."""

PAGE = """\
# Sums

:::{{claim}} sums/two
{}
:::

```{{code-cell}} python
assert 1 + 1 == 2
```
"""
TICK = '✓<span class="claim-word"> true</span>'
CHANGED = "index.md:3: ERROR: sums/two: what a claim shows must be what was judged"

SOURCE_READ = """
def change(app, docname, source):
    source[0] = source[0].replace("is 2", "is 3")
def setup(app):
    app.connect("source-read", change)
"""
DOCTREE_READ = """
from docutils import nodes
def change(app, doctree):
    for text in doctree.findall(nodes.Text):
        if "is 2" in text:
            text.parent.replace(text, nodes.Text(text.replace("is 2", "is 3")))
            break
def setup(app):
    app.connect("doctree-read", change)
"""
SUBSTITUTED = """
myst_enable_extensions = ["substitution"]
myst_substitutions = {"sum": "3"}
"""


@pytest.mark.parametrize(
    ("conf", "sentence"),
    [
        (SOURCE_READ, "One plus one is 2."),
        (DOCTREE_READ, "One plus one is 2."),
        (SUBSTITUTED, "One plus one is {{ sum }}."),
    ],
    ids=["source-read", "doctree-read", "substitution"],
)
def test_a_sentence_that_is_changed_after_it_was_judged_is_red(
    conf: str, sentence: str, build: Building
) -> None:
    status, told = build(conf=conf, index=PAGE.format(sentence))
    assert status == 1
    assert CHANGED in told
    assert "it shows 'One plus one is 3.'" in told
    assert build.ledger()["claims"][0]["verdict"] == "false"
    assert TICK not in build.page()


QUOTED = '"One" -- plus one -- is 2... it\'s so, as `1 + 1` says.'


@pytest.mark.parametrize("conf", ["", 'myst_enable_extensions = ["substitution", "smartquotes"]'])
def test_smart_quotes_and_dashes_change_nothing(conf: str, build: Building) -> None:
    assert build(conf=conf, index=PAGE.format(QUOTED)) == (0, "")


def translated(folder: Path, sentence: str, translation: str) -> str:
    """Keep a translation; return the settings that use it."""
    messages = folder / "locales" / "de" / "LC_MESSAGES"
    messages.mkdir(parents=True)
    quoted = (text.replace('"', '\\"') for text in (sentence, translation))
    (messages / "index.po").write_text('msgid "{}"\nmsgstr "{}"\n'.format(*quoted))
    return "language = 'de'\nlocale_dirs = ['locales']\n"


def test_a_translation_with_another_number_is_red(build: Building) -> None:
    conf = translated(build.folder, "One plus one is 2.", "Eins plus eins ist 3.")
    status, told = build(conf=conf, index=PAGE.format("One plus one is 2."))
    assert status == 1
    assert CHANGED in told
    assert "it shows 'Eins plus eins ist 3.'" in told
    assert build.ledger()["claims"][0]["verdict"] == "false"


def test_a_translation_shows_what_was_judged(build: Building) -> None:
    sentence, german = "One plus one is 2: `1 + 1`.", "Eins plus eins ist 2: `1 + 1`."
    conf = translated(build.folder, sentence, german)
    assert build(conf=conf, index=PAGE.format(sentence)) == (0, "")
    assert "Eins plus eins ist 2" in build.page()
    assert "judged: One plus one is 2: 1 + 1." in build.page()
    assert TICK in build.page()
