"""The name, argument, options and body of a directive of MyST."""

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

from docutils.parsers.rst import Directive as AnyDirective
from docutils.parsers.rst.directives import unchanged
from docutils.parsers.rst.states import MarkupError
from myst_parser.parsers.directives import parse_directive_text

_TEXT_OPTIONS = frozenset({"claim", "unproven"})
"""Directives whose options are text: YAML takes the version 2.10 for the number 2.1."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Directive:
    """A directive whose fence opens on `line`; its `body` begins under line `above`."""

    name: str
    argument: str
    options: Mapping[str, Any]
    body: str
    line: int
    above: int
    warnings: tuple[str, ...]


class _Any(AnyDirective):
    """Any options, one argument and a body: what MyST needs to know to parse a directive."""

    option_spec = collections.defaultdict(lambda: unchanged, any=unchanged)  # noqa: RUF012 - so docutils
    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True


def parse_directive(name: str, argument: str, content: str, line: int) -> Directive:
    """Parse a fence: the argument on its first line, `line`, and its content."""
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
