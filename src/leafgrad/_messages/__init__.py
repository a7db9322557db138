"""Every sentence that the library prints, draws or raises, in the reader's language."""

import os
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
    found = _normalise(language)
    if found is None:
        raise ValueError(message("errors.language", language=language))
    _chosen[:] = [found]


def language() -> str:
    """Return the language of the messages."""
    wanted = _chosen[0] if _chosen else os.environ.get("LEAFGRAD_LANG", ENGLISH)
    return _normalise(wanted) or ENGLISH


def _normalise(name: object) -> str | None:
    """Return which of the languages a name such as ``zh-CN`` or ``en_US.UTF-8`` stands for."""
    short = str(name).partition(".")[0].replace("-", "_").partition("_")[0].lower()
    return next((one for one in LANGUAGES if one.startswith(short)), None) if short else None


def message(key: str, /, **slots: object) -> str:
    """Return a message with its slots filled.

    Args:
        key: Its table and name in the message file, as in ``"no-grad.headline"``.
        slots: The values for its placeholders. If the message differs between one and several,
            ``count`` decides which form it takes.
    """
    entry = _messages(language()).get(key) or _messages(ENGLISH)[key]
    if isinstance(entry, dict):
        entry = entry["one" if slots["count"] == 1 else "other"]
    return str(entry).format(**slots)


def has_message(key: str) -> bool:
    """Return whether there is a message of this key."""
    return key in _messages(ENGLISH)


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
    found: dict[str, Any] = {}
    tables = [("", tomllib.loads(text))]
    while tables:
        path, table = tables.pop()
        for name, entry in table.items():
            if isinstance(entry, dict) and entry.keys() != {"one", "other"}:
                tables.append((f"{path}{name}.", entry))
            else:
                found[f"{path}{name}"] = entry
    return found
