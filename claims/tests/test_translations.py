"""A translation must contain the facts of its claim, and a second reader must review it."""

import json
from pathlib import Path

import pytest

from sphinx_claims.__main__ import main
from tests.proving import (
    Config,
    Translation,
    differences,
    is_reordered,
    parse_page,
    read_config,
    read_translations,
)

WORDS = {"leaf": frozenset({"叶子张量", "叶子"}), "non-leaf": frozenset({"非叶子张量"})}
GLOSSARY = """\
# Glossary

```{glossary}
leaf
leaf tensor
  What you make.

non-leaf
  What is computed.
```
"""
LEAF = "A tensor with `requires_grad=True` is a {term}`leaf`, see [there](leaf.md): $2x = 6$."
BLATT = "`requires_grad=True` 的张量是{term}`叶子张量 <leaf>`，见[那里](leaf.md)：$2x = 6$。"
SAFE = "Writing into a leaf is refused."
SICHER = "写入叶子会被拒绝。"
ORDER = "From `a` comes `b`."
MIXED = "A {term}`leaf` of [that](a.md) and a {term}`non-leaf` of [this](b.md)."
GEMISCHT = "[这个](b.md)的{term}`非叶子张量 <non-leaf>`和[那个](a.md)的{term}`叶子张量 <leaf>`。"


@pytest.mark.parametrize(
    ("source", "translation", "told"),
    {
        "a number": ("It is 3.", "它是 4。", ["it lacks the number 3", "it adds the number 4"]),
        "a sign": ("It is -3.", "它是 3。", ["it lacks the number -3", "it adds the number 3"]),
        "a digit": ("It is 0.5.", "它是0.25。", ["lacks the number 0.5", "adds the number 0.25"]),
        "a count": ("Some kinds.", "17 种。", ["it adds the number 17"]),
        "a second number": ("It is 3, or 3.", "它是 3。", ["it lacks the number 3"]),
        "a formula": ("So $x^2$.", "$x^3$。", ["lacks the formula x^2", "adds the formula x^3"]),
        "code": ("`True` is.", "`False`。", ["it lacks the code True", "it adds the code False"]),
        "dropped code": ("`x` is.", "它是。", ["it lacks the code x"]),
        "a link": ("[A](a.md).", "[甲](b.md)。", ["lacks the link to a.md", "adds the link to b"]),
        "a picture": ("![A](a.svg)", "![甲](b.svg)", ["link to a.svg", "link to b.svg"]),
        "a role": ("{py:func}`a`.", "{py:func}`b`。", ["role {py:func}`a`", "role {py:func}`b`"]),
        "an expression": ("{value}`1 + 1`.", "{value}`1 + 2`。", ["`1 + 1`", "`1 + 2`"]),
        "a value typed": ("It is {value}`x`.", "它是 2。", ["number 2", "lacks the role {value}"]),
        "a term": ("A {term}`leaf`.", "{term}`叶子 <non-leaf>`。", ["lacks", "adds", "it calls"]),
        "the word for it": ("A {term}`leaf`.", "{term}`树叶 <leaf>`。", ["it calls leaf 树叶"]),
    }.values(),
)
def test_changed_fact_in_a_translation_is_reported(
    source: str, translation: str, told: list[str]
) -> None:
    found = [*differences(source, translation, WORDS)]
    assert len(found) == len(told)
    assert all(any(part in line for line in found) for part in told), found


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        (LEAF, BLATT),
        (SAFE, SICHER),
        ("Two of them, twenty in all.", "2 个，共 20 个。"),
        ("Two of them.", "两个。"),
        ("It takes 1,000 steps.", "需要1000步。"),
        ("The {term}`Leaf`.", "{term}`叶子 <leaf>`。"),
        ("An {term}`edge`.", "{term}`边 <edge>`。"),  # The term has no entry.
        ("{py:func}`torch.add` adds.", "{py:func}`加法 <torch.add>`。"),
        ("It is −3.", "它是 -3。"),
        ("See $x ^ 2$.", "见 $x^2$。"),
        ("On PyTorch 2.13.", "在 PyTorch 2.13 上。"),
        (MIXED, GEMISCHT),
    ],
)
def test_faithful_translation_has_no_difference(source: str, translation: str) -> None:
    assert [*differences(source, translation, WORDS)] == []


@pytest.mark.parametrize(
    ("source", "translation", "is_other"),
    [
        (ORDER, "由 `a` 得到 `b`。", False),
        (ORDER, "`b` 由 `a` 得到。", True),
        (MIXED, GEMISCHT, False),
        ("With `a` a `{term}` is.", "`{term}` 有 `a`。", True),
    ],
)
def test_reordered_code_is_detected(source: str, translation: str, is_other: bool) -> None:  # noqa: FBT001
    assert is_reordered(source, translation) is is_other


PAGE = f"""\
# Leaves

{ORDER}

:::{{claim}} leaf/made
{LEAF}
:::

:::{{claim}} leaf/safe
{SAFE}
:::
"""
CATALOGUE = {"Leaves": "叶子", ORDER: "由 `a` 得到 `b`。", LEAF: BLATT, SAFE: SICHER}


def entry(source: str, translation: str, flags: str = "") -> str:
    quoted = (text.replace("\\", r"\\").replace('"', r"\"") for text in (source, translation))
    return flags + 'msgid "{}"\nmsgstr "{}"\n\n'.format(*quoted)


TABLE = """\
[tool.claims]
pages = ["docs"]
translations = "docs/locales"
glossary = "docs/glossary.md"
"""
TERMS = {"leaf": "叶子", "leaf tensor": "叶子张量", "non-leaf": "非叶子张量"}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """Write a page, a glossary and their catalogues."""
    folder = tmp_path / "docs/locales/zh_CN/LC_MESSAGES"
    folder.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(TABLE)
    (tmp_path / "docs/leaf.md").write_text(PAGE, encoding="utf-8")
    (tmp_path / "docs/glossary.md").write_text(GLOSSARY, encoding="utf-8")
    keep(folder / "glossary.po", TERMS)
    keep(folder / "leaf.po", CATALOGUE)
    monkeypatch.chdir(tmp_path)
    return read_config(tmp_path)


def keep(file: Path, catalogue: dict[str, str], flags: str = "") -> None:
    text = "".join(entry(*pair, flags) for pair in catalogue.items())
    file.write_text(text, encoding="utf-8")


def catalogue_of(config: Config) -> Path:
    return config.root / "docs/locales/zh_CN/LC_MESSAGES/leaf.po"


def read(config: Config, text: str = PAGE) -> Translation:
    (found,) = read_translations(config, [parse_page(text, "docs/leaf.md")])
    return found


def told(config: Config) -> list[str]:
    return [f"{path}:{found.line}: {found.message}" for path, found in read(config).problems]


@pytest.fixture
def reviewed(config: Config) -> Config:
    assert main(["review", "zh_CN", "--accept"]) == 0
    return config


def test_claim_with_unreviewed_translation_is_reported(config: Config) -> None:
    found = read(config)
    assert found.words == {"leaf/made": "unreviewed", "leaf/safe": "unreviewed"}
    assert told(config) == [
        f"docs/locales/zh_CN/LC_MESSAGES/leaf.po:{line}: the translation of claim {claim} is "
        "unreviewed: nobody has compared it with its sentence: see `claims review`"
        for line, claim in ((7, "leaf/made (docs/leaf.md:5)"), (10, "leaf/safe (docs/leaf.md:9)"))
    ]


def test_reviewed_translation_is_current_until_it_changes(reviewed: Config) -> None:
    found = read(reviewed)
    assert found.sentences == {"leaf/made": BLATT, "leaf/safe": SICHER}
    assert (found.problems, found.totals["current"]) == ((), 2)
    assert sum(found.totals.values()) == 2
    changed = read(reviewed, PAGE.replace("is refused", "is not refused"))
    assert changed.words == {"leaf/made": "current", "leaf/safe": "stale"}
    assert changed.problems == ()
    keep(catalogue_of(reviewed), CATALOGUE | {SAFE: "写入叶子不会被拒绝。"})
    assert read(reviewed).words == {"leaf/made": "current", "leaf/safe": "unreviewed"}


def test_fuzzy_translation_is_stale_and_empty_one_is_missing(reviewed: Config) -> None:
    keep(catalogue_of(reviewed), CATALOGUE, "#, fuzzy\n")
    assert set(read(reviewed).words.values()) == {"stale"}
    keep(catalogue_of(reviewed), dict.fromkeys(CATALOGUE, ""))
    assert set(read(reviewed).words.values()) == {"missing"}
    catalogue_of(reviewed).unlink()
    assert set(read(reviewed).words.values()) == {"missing"}
    assert read(reviewed).problems == ()


def test_false_translation_is_reported_with_its_page_and_line(reviewed: Config) -> None:
    keep(catalogue_of(reviewed), CATALOGUE | {LEAF: BLATT.replace("True", "False")})
    assert read(reviewed).words["leaf/made"] == "false"
    place = "docs/locales/zh_CN/LC_MESSAGES/leaf.po:7: the translation of claim leaf/made"
    assert told(reviewed) == [
        f"{place} (docs/leaf.md:5) is FALSE: it lacks the code requires_grad=True",
        f"{place} (docs/leaf.md:5) is FALSE: it adds the code requires_grad=False",
    ]


def test_changed_or_reordered_code_in_prose_is_reported(reviewed: Config) -> None:
    keep(catalogue_of(reviewed), CATALOGUE | {ORDER: "由 `a` 得到 `c`。"})
    assert [line.partition(" is ")[2] for line in told(reviewed)] == [
        "FALSE: it lacks the code b",
        "FALSE: it adds the code c",
    ]
    keep(catalogue_of(reviewed), CATALOGUE | {ORDER: "`b` 由 `a` 得到。"})
    (line,) = told(reviewed)
    assert line.startswith("docs/locales/zh_CN/LC_MESSAGES/leaf.po:4: a translation for docs/leaf")
    assert "unreviewed" in line
    assert main(["review", "zh_CN", "docs/leaf.md", "--accept"]) == 0
    assert told(reviewed) == []
    keep(catalogue_of(reviewed), CATALOGUE)  # Unreviewed sentences are in the order of the page.
    assert len(told(reviewed)) == 1


def test_term_must_be_translated_as_in_the_glossary(reviewed: Config) -> None:
    keep(catalogue_of(reviewed), CATALOGUE | {LEAF: BLATT.replace("叶子张量", "叶片")})
    (line,) = told(reviewed)
    assert line.endswith("it calls leaf 叶片, and the glossary 叶子 or 叶子张量")


def test_unreadable_catalogue_or_review_is_reported(reviewed: Config) -> None:
    catalogue_of(reviewed).write_text('msgid "a"\nnonsense\n')
    (line,) = told(reviewed)
    assert "a catalogue must be readable" in line
    assert set(read(reviewed).words.values()) == {"stale"}
    (reviewed.root / "docs/locales/zh_CN/reviewed.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"reviewed\.json must hold digests of sentences"):
        read(reviewed)


@pytest.mark.usefixtures("config")
def test_review_shows_translations_until_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["review", "zh_CN"]) == 1
    shown = capsys.readouterr().out
    assert f"docs/locales/zh_CN/LC_MESSAGES/leaf.po:10\n    {SAFE}\n    {SICHER}\n" in shown
    assert shown.endswith("7 of 7 translations wait for a reader: add --accept once compared\n")
    assert not Path("docs/locales/zh_CN/reviewed.json").exists()
    assert main(["review", "zh_CN", "--accept"]) == main(["review", "zh_CN"]) == 0
    assert main(["review", "de"]) == 2
    assert "must have catalogues, and de has none: there are zh_CN" in capsys.readouterr().err


def test_review_drops_entries_of_removed_sentences(reviewed: Config) -> None:
    keep(catalogue_of(reviewed), {SAFE: SICHER})
    assert main(["review", "zh_CN", "--accept"]) == 0
    kept = json.loads((reviewed.root / "docs/locales/zh_CN/reviewed.json").read_text())
    assert len(kept["docs/leaf.md"]) == 1


def test_ledger_has_translated_sentences_and_their_state(reviewed: Config) -> None:
    said = SAFE.replace("refused", "refused {value}`1 + 1` times")
    other = SICHER.replace("拒绝", "拒绝 {value}`1 + 1` 次")
    more = "\n:::{claim} leaf/new\nA leaf.\n:::\n\n```{code-cell} python\nassert 1 + 1 == 2\n```\n"
    keep(catalogue_of(reviewed), CATALOGUE | {said: other, "A leaf.": ""})
    Path("docs/leaf.md").write_text(PAGE.replace(SAFE, said) + more, encoding="utf-8")
    main(["verify", "--json", "ledger.json"])
    ledger = json.loads(Path("ledger.json").read_text(encoding="utf-8"))
    made, safe, new = ledger["claims"]
    assert made["sentences"] == {"zh_CN": BLATT.replace("[那里](leaf.md)", "那里")}
    assert safe["sentences"] == {"zh_CN": "写入叶子会被拒绝 2 次。"}
    assert (new["sentences"], new["translations"]) == ({}, {"zh_CN": "missing"})
    assert made["translations"] == {"zh_CN": "current"}
    assert ledger["translations"]["zh_CN"]["missing"] == 1
