"""Read the front matter of a page: its scope, and settings that it must not contain."""

import json
from collections.abc import Iterator

import yaml

from sphinx_claims._page import Problem, Scope

_READING = frozenset(
    "all_links_external commonmark_only disable_syntax enable_extensions fence_as_directive"
    " gfm_only sub_delimiters substitutions".split()
)


def read_front_matter(text: str, line: int) -> Iterator[Scope | Problem]:
    """Yield the scope and the problems of the front matter that begins on `line`.

    Settings that change how Sphinx reads or executes the page are problems.
    """
    try:
        metadata = yaml.safe_load(text) or {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        yield Problem(line, f"front matter must be YAML: {' '.join(str(error).split())}")
        return
    if not isinstance(metadata, dict):
        kind = type(metadata).__name__
        yield Problem(line, f"front matter must be a mapping, as in `title: ...`, not a {kind}")
        return
    if words := str(metadata.get("scope") or "").split():
        yield Scope(line=line, words=tuple(words))
    settings = [(key, "") for key in map(str, metadata)]
    for outer in ("myst", "mystnb"):
        inner = metadata.get(outer)
        settings += [(outer, str(key)) for key in inner] if isinstance(inner, dict) else []
    for outer, inner in settings:
        is_execution = (inner or outer).startswith(("execution", "nb_", "custom_formats"))
        if is_execution or (outer == "myst" and inner in _READING):
            name = ".".join(filter(None, (outer, inner)))
            message = (
                f"front matter must not set {name}: the prover reads and executes all pages alike"
            )
            yield Problem(line, message)


def break_problems(text: str, line: int) -> Iterator[Problem]:
    """Yield a problem unless the text after `+++` is a JSON object.

    `line` is the line of the `+++`. MyST-NB reads the text as settings.
    """
    try:
        is_mapping = isinstance(json.loads(text or "{}"), dict)
    except (ValueError, RecursionError):
        is_mapping = False
    if not is_mapping:
        yield Problem(line, f"what follows +++ must be a mapping in JSON, not {text!r}")
