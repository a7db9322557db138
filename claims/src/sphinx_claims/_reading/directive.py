"""Parse a MyST directive: its name, argument, options and body."""

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

from docutils.parsers.rst import Directive as AnyDirective
from docutils.parsers.rst.directives import unchanged
from docutils.parsers.rst.states import MarkupError
from myst_parser.parsers.directives import parse_directive_text

_TEXT_OPTIONS = frozenset({"claim", "unproven"})
"""Directives whose options are text, because YAML reads the version 2.10 as the number 2.1."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Directive:
    """A directive whose fence opens on `line`. Its `body` begins on the line after `above`."""

    name: str
    argument: str
    options: Mapping[str, Any]
    body: str
    line: int
    above: int
    warnings: tuple[str, ...]


class _Any(AnyDirective):
    """A directive class for MyST's parser that accepts any options, one argument and a body."""

    option_spec = collections.defaultdict(lambda: unchanged, any=unchanged)  # noqa: RUF012 - docutils requires it
    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True


def parse_directive(name: str, argument: str, content: str, line: int) -> Directive:
    """Parse the argument and the content of a fence that opens on `line`.

    If the content is malformed, the directive has no options and no body, but a warning.
    """
    found = Directive(
        name=name, argument=argument, options={}, body="", line=line, above=line, warnings=()
    )
    try:
        parts = parse_directive_text(
            _Any, argument, content, validate_options=name in _TEXT_OPTIONS
        )
    except MarkupError as error:
        return dataclasses.replace(found, warnings=(str(error),))
    return dataclasses.replace(
        found,
        argument=argument.strip(),
        options=parts.options,
        body="\n".join(parts.body),
        above=line + parts.body_offset,
        warnings=tuple(warning.msg for warning in parts.warnings),
    )
