"""The code in reStructuredText, such as `{eval-rst}` holds."""

import re
from collections.abc import Iterator, Sequence

from sphinx_claims._page import Problem
from sphinx_claims._reading.bodies import Body, body_of, meant_by
from sphinx_claims._reading.snippet import snippet_problems
from sphinx_claims._reading.unexecuted_code import has_examples

_DIRECTIVE = re.compile(r"\s*\.\. ([\w:.+-]+?)::(?:\s+(.*))?$")
_OPTION = re.compile(r":[\w-]+:(?: .*)?$")
_ROLE = re.compile(r":(?:claim|value):`([^`]*)`|`([^`]*)`:(?:claim|value):")


def rst_problems(source: str, line: int) -> Iterator[Problem]:
    """Yield what nobody executes in RST whose first line is `line` of a page."""
    lines = source.split("\n")
    for index, text in enumerate(lines):
        here = line + index
        if directive := _DIRECTIVE.match(text):
            block = _body(_below(lines, index))
            yield from _directive_problems(directive[1], directive[2] or "", block, here)
        elif text.rstrip().endswith("::"):
            yield from snippet_problems("\n".join(_below(lines, index)), "", here)
        elif has_examples(text) and not has_examples(lines[index - 1] if index else ""):
            yield Problem(here, "nobody executes this >>> example: put it in a ```pycon fence")
        for role in _ROLE.finditer(text):
            yield Problem(here, f"nobody evaluates `{role[1] or role[2]}`: write it in Markdown")


def _directive_problems(name: str, argument: str, body: str, line: int) -> Iterator[Problem]:
    if meant_by(name):
        yield Problem(line, f"nobody executes this {name}: write it in Markdown")
        return
    match body_of(name):
        case Body.CODE:
            yield from snippet_problems(body, argument, line)
        case Body.PYTHON:
            yield from snippet_problems(body, "python", line)
        case Body.PLAIN:
            yield from snippet_problems(body, name, line)


def _below(lines: Sequence[str], index: int) -> list[str]:
    """Return the lines below one that are indented more than it, or blank."""
    indent = _indent(lines[index])
    end = index + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
        end += 1
    return list(lines[index + 1 : end])


def _body(block: Sequence[str]) -> str:
    """Return the lines of a directive's block without its options."""
    options = 0
    while options < len(block) and _OPTION.match(block[options].strip()):
        options += 1
    return "\n".join(block[options:])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
