"""What the front matter of a page must not say: that something is executed otherwise, or not."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from sphinx_claims._page import Problem

_SYNTAX = frozenset(
    "all_links_external commonmark_only disable_syntax enable_extensions fence_as_directive"
    " gfm_only sub_delimiters substitutions".split()
)
"""Settings of MyST by which a page would be read in another way than it is judged."""


def front_matter_problems(text: str, line: int) -> Iterator[Problem]:
    """Yield what is wrong with the front matter that begins on `line`."""
    try:
        metadata = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        below = error.problem_mark.line + 1 if error.problem_mark else 0
        said = " ".join(filter(None, (error.context, error.problem)))
        yield Problem(line + below, f"front matter must be YAML: {said}")
        return
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        yield Problem(line, f"front matter must be YAML: {' '.join(str(error).split())}")
        return
    if not isinstance(metadata, dict | None):
        kind = type(metadata).__name__
        yield Problem(line, f"front matter must be a mapping, as in `title: ...`, not a {kind}")
        return
    for key, said in _silencers(metadata or {}):
        message = f"front matter must not set {said}: every cell is executed, as Python"
        found = re.search(rf"^\W*{re.escape(key)}\b", text, re.MULTILINE)
        below = text.count("\n", 0, found.end()) + 1 if found else 0
        yield Problem(line + below, message)


def break_problems(text: str, line: int) -> Iterator[Problem]:
    """Yield what is wrong with the words after `+++`, which MyST-NB takes for settings."""
    try:
        is_mapping = isinstance(json.loads(text or "{}"), dict)
    except (ValueError, RecursionError):
        is_mapping = False
    if not is_mapping:
        yield Problem(line, f"what follows +++ must be a mapping in JSON, not {text!r}")


def _silencers(metadata: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """Yield each key that says so, and how to tell of it."""
    for key in map(str, metadata):
        if key.startswith(("execution", "nb_", "skip-execution", "raises-exception")):
            yield key, repr(key)
    for outer, inner, value in _settings(metadata):
        match outer, inner:
            case "mystnb", _ if inner.startswith(("execution", "custom_formats")):
                yield inner, f"{inner!r} of mystnb"
            case "myst", _ if inner in _SYNTAX:
                yield inner, f"{inner!r} of myst"
            case "jupytext", "main_language" if "python" not in value.lower():
                yield inner, f"{inner} to {value!r}"
    kernel = metadata.get("kernelspec")
    if isinstance(kernel, dict) and "python" not in str(kernel).lower():
        yield "kernelspec", f"kernelspec to {' '.join(map(str, kernel.values()))!r}"


def _settings(metadata: Mapping[Any, Any]) -> Iterator[tuple[str, str, str]]:
    for outer in ("mystnb", "myst", "jupytext"):
        inner = metadata.get(outer)
        for key, value in inner.items() if isinstance(inner, dict) else ():
            yield outer, str(key), str(value)
