"""The message file and the code that reads it agree."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter

import pytest

import leafgrad
from leafgrad import _messages

SOURCE = Path(leafgrad.__file__).parent
PREFIXES = {"message": "", "has_message": "", "count": "counts.", "_words": "tensor.rows."}
"""The functions that take a key, and the table that it is in."""

LEAST = 3


def read_messages(language: str) -> dict[str, list[str]]:
    """Return the texts of each key: one, or one for each number."""
    messages: dict[str, list[str]] = {}

    def read(table: dict[str, object], path: str) -> None:
        for name, entry in table.items():
            if not isinstance(entry, dict):
                messages[path + name] = entry if isinstance(entry, list) else [str(entry)]
            elif entry.keys() == {"one", "other"}:
                messages[path + name] = [*map(str, entry.values())]
            else:
                read(entry, f"{path}{name}.")

    text = (SOURCE / "_messages" / f"{language}.toml").read_text("utf-8")
    read(tomllib.loads(text), "")
    return messages


ENGLISH = read_messages("en")


@cache
def source_nodes() -> list[tuple[str, list[ast.AST]]]:
    """Return the nodes of each file's syntax tree."""
    return [
        (str(file.relative_to(SOURCE)), [*ast.walk(ast.parse(file.read_text("utf-8")))])
        for file in sorted(SOURCE.rglob("*.py"))
    ]


def keys_in(node: ast.AST) -> Iterator[str]:
    """Yield regular expressions for the keys that an expression may be."""
    match node:
        case ast.Constant(value=str() as text):
            yield re.escape(text)
        case ast.JoinedStr(values=parts):
            yield "".join(next(keys_in(part), ".+") for part in parts)
        case ast.IfExp(body=body, orelse=other):
            yield from (*keys_in(body), *keys_in(other))


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Yield the file, the keys and the call of each function that takes a key."""
    for file, nodes in source_nodes():
        for node in nodes:
            match node:
                case ast.Call(func=ast.Name(id=name), args=[*_, key]) if name in PREFIXES:
                    for regex in keys_in(key):
                        yield file, re.escape(PREFIXES[name]) + regex, node


def test_each_message_key_in_code_exists() -> None:
    missing = [
        f"{file}: {key}"
        for file, key, _ in calls()
        if not any(re.fullmatch(key, name) for name in ENGLISH)
    ]
    assert missing == []


def test_each_message_is_used() -> None:
    codes = {key.partition(".")[0] for key in ENGLISH if key.endswith(".headline")}
    used = {key for _, key, _ in calls()}
    for _, nodes in source_nodes():
        used |= {key for node in nodes for key in keys_in(node) if re.search(r"\\\.|\.\+", key)}
    # A placeholder in an f-string matches any text, so enough of the key must be literal.
    patterns = [re.compile(key) for key in used if len(re.sub(r"\.\+|\W", "", key)) >= LEAST]
    unused = [
        key
        for key in ENGLISH
        if key.partition(".")[0] not in codes
        and not key.startswith("page.script.")
        and not any(pattern.fullmatch(key) for pattern in patterns)
    ]
    assert unused == [], unused


def test_script_of_page_uses_exactly_its_messages() -> None:
    script = (SOURCE / "_picture" / "html" / "page.js").read_text("utf-8")
    names = {key.removeprefix("page.script.") for key in ENGLISH if key.startswith("page.script.")}
    assert set(re.findall(r'\bsay\("([\w-]+)"', script)) == names


def slots_of(texts: list[str]) -> set[str]:
    return {name for text in texts for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_each_call_fills_the_slots_of_its_message() -> None:
    unfilled = []
    for file, key, call in calls():
        slots = {keyword.arg for keyword in call.keywords}
        if None in slots or ".+" in key or ast.unparse(call.func) not in {"message", "_words"}:
            continue
        for name in filter(re.compile(key).fullmatch, ENGLISH):
            unfilled += [f"{file}: {name}: {one}" for one in slots_of(ENGLISH[name]) - slots]
    assert unfilled == []


HAN = "[\u4e00-\u9fff]"
CHINESE = read_messages("zh_CN")


def test_chinese_message_has_the_slots_and_columns_of_the_english_one() -> None:
    for key, texts in CHINESE.items():
        assert slots_of(texts) == slots_of(ENGLISH[key]), key
        if key.endswith("heading"):  # The text is split at commas.
            assert texts[0].count(", ") == ENGLISH[key][0].count(", "), key


def test_translation_has_a_space_between_chinese_and_latin() -> None:
    apart = re.compile(f"{HAN}[A-Za-z0-9`]|[A-Za-z0-9`]{HAN}|{HAN}[,.;:!?]|[，。；：] ")
    wrong = {key for key, texts in CHINESE.items() if any(map(apart.search, texts))}
    assert {key for key in wrong if not key.endswith("heading")} == set()


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_messages, "_chosen", ["zh_CN"])


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("frozen.constant.headline", "输入 `x`", "输入 `x` 不需要梯度"),
        ("frozen.constant.headline", "全部 2 个参数", "全部 2 个参数不需要梯度"),
        ("other-tensor.headline", "参数", "损失不依赖参数，而是依赖另一个张量"),
    ],
)
def test_value_in_chinese_has_a_space_only_beside_latin(key: str, value: str, text: str) -> None:
    slot = (*slots_of(ENGLISH[key]),)
    assert _messages.message(key, **dict.fromkeys(slot, value)) == text


@pytest.mark.usefixtures("chinese")
def test_message_without_translation_appears_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(_messages._messages("zh_CN"), "counts.node")
    monkeypatch.delitem(_messages._messages("zh_CN"), "player.next")
    assert _messages.message("counts.node", count=1) == "1 node"
    assert _messages.messages_of("player")["next"] == ENGLISH["player.next"][0]


def test_import_reads_no_messages() -> None:
    code = "import leafgrad._messages as m; assert m._messages.cache_info().currsize == 0"
    subprocess.run([sys.executable, "-c", f"import leafgrad; {code}"], check=True)
