"""The messages that the library prints, draws or raises, in English and Chinese."""

import os
import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

LANGUAGES = ("en", "zh_CN")
ENGLISH = "en"

_chosen: list[str] = []
"""The language set by the last call of `set_language`; empty before the first call."""


def set_language(language: str) -> None:
    """Choose the language of all text that leafgrad prints or draws, and of its error messages.

    Without this call, the environment variable ``LEAFGRAD_LANG`` chooses the language; the default
    is English. Messages without a translation appear in English. PyTorch's own messages are
    always in English.

    Args:
        language: ``"en"`` or ``"zh_CN"``. You can also write ``"zh"`` or ``"zh-CN"`` for Chinese.

    Example:
        >>> import leafgrad
        >>> leafgrad.set_language("en")

    Raises:
        ValueError: If leafgrad does not support the language.
    """
    name = _normalise(language)
    if name is None:
        raise ValueError(message("errors.language", language=language))
    _chosen[:] = [name]


def language() -> str:
    """Return the language of the messages: ``"en"`` or ``"zh_CN"``."""
    wanted = _chosen[0] if _chosen else os.environ.get("LEAFGRAD_LANG", ENGLISH)
    return _normalise(wanted) or ENGLISH


@cache
def _normalise(name: object) -> str | None:
    """Return the supported language that a name such as ``zh-CN`` or ``en_US.UTF-8`` means.

    Return None if there is none.
    """
    short = str(name).partition(".")[0].replace("-", "_").partition("_")[0].lower()
    return next((language for language in LANGUAGES if short and language.startswith(short)), None)


class Text(str):
    """A message that `translate` can format again after a change of the language."""

    __slots__ = ("key", "slots")

    key: str
    slots: dict[str, Any]


def translate(value: Any) -> Any:
    """Return a message in the language chosen now; any other value as it is."""
    return message(value.key, **value.slots) if isinstance(value, Text) else value


def message(key: str, /, **slots: object) -> str:
    """Return a message in the chosen language, with its placeholders filled.

    Args:
        key: The key of the message, such as ``"no-grad.headline"``.
        slots: The values of the placeholders. If a message has a singular and a plural,
            ``count`` decides.
    """
    slots |= {"kind": message("report.infinity")} if slots.get("kind") == "infinity" else {}
    text = Text(_format(key, {name: translate(value) for name, value in slots.items()}))
    text.key = key
    # Keep no other objects alive.
    text.slots = {
        name: value if isinstance(value, str | int | float) else str(value)
        for name, value in slots.items()
    }
    return text


def _format(key: str, slots: dict[str, object]) -> str:
    """Return a message in the chosen language with these values of its placeholders.

    `key` is the key of the message, and `slots` contains the values by name.
    """
    if language() != ENGLISH and key in (translated := _messages(language())):
        # Translations have spaces around a placeholder, for values in Latin script. If the value
        # is Chinese, remove them.
        marked = _SLOT.sub("\0\\g<0>\0", translated[key])
        return _NEEDLESS.sub("", marked.format(**slots)).replace("\0", "")
    entry = _messages(ENGLISH)[key]
    if isinstance(entry, dict):
        entry = entry["one" if slots["count"] == 1 else "other"]
    return str(entry).format(**slots)


WIDE = "[\u3000-\u303f\u4e00-\u9fff\uff00-\uff60]"
_SLOT, _NEEDLESS = (
    re.compile(r"(?<!{){[^{}]+}(?!})"),
    re.compile(f"(?<={WIDE})[ \0]*\0[ \0]*(?={WIDE})"),
)


def has_message(key: str) -> bool:
    """Return whether the message files have a message with this key."""
    return key in _messages(ENGLISH)


def messages_of(table: str) -> dict[str, str]:
    """Return all messages of a table by name, with their placeholders, for a script on a page."""
    keys = (key for key in _messages(ENGLISH) if key.rpartition(".")[0] == table)
    chosen = _messages(ENGLISH) | _messages(language())
    return {key.rpartition(".")[2]: chosen[key] for key in keys}


def code_of_error(text: str) -> str | None:
    """Return the code of the diagnosis that explains an error message of PyTorch, or None."""
    for key, entry in _messages(ENGLISH).items():
        if key.endswith(".pytorch") and any(part in text for part in entry):
            return key.removesuffix(".pytorch")
    return None


@cache
def _messages(of: str) -> dict[str, Any]:
    """Return all messages of a language by their full keys."""
    text = files(__name__).joinpath(f"{of}.toml").read_text("utf-8")
    entries: dict[str, Any] = {}
    tables = [("", tomllib.loads(text))]
    while tables:
        path, table = tables.pop()
        for name, entry in table.items():
            if isinstance(entry, dict) and entry.keys() != {"one", "other"}:
                tables.append((f"{path}{name}.", entry))
            else:
                entries[f"{path}{name}"] = entry
    return entries
