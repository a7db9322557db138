"""Red lines where GitHub shows them: on the lines of a change."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from sphinx_claims._judging.report import RedLine
from sphinx_claims._paths import path_from

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def annotations(red: Iterable[RedLine], root: Path) -> Iterator[str]:
    """Yield the command that annotates each line of a file under `root`; nothing elsewhere.

    The format: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    workspace = os.environ.get("GITHUB_WORKSPACE", ".")
    for line in red:
        file = path_from(workspace, root / line.path)
        place = f"file={_escaped(file, _PROPERTY)},line={line.line}"
        title = f"title={_escaped(line.claim or 'not true', _PROPERTY)}"
        yield f"::error {place},{title}::{_escaped(line.text, _DATA)}"


def _escaped(text: str, escapes: Mapping[str, str]) -> str:
    return text.translate({ord(character): code for character, code in escapes.items()})
