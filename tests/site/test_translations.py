"""The Chinese edition: a translation that differs from the original is an error."""

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chinese_search import SearchChinese
from code_comments import CodeComment, NoteComments, in_other_words
from docutils import nodes
from docutils.utils import new_document
from notebooks import as_notebook, translate_comments
from sphinx.addnodes import desc, desc_content, desc_sig_name, desc_signature
from stays_english import ask_for_no_translation
from translated_markdown import translated

from tests.proving import (
    TranslatedPage,
    differences,
    find_pages,
    judge_page,
    read_config,
    read_pages,
    translated_pages,
    workers,
)

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CHINESE = {"LEAFGRAD_LANG": "zh_CN"}


@pytest.fixture(scope="module")
def pages() -> list[TranslatedPage]:
    config = read_config(ROOT)
    files = find_pages([ROOT / path for path in config.pages])
    return [*translated_pages(config, "zh_CN", read_pages(files, config))]


def test_errata_table_repeats_claims_in_the_same_words(pages: list[TranslatedPage]) -> None:
    said = {
        claim.statement: message.translation
        for page in pages
        for claim in page.page.claims
        if (message := page.message(claim))
    }
    (errata,) = (page for page in pages if page.page.path == "docs/tutorial/errata.md")
    copies = {
        message.translation: said[source]
        for message in errata.messages
        if (source := message.source.partition(" {ref}`")[0]) in said
    }
    assert len(copies) > 15
    assert [copy for copy, claim in copies.items() if not copy.startswith(claim)] == []


@pytest.mark.parametrize(("shown_with", "face"), [({}, "Next ▶"), (CHINESE, "下一步 ▶")])
def test_steps_are_in_the_language_of_their_page(shown_with: dict[str, str], face: str) -> None:
    config = dataclasses.replace(read_config(ROOT), shown_with=shown_with)
    (page,) = read_pages([DOCS / "tutorial" / "step-by-step.md"], config)
    with workers(["leafgrad"], None) as running:
        verdict = judge_page(page, config, running)
    assert verdict.problems == ()
    assert all(check.passed for _, record in verdict.executed for check in record.checks)
    outputs = [output for _, record in verdict.executed for output in record.outputs]
    (steps,) = (o.get("shown", o)["data"] for o in outputs if "text/html" in o.get("data", {}))
    faces = re.findall(r'data-do="next"[^>]*>([^<]*)<', steps["text/html"])
    assert faces == [face]


def blocks(file: str) -> list[str]:
    return (ROOT / file).read_text("utf-8").split("\n\n")


def test_chinese_readme_has_the_same_code_and_facts_as_the_english_one() -> None:
    english, chinese = blocks("README.md"), blocks("README.zh-CN.md")
    chinese.remove("[English](README.md)")
    english.remove("[中文](README.zh-CN.md)")
    assert len(chinese) == len(english)
    told = {
        one: [*differences(one, other, {})]
        for one, other in zip(english, chinese, strict=True)
        if not one.startswith("```")
    }
    assert {one: found for one, found in told.items() if found} == {}
    fences = [one for one in zip(english, chinese, strict=True) if one[0].startswith("```")]
    assert [one for one, other in fences if one != other] == []


def test_chinese_words_are_indexed_as_pairs() -> None:
    search = SearchChinese({})
    assert search.split("计算图 graph") == ["计算", "算图", "graph"]
    assert search.split("图") == ["图"]
    assert search.split("`w.grad` 为空") == ["w", "grad", "为空"]


def test_only_the_words_of_comments_are_translated() -> None:
    code = 'x = "# no comment"  # one\n# two\ny = 2  #: three\n'
    said = {"one": "一", "two": "二", "no comment": "不", ": three": "三"}
    assert in_other_words(code, said) == 'x = "# no comment"  # 一\n# 二\ny = 2  #: three\n'
    assert in_other_words("f'{x # one", said) == "f'{x # one"


def test_words_in_a_plot_are_separate_messages() -> None:
    plot = '<svg role="img" aria-label="a &lt; b"><text>Tanh</text><text>not a leaf</text></svg>'
    document = new_document("page")
    document += nodes.raw("", plot, format="html")
    NoteComments(document).apply()
    noted = [*document.findall(CodeComment)]
    assert [one["words"] for one in noted] == ["a < b", "not a leaf"]
    for one, chinese in zip(noted, ["甲 < 乙", "非叶子"], strict=True):
        one.apply_translated_message(one["words"], chinese)
    expected = plot.replace("a &lt; b", "甲 &lt; 乙").replace("not a leaf", "非叶子")
    assert document[-1].astext() == expected


def test_each_code_comment_is_a_separate_message() -> None:
    # If one message of a node has no translation, Sphinx translates none of them.
    code = nodes.literal_block("", "x = 1  # one\ny = x  # x\n")
    document = new_document("a.md")
    document += nodes.container("", code, classes=["cell_input"])
    NoteComments(document).apply()
    noted = [*document.findall(CodeComment)]
    assert [one.extract_original_messages() for one in noted] == [["one"], ["x"]]
    noted[0].apply_translated_message("one", "一")
    assert code.rawsource == code.astext() == "x = 1  # 一\ny = x  # x\n"


def test_docstring_blocks_are_marked_as_untranslatable() -> None:
    # Sphinx moves the content of an inline node with this attribute to the end of its parent.
    # Sphinx creates such a field.
    field = nodes.paragraph("", "", nodes.inline("", "w", translatable=True))
    # A signature also has an inline node, and is never translated.
    signature = desc_signature("", "", desc_sig_name("", "x"))
    text = nodes.paragraph("", "", nodes.literal("", "y"), nodes.inline("", "z"))
    document = new_document("a.md")
    document += desc("", signature, desc_content("", text, field))
    current = SimpleNamespace(docname="a")
    app: Any = SimpleNamespace(env=SimpleNamespace(current_document=current))
    ask_for_no_translation(app, document)
    marked = [node for node in document.findall(nodes.Element) if "translatable" in node]
    assert marked == [text, field]


PAGE = """\
---
notebook: Begin
---

# Title

## Begin

A sentence
over two lines.
Another sentence.

- Begin
- it is `Begin` here

| Begin | 1 |

:::{claim} a/b
It is so.
:::

```{code-cell} python
Begin = 1  # so
```
"""
SAID = {
    "Title": "标题",
    "Begin": "开始",
    "A sentence over two lines. Another sentence.": "两句话。",
    "It is so.": "如此。",
    "so": "是",
}


def test_page_is_translated_message_by_message() -> None:
    text = translated(PAGE, SAID)
    assert "notebook: 开始\n" in text
    assert "# 标题\n\n## 开始\n\n两句话。\n\n- 开始\n- it is `Begin` here\n\n| 开始 | 1 |" in text
    assert ":::{claim} a/b\n如此。\n:::" in text
    assert "Begin = 1  # so\n" in text
    notebook = as_notebook(text, "a", {}, "0")
    translate_comments(notebook, SAID)
    assert [cell.source for cell in notebook.cells if cell.cell_type == "code"] == [
        "Begin = 1  # 是"
    ]
