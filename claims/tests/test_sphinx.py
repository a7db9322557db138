"""The Sphinx extension: what it judges and shows, and that it uses no cached verdict."""

import json
import re
import textwrap
from html import unescape
from typing import Any

import pytest
from sphinx.errors import ConfigError

TICK = '✓<span class="claim-word"> true</span>'

Building = Any
"""The fixture `build`: a small site that builds itself."""
Built = Any
"""The fixture `built`: the same, built once for all who ask for it."""

TRUE = """\
# Leaves

```{code-cell} python
from fractions import Fraction

x = Fraction(2)
```

:::{claim} leaf/made-here
:sources: article L1

A tensor of rank {value}`x.denominator` is **made** here.
:::

```{code-cell} python
assert x > 1
print(x.denominator)  #> 1
```

- {claim}`x < 3`, and in a list:

  ```{code-cell} python
  :raises: "ZeroDivisionError: Fraction"

  x / 0
  ```

```pycon
>>> x.denominator
1
```
"""

DOCUMENTS = 'documents = { article = "An article" }\n'


def test_build_succeeds_and_shows_outputs_if_all_claims_are_true(build: Building) -> None:
    ledger = "\n```{claims-ledger}\n```\n"
    assert build(toml=DOCUMENTS, index=TRUE + ledger) == (0, "")
    html = build.page()
    assert '<div class="claim claim-true docutils container" id="claim-leaf-made-here">' in html
    assert 'A tensor of rank <span class="value">1</span> is <strong>made</strong> here.' in html
    text = re.sub("<[^>]*>", "", html)
    assert text.count("✓ true leaf/made-here") == 2
    assert text.count("ZeroDivisionError: Fraction(") == 1
    assert "#&gt;" not in html
    assert 'href="#claim-leaf-made-here"' in html
    assert "5 checks · An article L1" in html


def test_the_traceback_in_a_warning_shows_frames_of_the_page_only(build: Building) -> None:
    cell = """\
# Page

```{code-cell} python
:warns: "UserWarning: Made at"

import traceback
import warnings

def warn():
    warnings.warn("Made at:\\n" + "".join(traceback.format_stack()))

warn()
```
"""
    assert build(index=cell) == (0, "")
    shown = unescape(re.sub("<[^>]*>", "", build.page()))
    told = 'UserWarning: Made at:\n  File "index.md", line 12, in <module>\n    warn()\n  File "ind'
    assert told in shown
    assert "_forkserver" not in shown


@pytest.fixture
def site(built: Built) -> Building:
    """Build a page and its ledger."""
    index = TRUE + "\n```{toctree}\nledger\n```\n"
    ledger = "# Ledger\n\n```{claims-ledger}\n```\n"
    site = built(toml=DOCUMENTS, index=index, ledger=ledger)
    assert site.outcome == (0, "")
    return site


def test_the_badge_of_a_claim_leads_to_the_ledger_and_back(site: Building) -> None:
    label = "ledger-index-md-leaf-made-here"
    assert f'href="ledger.html#{label}">{TICK}</a>' in site.page()
    assert f'<dt id="{label}">' in site.page("ledger")
    assert 'href="index.html#claim-leaf-made-here"' in site.page("ledger")


OTHER = """\
# Other

:::{claim} sum/of-ones
One and one are two.
:::

```{code-cell} python
assert 1 + 1 == 2
```
"""


def in_parts(*lines: str, rest: str = "other.md") -> dict[str, str]:
    """Write a site whose ledger is a page of totals and two pages of claims.

    `lines` are the entries of the one page of claims, and `rest` is that of the other.
    """
    listed = "\n```{{claims-ledger}}\n{}\n```\n"
    tree = "\n```{toctree}\nother\ntotal\npart\nrest\n```\n"
    return {
        "toml": DOCUMENTS,
        "index": TRUE + tree,
        "other": OTHER,
        "total": "# Total\n\n```{claims-total}\n```\n",
        "part": "# Part\n" + listed.format("\n".join(lines)),
        "rest": "# Rest\n" + listed.format(rest),
    }


def test_ledger_can_be_split_over_pages(build: Building) -> None:
    assert build(**in_parts("ind*.md")) == (0, "")
    label = "ledger-index-md-leaf-made-here"
    assert f'href="part.html#{label}">{TICK}</a>' in build.page()
    assert f'<dt id="{label}">' in build.page("part")
    assert "leaf/made-here" not in build.page("rest")
    total = re.sub(r"\s*<(?!a |/a)[^>]*>\s*", " ", build.page("total"))
    assert "2 claims, 6 checks, torch" in total
    assert re.search(r'href="part.html#ledger-index-md"> *Leaves *</a> *1 *5 ', total)
    assert re.search(r'href="rest.html#ledger-other-md"> *Other *</a> *1 *1 ', total)


def test_claim_that_no_ledger_lists_and_unknown_page_are_reported(build: Building) -> None:
    status, told = build(**in_parts("index.md", "gone.md", rest="index.md"))
    assert status == 1
    assert "other.md:3: ERROR: no ledger lists claim sum/of-ones: name other.md in a" in told
    assert "a line of claims-ledger must name a page, not 'gone.md'" in told


def test_search_index_and_general_index_contain_claim_ids(site: Building) -> None:
    text = (site.html / "searchindex.js").read_text(encoding="utf-8")
    searched = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    page = searched["docnames"].index("index")
    assert searched["indexentries"]["leaf/made-here"] == [[page, "claim-leaf-made-here", True]]
    assert 'href="index.html#claim-leaf-made-here"' in site.page("genindex")


def test_key_claim_is_marked_and_its_badge_is_no_link_without_a_ledger(build: Building) -> None:
    keyed = TRUE.replace("leaf/made-here\n", "leaf/made-here\n:key:\n")
    assert build(toml=DOCUMENTS, index=keyed) == (0, "")
    assert 'class="claim claim-key claim-true' in build.page()
    assert f'<span class="claim-badge claim-true">{TICK}</span>' in build.page()


def test_ledger_lists_the_evidence_of_each_claim(site: Building) -> None:
    ledger = site.ledger()
    (claim,) = ledger["claims"]
    assert ledger["torch"].startswith("2.")
    assert ledger["documents"] == {"article": "An article"}
    known = {"page": "index.md", "line": 9, "verdict": "true", "problems": []}
    assert claim.items() >= {"id": "leaf/made-here", "sources": ["article L1"], **known}.items()
    assert claim["statement"] == "A tensor of rank 1 is **made** here."
    assert [(found["line"], found["kind"], found["verdict"]) for found in claim["evidence"]] == [
        (16, "assert", "true"),
        (17, "output", "true"),
        (20, "inline", "true"),
        (22, "raises", "true"),
        (29, "example", "true"),
    ]


REFUSE = "python_fences = 'refuse'\n"
RED = {
    "index": "# A\n\n```{toctree}\nb\n```\n\n{claim}`1 > 2`\n",
    "b": """\
# B

```python
x = 1
```

:::{claim} leaf/false
One is two.
:::

{claim}`1 > 2` and {claim}`2 > 3`

:::{claim} leaf/bare
No evidence.
:::

## C

:::{claim} leaf/true
Two is two.
:::

{claim}`1 < 2`

:::{claim} leaf/later
:until: 1.0

It was so once.
:::

{claim}`1 > 2`
""",
}


def test_build_reports_every_problem_at_once(built: Built) -> None:
    build = built(**RED, toml=REFUSE)
    status, told = build.outcome
    assert status == 1
    assert re.sub(r": nothing is checked.*", "", told).splitlines() == [
        "b.md:3: ERROR: this Python is not executed: use {code-cell}, or {unproven} with a reason",
        "b.md:11: ERROR: leaf/false: claim is FALSE: 1 > 2, where it is False",
        "b.md:11: ERROR: leaf/false: claim is FALSE: 2 > 3, where it is False",
        '    not proven: "One is two."',
        "b.md:13: ERROR: claim leaf/bare has no evidence",
        '    not proven: "No evidence."',
        "index.md:7: ERROR: claim is FALSE: 1 > 2, where it is False",
    ]
    last = build.status.strip().splitlines()[-2]
    assert last.startswith("2 pages, 4 claims, 5 checks: 5 problems (")


def _text(html: str) -> str:
    return unescape(" ".join(re.sub("<[^>]*>", " ", html).split()))


def test_build_annotates_problems_on_github(
    build: Building, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(build.folder.parent))
    build(index="# A\n\n{claim}`1 > 2`\n\n```python\nx = 1\n```\n", toml=REFUSE)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("::")]
    place = f"::error file={build.folder.name}/index.md,line="
    assert said[0] == f"{place}3,title=not true::claim is FALSE: 1 > 2, where it is False"
    assert said[1].startswith(f"{place}5,title=not true::")
    assert len(said) == 2


def test_page_shows_its_problems_at_its_top_and_at_false_claims(built: Built) -> None:
    build = built(**RED, toml=REFUSE)
    html = build.page("b")
    boxes = re.findall(r'<div class="claim claim-.*?</div>', html, re.DOTALL)
    nothing = "nothing is checked between it and the next claim or heading"
    found = [f"line 11: claim is FALSE: {text}, where it is False" for text in ("1 > 2", "2 > 3")]
    assert [_text(box) for box in boxes] == [
        f"One is two. ✗ false leaf/false {' '.join(found)}",
        f"No evidence. ✗ false leaf/bare line 13: claim leaf/bare has no evidence: {nothing}",
        "Two is two. ✓ true leaf/true",
        "It was so once. – skipped: outside its version range leaf/later",
    ]
    (above,) = re.findall(r'<div class="error admonition.*?</div>', html, re.DOTALL)
    assert _text(above).startswith("This page is not true line 3: this Python is not executed")
    assert html.index("<h1>") < html.index(above) < html.index("One is two.")
    assert "This page is not true" in build.page()


def test_false_expression_is_marked_red_in_its_sentence(built: Built) -> None:
    build = built(**RED, toml=REFUSE)
    assert _expressions(build.page()) == ["claim executed claim-false: 1 > 2"]
    assert _expressions(build.page("b")) == [
        "claim executed claim-false: 1 > 2",
        "claim executed claim-false: 2 > 3",
        "claim executed: 1 < 2",
        "claim executed: 1 > 2",  # outside its version range
    ]
    style = (build.folder / "_build" / "html" / "_static" / "sphinx-claims.css").read_text()
    assert re.search(r"code\.literal\.claim-false \{[^}]*color: var\(--claims-false\)", style)


def _expressions(html: str) -> list[str]:
    codes = re.findall(r'<code class="([\w -]+?) docutils[^>]*>(.*?)</code>', html)
    return [f"{classes}: {_text(text)}" for classes, text in codes if "executed" in classes]


UNREAD = {
    "rst-claim": "```{eval-rst}\nOne is :claim:`1 > 2`.\n```\n",
    "rst-cell": "```{eval-rst}\n.. code-cell:: python\n\n   x = 1\n```\n",
}


def test_role_or_cell_in_eval_rst_is_reported_as_unexecuted(build: Building) -> None:
    pages = {name: f"# Page\n\n{page}" for name, page in UNREAD.items()}
    status, told = build(index="# Site\n", **pages)
    red = re.findall(r"^(\S+).md:\d: ERROR: .*is not executed", told, re.MULTILINE)
    assert (status, sorted(set(red))) == (1, sorted(UNREAD))


def test_cells_in_tabs_and_quotes_keep_their_order(build: Building) -> None:
    cell = "```{code-cell} python\nn = globals().get('n', 0) + 1\nprint(n)\n```"
    quoted = textwrap.indent(cell, "> ", lambda _: True)
    assert build(index=f"# Page\n\n{cell}\n\n{quoted}\n\n:::{{note}}\n{cell}\n:::\n") == (0, "")
    shown = re.findall(r'<div class="cell_output.*?<span></span>(\d)', build.page(), re.DOTALL)
    assert shown == ["1", "2", "3"]


def test_invalid_setting_stops_sphinx_build_with_short_error(build: Building) -> None:
    with pytest.raises(ConfigError, match=r"^timeout in .* must be a number of seconds above 0"):
        build(toml="timeout = 0", index="# Page\n")


def claimed(identifier: str) -> str:
    return OTHER.partition("\n")[2].replace("sum/of-ones", identifier)


def test_ids_in_chinese_have_distinct_anchors(build: Building) -> None:
    page = f"# Page\n{claimed('叶/子')}{claimed('叶/张量')}\n```{{claims-ledger}}\n```\n"
    assert build(index=page) == (0, "")
    claims, entries = (
        re.findall(rf'id="({kind}-[^"]*)"', build.page()) for kind in ("claim", "ledger-index-md")
    )
    assert len({*claims}) == len({*entries}) == 2
    assert all(f'href="#{anchor}"' in build.page() for anchor in (*claims, *entries))


@pytest.mark.parametrize(
    ("first", "second", "anchor"),
    [
        ("t/a.b", "t/a-b", "claim-t-a-b"),
        ("t/Case", "t/case", "claim-t-case"),
        ("t-a/b", "t/a_b", "claim-t-a-b"),
    ],
)
def test_anchors_of_claims_are_unique(
    first: str, second: str, anchor: str, build: Building
) -> None:
    status, told = build(index=f"# Page\n{claimed(first)}", other=f"# Other\n{claimed(second)}")
    assert status == 1
    rule = "the ids of claims must differ in more than case and marks"
    assert f"other.md:3: ERROR: {rule}: {second} has the anchor #{anchor} of " in told
    assert "of the claim at index.md:3: rename one" in told


@pytest.mark.parametrize(("builder", "name"), [("singlehtml", "index.html"), ("latex", "x.tex")])
def test_single_file_builders_mark_true_and_false_claims(
    builder: str, name: str, build: Building
) -> None:
    conf = "latex_documents = [('index', 'x.tex', 'Title', 'Author', 'manual')]\n"
    status, told = build(builder=builder, conf=conf, **RED)
    assert (status, told.count("claim is FALSE")) == (1, 3)
    shown = (build.html / name).read_text()
    assert shown.count("line 11: claim is FALSE") == 2
    if builder == "singlehtml":  # in the order of the document
        found = re.findall(r'class="claim claim-(\w+) ', shown)
        assert found == ["false", "false", "true", "skipped"]
