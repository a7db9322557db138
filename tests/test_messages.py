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


def test_each_key_in_code_exists() -> None:
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
    # A hole of a formatted string matches any text, so enough of the key must be literal.
    patterns = [re.compile(key) for key in used if len(re.sub(r"\.\+|\W", "", key)) >= LEAST]
    unused = [
        key
        for key in ENGLISH
        if key.partition(".")[0] not in codes
        and not key.startswith("page.script.")
        and not any(pattern.fullmatch(key) for pattern in patterns)
    ]
    assert unused == [], unused


def test_script_of_page_uses_each_of_its_messages() -> None:
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


@pytest.mark.parametrize("language", ["zh_CN"])
def test_translation_has_known_keys_and_slots(language: str) -> None:
    for key, texts in read_messages(language).items():
        assert slots_of(texts) <= slots_of(ENGLISH[key])


def test_import_reads_no_messages() -> None:
    code = "import leafgrad._messages as m; assert m._messages.cache_info().currsize == 0"
    subprocess.run([sys.executable, "-c", f"import leafgrad; {code}"], check=True)
