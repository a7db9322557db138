"""Read MyST Markdown into a `Page`: everything that is executed or claimed, at any depth."""

import re
from collections.abc import Iterator
from pathlib import Path

from markdown_it.token import Token

from sphinx_claims._page import Cell, Claim, Escape, Heading, Inline, Item, Page, Problem
from sphinx_claims._python import parse_python
from sphinx_claims._reading.cell_fence import read_cell
from sphinx_claims._reading.claim_box import read_claim
from sphinx_claims._reading.directive import Directive, parse_directive
from sphinx_claims._reading.fence import (
    CODE,
    NOT_EXECUTED,
    PLAIN,
    PYTHON,
    directive_meant_by,
    read_fence,
)
from sphinx_claims._reading.front_matter import break_problems, read_front_matter
from sphinx_claims._reading.include import Context, read_include, text_of
from sphinx_claims._reading.inline import read_inline
from sphinx_claims._reading.markdown import parser
from sphinx_claims._reading.testcode import TESTING, join_outputs, read_testing

Found = Iterator[Item | Problem]

TOO_DEEP = "a page must not nest so deeply"
"""The message for a page that cannot be read because it nests too deeply."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")
_DIRECTIVE = re.compile(r"\s*\{\s*([^}\s.][^}\s]*)\s*\}\s*(.*)")


def read_page(file: Path, path: str, python_fences: str = "show") -> Page:
    """Read the page in `file`. It is reported under the name `path`.

    If the file cannot be read, return a page with a problem only.
    """
    if not file.is_file():
        return _unreadable(path, Problem(1, "a page must be a file"))
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        return _unreadable(path, Problem(1, f"a page must be UTF-8: {error}"))
    return parse_page(text, path, Context((file.resolve(),), python_fences))


def parse_page(text: str, path: str, context: Context | None = None) -> Page:
    """Return the page with this text: its cells, examples, claims, headings and problems.

    `path` is the path of the page, for messages.
    """
    if odd := _CONTROL.search(text):
        line = text.count("\n", 0, odd.start()) + 1
        message = f"a page must hold no control characters, and here is U+{ord(odd[0]):04X}"
        return _unreadable(path, Problem(line, message))
    try:
        walked = _walk(text, 0, context or Context((Path(path).resolve(),)))
        found = join_outputs(walked)
    except RecursionError:
        return _unreadable(path, Problem(1, TOO_DEEP))
    return Page(
        path=path,
        items=tuple(thing for thing in found if not isinstance(thing, Problem)),
        problems=tuple(dict.fromkeys(thing for thing in found if isinstance(thing, Problem))),
    )


def _unreadable(path: str, problem: Problem) -> Page:
    return Page(path=path, items=(), problems=(problem,))


def _walk(text: str, above: int, context: Context) -> Found:
    """Yield the items and problems of `text`, which begins below line `above` of the page."""
    lines = text.split("\n")
    for token in parser().parse(text):
        line = above + (token.map or [0])[0] + 1
        match token.type:
            case "front_matter":
                yield from read_front_matter(token.content, line)
            case "myst_block_break" if above == 0:
                yield from break_problems(token.content, line)
            case "heading_open":
                yield Heading(line=line)
            case "inline":
                yield from read_inline(token, line)
            case "fence" | "colon_fence":
                if not _is_closed(token, lines) or _swallows_directive(token):
                    yield Problem(line, f"this {token.markup} is never closed")
                yield from _fence(token, line, context)
            case "code_block":
                yield from read_fence(token.content, "", line, line, context.python_fences)
            case "blockquote_open" if _is_example(lines[line - above - 1]):
                message = "this >>> example is a quotation in Markdown: put it in a ```pycon fence"
                yield Problem(line, message)


def _is_closed(token: Token, lines: list[str]) -> bool:
    first, behind = token.map or (0, 0)
    end = rf"(?:^|[\s>]){re.escape(token.markup)}+\s*$"
    return behind - 1 > first and re.search(end, lines[behind - 1]) is not None


def _swallows_directive(token: Token) -> bool:
    """Return whether a plain fence is not closed before the opening of a directive."""
    is_plain = not token.info.strip().startswith("{")
    opening = rf"^{re.escape(token.markup)}\{{"
    return is_plain and re.search(opening, token.content, re.MULTILINE) is not None


def _is_example(line: str) -> bool:
    """Return whether a line that Markdown reads as a quotation is a `>>>` example."""
    mark = re.match(r"[\s*+\d.)-]*>>>(?=\s|$)", line)
    return mark is not None and parse_python(line[mark.end() :].strip()) is not None


def _fence(token: Token, line: int, context: Context) -> Found:
    info = token.info.strip()
    match = _DIRECTIVE.match(info)
    if match is None:
        yield from read_fence(token.content, info, line, line + 1, context.python_fences)
        return
    directive = parse_directive(match[1], match[2], token.content, line)
    for warning in directive.warnings:
        yield Problem(line, f"{{{directive.name}}} cannot be read: {warning}")
    yield from _directive(directive, context)


def _directive(directive: Directive, context: Context) -> Found:
    name, body, line, above = directive.name, directive.body, directive.line, directive.above
    argument, options = directive.argument, directive.options
    match name:
        case "code-cell":
            yield from read_cell(argument, body, options, fence=line, line=above + 1)
        case "claim":
            yield from read_claim(argument, body, options, line)
            yield from _walk(body, above, context)
        case "unproven":
            yield from _escape(directive, context)
        case "include":
            yield from read_include(argument, options, line, context, parse_page)
        case "literalinclude":
            yield from _literal_include(directive, context)
        case _ if name in TESTING:
            yield from read_testing(directive, context.python_fences)
        case _ if name in CODE:
            yield from read_fence(body, argument, line, above + 1, context.python_fences)
        case _ if meant := directive_meant_by(name):
            yield Problem(line, f"{{{name}}} is not executed: did you mean {{{meant}}}?")
        case _ if name not in PLAIN:
            yield from _walk(argument, line - 1, context)
            yield from _walk(body, above, context)


def _escape(directive: Directive, context: Context) -> Found:
    """Yield the `Escape` for an `{unproven}` directive, its headings and problems.

    An `Escape` is a passage that is shown but not proven. Nothing in the directive is executed.
    """
    line = directive.line
    because = " ".join(str(directive.options.get("because") or "").split())
    for key in sorted(directive.options.keys() - {"because"}):
        yield Problem(line, f"the option of {{unproven}} is because, not {key!r}")
    if not because:
        yield Problem(line, "{unproven} must give a reason in :because:")
    held = [] if directive.argument else [*_walk(directive.body, directive.above, context)]
    if any(isinstance(thing, Cell | Claim | Inline) for thing in held):
        yield Problem(line, "{unproven} must hold no cells, claims or roles: move them out")
    yield Escape(line=line, because=because)
    yield from (thing for thing in held if isinstance(thing, Heading))


def _literal_include(directive: Directive, context: Context) -> Found:
    """Yield a problem if a `{literalinclude}` shows Python, which is not executed, or no file.

    Python is a problem only if `python_fences` is "refuse".
    """
    try:
        file, _ = text_of(directive.argument, context.files[0])
    except ValueError as error:
        yield Problem(directive.line, str(error))
        return
    language = str(directive.options.get("language") or file.suffix.removeprefix("."))
    if language in PYTHON and context.python_fences == "refuse":
        yield Problem(directive.line, NOT_EXECUTED)
