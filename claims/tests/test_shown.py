"""A badge is green only if the sentence that a reader sees is the one that was judged."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from babel.messages.pofile import read_po

import sphinx_claims
from sphinx_claims._sphinx.badges import BADGES, TRANSLATIONS
from sphinx_claims._sphinx.notebook import _output
from sphinx_claims._translating.catalogue import digest

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
LEDGER = "\n```{claims-ledger}\n```\n"
TICK = '✓<span class="claim-word"> true</span>'


def translated(folder: Path, sentence: str, translation: str, language: str = "de") -> str:
    """Write a translation; return the settings that use it."""
    messages = folder / "locales" / language / "LC_MESSAGES"
    messages.mkdir(parents=True, exist_ok=True)
    quoted = (text.replace('"', '\\"') for text in (sentence, translation))
    (messages / "index.po").write_text('msgid "{}"\nmsgstr "{}"\n'.format(*quoted), "utf-8")
    # Sphinx would load a dictionary to index Chinese, which takes longer than the test.
    searched = "html_search_language = 'en'\n"
    return f"language = '{language}'\nlocale_dirs = ['locales']\n{searched}"


def test_unreviewed_translation_is_shown_with_the_judged_sentence(build: Building) -> None:
    sentence, german = "One plus one is 2: `1 + 1`.", "Eins plus eins ist 2: `1 + 1`."
    conf = translated(build.folder, sentence, german)
    assert build(conf=conf, index=PAGE.format(sentence)) == (0, "")
    assert "Eins plus eins ist 2" in build.page()
    assert "judged: One plus one is 2: 1 + 1." in build.page()
    assert TICK in build.page()


SENTENCE, CHINESE = "One plus one is 2: `1 + 1`.", "一加一等于2：`1 + 1`。"


def told_in_chinese(build: Building, translation: str, *, accepted: bool = True) -> str:
    """Build a site in Chinese; return its page."""
    conf = translated(build.folder, SENTENCE, translation, "zh_CN")
    if accepted:
        kept = {digest(SENTENCE): digest(SENTENCE, translation)}
        (build.folder / "locales/zh_CN/reviewed.json").write_text(json.dumps({"index.md": kept}))
    build(conf=conf, toml='translations = "locales"\n', index=PAGE.format(SENTENCE) + LEDGER)
    page: str = build.page()
    return page


def test_reviewed_translation_is_shown_without_the_sentence(build: Building) -> None:
    page = told_in_chinese(build, CHINESE)
    assert '✓<span class="claim-word"> 成立</span>' in page
    assert page.count("一加一等于2") == 2  # It appears on the page and in its ledger.
    assert "1 个论断，1 项检查" in page
    assert SENTENCE[:12] not in page


@pytest.mark.parametrize(
    ("translation", "word", "told"),
    [
        (CHINESE, "unreviewed", "译文尚未与已验证的原文对照。"),
        (CHINESE.replace("2", "3"), "false", "译文与已验证的原文不符。"),
        ("", "missing", "这句话尚未翻译。"),
    ],
)
def test_page_shows_the_state_of_a_translation(
    translation: str, word: str, told: str, build: Building
) -> None:
    page = told_in_chinese(build, translation, accepted=False)
    assert f"translation-{word}" in page
    assert told in page
    assert ("已验证的原文：One plus one is 2: 1 + 1." in page) == bool(translation)
    assert build.ledger()["claims"][0]["translations"] == {"zh_CN": word}


VALUE, CHINESE_VALUE = "It is {value}`1 + 1`.", "它是{value}`1 + 1`。"


def test_value_is_inserted_in_a_translated_sentence(build: Building) -> None:
    conf = translated(build.folder, VALUE, CHINESE_VALUE, "zh_CN")
    assert build(conf=conf, index=PAGE.format(VALUE)) == (0, "")
    assert '它是<span class="value">2</span>' in build.page()


def test_expression_that_only_the_translation_has_is_reported(build: Building) -> None:
    conf = translated(build.folder, VALUE, CHINESE_VALUE.replace("1 + 1", "1 + 2"), "zh_CN")
    status, red = build(conf=conf, index=PAGE.format(VALUE))
    assert status == 1
    assert "`1 + 2` is not executed" in red


def test_catalogues_translate_each_word_that_the_extension_shows() -> None:
    folder = Path(sphinx_claims.__file__).parent / "_sphinx"
    said = {word for _, word in BADGES.values()} | {*TRANSLATIONS.values()}
    for file in folder.glob("*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match call:
                case ast.Call(ast.Name("say"), [ast.Constant(str(text)), *_]):
                    said.add(text)
                case ast.Call(ast.Name("count"), [_, ast.Constant(str(noun))]):
                    said.add(f"{{n}} {noun}")
    for file in (folder / "locale").glob("*.po"):
        with file.open("rb") as stream:
            catalogue = {m.id[0] if m.pluralizable else m.id: m.string for m in read_po(stream)}
        assert {text for text in said if not catalogue.get(text)} == set()


SPOKEN = """\
# Words

```{code-cell} python
import os

class Word:
    def __repr__(self):
        return {"de": "eins"}.get(os.environ.get("WORDS"), "one")

print(Word(), 1)
print("as", "text")
Word()
#> one 1
#> as text
#> one
```
"""


def test_shown_output_is_translated_but_checked_in_english(build: Building) -> None:
    assert build(conf="", index=SPOKEN) == (0, "")
    assert "one 1\nas text\n" in build.page()
    assert build(conf='claims_shown_with = {"WORDS": "de"}\n', index=SPOKEN) == (0, "")
    assert "eins 1\nas text\n" in build.page()
    # It appears in the code, in the output, and as the last value.
    assert build.page().count("eins") == 3


def test_notebook_output_has_the_text_for_readers_and_valid_fields_only() -> None:
    stream: dict[str, Any] = {"output_type": "stream", "name": "stdout", "text": "one"}
    assert _output(**stream, shown={"text": "eins"}) == {**stream, "text": "eins"}
    assert _output(**stream) == stream
