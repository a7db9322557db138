"""Every sentence that the library prints, draws or raises, in the reader's language."""

import os
import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

LANGUAGES = ("en", "zh_CN")
ENGLISH = "en"

_chosen: list[str] = []
"""The language that `set_language` chose last; empty before the first call."""


def set_language(language: str) -> None:
    """Choose the language of everything that leafgrad prints, draws or raises.

    Without a call, the environment variable ``LEAFGRAD_LANG`` decides; without both it is English.
    A sentence that has no translation yet appears in English. PyTorch's own messages stay English.

    Args:
        language: ``"en"`` or ``"zh_CN"``; ``"zh"`` and ``"zh-CN"`` mean the same as the second.

    Raises:
        ValueError: If leafgrad does not have the language.

    Example:
        >>> import leafgrad
        >>> leafgrad.set_language("en")
    """
    name = _normalise(language)
    if name is None:
        raise ValueError(message("errors.language", language=language))
    _chosen[:] = [name]


def language() -> str:
    """Return the language of the messages."""
    wanted = _chosen[0] if _chosen else os.environ.get("LEAFGRAD_LANG", ENGLISH)
    return _normalise(wanted) or ENGLISH


@cache
def _normalise(name: object) -> str | None:
    """Return which of the languages a name such as ``zh-CN`` or ``en_US.UTF-8`` stands for."""
    short = str(name).partition(".")[0].replace("-", "_").partition("_")[0].lower()
    return next((language for language in LANGUAGES if short and language.startswith(short)), None)


def message(key: str, /, **slots: object) -> str:
    """Return a message with its slots filled.

    Args:
        key: Its table and name in the message file, as in ``"no-grad.headline"``.
        slots: The values for its placeholders. If the message differs between one and several,
            ``count`` decides which form it takes.
    """
    slots |= {"kind": message("report.infinity")} if slots.get("kind") == "infinity" else {}
    if language() != ENGLISH and key in (translated := _messages(language())):
        # The space that a Latin value needs on each side is wrong beside Chinese.
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
    """Return whether there is a message of this key."""
    return key in _messages(ENGLISH)


def messages_of(table: str) -> dict[str, str]:
    """Return the messages of a table by name, with slots unfilled, for a script of a page."""
    keys = (key for key in _messages(ENGLISH) if key.rpartition(".")[0] == table)
    chosen = _messages(ENGLISH) | _messages(language())
    return {key.rpartition(".")[2]: chosen[key] for key in keys}


def code_of_error(text: str) -> str | None:
    """Return the code of the diagnosis that explains an error message of PyTorch's."""
    for key, entry in _messages(ENGLISH).items():
        if key.endswith(".pytorch") and any(part in text for part in entry):
            return key.removesuffix(".pytorch")
    return None


@cache
def _messages(of: str) -> dict[str, Any]:
    """Return the messages of a language by their whole keys."""
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
