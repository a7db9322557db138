"""MyST Markdown -> Page: everything that is executed or claimed, wherever it is nested."""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from markdown_it.token import Token

from sphinx_claims._page import Cell, Heading, Page, Problem, Stated
from sphinx_claims._python import parsed
from sphinx_claims._reading.bodies import Body, body_of, meant_by
from sphinx_claims._reading.cell_fence import nothing_executed, read_cell
from sphinx_claims._reading.claim_box import read_claim
from sphinx_claims._reading.diagram import diagram
from sphinx_claims._reading.directive import Directive, taken_apart
from sphinx_claims._reading.escape import read_escape
from sphinx_claims._reading.front_matter import break_problems, front_matter_problems
from sphinx_claims._reading.headline import formula, headline
from sphinx_claims._reading.html import comment_problems, read_html
from sphinx_claims._reading.include import Files, Found, included, literally_included
from sphinx_claims._reading.inline import read_inline
from sphinx_claims._reading.languages import Kind, kind_of, language_of
from sphinx_claims._reading.markdown import parser
from sphinx_claims._reading.rst import rst_problems
from sphinx_claims._reading.snippet import snippet, snippet_problems
from sphinx_claims._reading.tables import csv_problems, list_table_problems, table_problems
from sphinx_claims._reading.testcode import TESTING, join_outputs, read_testing

_READERS: dict[str, Callable[[str, int], Found]] = {
    "front_matter": front_matter_problems,
    "html_block": read_html,
    "myst_line_comment": comment_problems,
    "math_block": formula,
    "math_block_label": formula,
}
TOO_DEEP = "a page must not nest so deeply"
"""What is said of a page that could not be read for that."""

_UNREADABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")
_DIRECTIVE = re.compile(r"\s*\{\s*([^}\s.][^}\s]*)\s*\}\s*(.*)")
_PICTURES = frozenset({"figure", "figure-md", "image"})
_PLACES = {"alt": "text for a picture", "caption": "caption"}
_FENCE = re.compile(r"^[ \t>*-]*(?:`{3}|~{3}|:{3})", re.MULTILINE)


def read_page(file: Path, path: str) -> Page:
    """Read the page in `file`, to be reported as `path`."""
    if not file.is_file():
        return _unreadable(path, Problem(1, "a page must be a file"))
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        return _unreadable(path, Problem(1, f"a page must be UTF-8: {error}"))
    return parse_page(text, path, (file.resolve(),))


def parse_page(text: str, path: str, files: Files = ()) -> Page:
    """Find every cell, example, inline expression, claim and heading in the text of a page.

    `files` are its file and, for one that is included, those that include it before.
    """
    if odd := _UNREADABLE.search(text):
        line = text.count("\n", 0, odd.start()) + 1
        message = f"a page must hold no control characters, and here is U+{ord(odd[0]):04X}"
        return _unreadable(path, Problem(line, message))
    try:
        found = join_outputs(_walk(text, 0, files or (Path(path).resolve(),)))
    except RecursionError:
        return _unreadable(path, Problem(1, TOO_DEEP))
    found += nothing_executed([thing for thing in found if isinstance(thing, Cell)])
    return Page(
        path=path,
        items=tuple(thing for thing in found if not isinstance(thing, Problem)),
        problems=tuple(dict.fromkeys(thing for thing in found if isinstance(thing, Problem))),
    )


def _unreadable(path: str, problem: Problem) -> Page:
    return Page(path=path, items=(), problems=(problem,))


def _walk(text: str, above: int, files: Files) -> Found:
    """Yield what stands in `text`, which begins under line `above` of the page."""
    lines = text.split("\n")
    tokens = parser().parse(text)
    yield from table_problems(tokens, above)
    yield from _headlines(tokens, above)
    for token in tokens:
        line = above + (token.map or [0])[0] + 1
        match token.type:
            case kind if kind in _READERS:
                yield from _READERS[kind](token.content, line)
            case "myst_block_break" if above == 0:
                yield from break_problems(token.content, line)
            case "heading_open":
                yield Heading(line=line)
            case "inline":
                yield from read_inline(token, line)
            case "fence" | "colon_fence":
                yield from _unclosed(token, lines, line)
                yield from _fence(token, line, files)
            case "code_block":
                yield from snippet(token.content, "", line, line)
            case "blockquote_open" if _is_example(lines[line - above - 1]):
                yield Problem(line, "nobody executes this >>> example: put it in a ```pycon fence")


def _headlines(tokens: Sequence[Token], above: int) -> Found:
    for before, token in itertools.pairwise(tokens):
        if before.type == "heading_open":
            yield from headline(token.content, above + (token.map or [0])[0] + 1, "heading")


def _unclosed(token: Token, lines: list[str], line: int) -> Iterator[Problem]:
    first, behind = token.map or (0, 0)
    end = rf"(?:^|[\s>]){re.escape(token.markup)}+\s*$"
    if behind - 1 <= first or not re.search(end, lines[behind - 1]):
        yield Problem(line, f"this {token.markup} is never closed")


def _is_example(line: str) -> bool:
    """Return whether a line that Markdown takes for a quotation in quotations is an example."""
    mark = re.match(r"[\s*+\d.)-]*>>>(?=\s|$)", line)
    return mark is not None and parsed(line[mark.end() :].strip()) is not None


def _fence(token: Token, line: int, files: Files) -> Found:
    info = token.info.strip()
    match = _DIRECTIVE.match(info)
    if match is None:
        yield from snippet(token.content, info, line, line + 1)
        if kind_of(language_of(info)) is Kind.MATHEMATICS:
            yield from formula(token.content, line + 1)
        return
    directive = taken_apart(match[1], match[2], token.content, line)
    for warning in directive.warnings:
        yield Problem(line, f"{{{directive.name}}} cannot be read: {warning}")
    yield from _directive(directive, files)


def _directive(directive: Directive, files: Files) -> Found:
    """Yield what one of the directives holds that the prover treats in a way of their own."""
    body, line, above = directive.body, directive.line, directive.above
    argument, options = directive.argument, directive.options
    match directive.name:
        case "code-cell":
            yield from read_cell(argument, body, options, fence=line, line=above + 1)
        case "claim":
            yield from read_claim(argument, body, options, line, " ".join(_texts(body)))
            held = _walk(body, above, files)  # its numbers its own evidence must have
            yield from (thing for thing in held if not isinstance(thing, Stated))
        case "unproven":
            code = snippet(body, argument, line, above + 1)
            shown = code if argument else _walk(body, above, files)
            yield from read_escape(list(shown), options, line)
        case "include":
            yield from included(argument, options, line, files, _included_page)
        case "literalinclude":
            yield from literally_included(argument, options, line, files)
        case "eval-rst":
            yield from rst_problems(body, above + 1)
        case "raw" | "raw-cell":
            yield from read_html(body, above + 1)
            yield from snippet_problems(body, "" if directive.name == "raw-cell" else "html", line)
        case "math":
            yield from formula(body, above + 1)
        case "csv-table" | "list-table":
            yield from _table(directive, files)
        case _:
            yield from _other(directive, files)


def _texts(text: str) -> Iterator[str]:
    """Yield the sentences in `text`, and in the directives that it holds."""
    for token in parser().parse(text):
        if token.type == "inline":
            yield token.content
        if token.type in {"fence", "colon_fence"} and (match := _DIRECTIVE.match(token.info)):
            held = taken_apart(match[1], match[2], token.content, 0)
            if body_of(held.name) in {Body.MARKDOWN, Body.UNKNOWN}:
                yield from _texts(held.body)


def _titles(directive: Directive) -> Iterator[Stated]:
    """Yield the results in the title of a directive, in its caption and in the words for it."""
    line = directive.line
    if directive.name in _PICTURES:
        yield from headline(directive.body, directive.above + 1, "caption")
    else:
        yield from headline(directive.argument, line, "title")
    for option in ("alt", "caption"):
        yield from headline(str(directive.options.get(option, "")), line, _PLACES[option])


def _table(directive: Directive, files: Files) -> Found:
    body, above = directive.body, directive.above
    yield from headline(directive.argument, directive.line, "caption")
    if directive.name == "csv-table":
        yield from csv_problems(body, directive.options, above + 1)
    else:
        yield from list_table_problems(parser().parse(body), directive.options, above)
        yield from _walk(body, above, files)


def _other(directive: Directive, files: Files) -> Found:
    """Yield what a directive holds whose body is Markdown, or is shown as it is."""
    name, body, line = directive.name, directive.body, directive.line
    if name in TESTING:
        yield from read_testing(directive)
        return
    if meant := meant_by(name):
        yield Problem(line, f"nobody executes {{{name}}}: is {{{meant}}} meant?")
        return
    if body_of(name) in {Body.MARKDOWN, Body.CODE}:
        yield from _titles(directive)
    match body_of(name):
        case Body.CODE:
            yield from snippet(body, directive.argument, line, directive.above + 1)
        case Body.PYTHON:
            yield from snippet_problems(body or directive.argument, "python", line)
        case Body.PLAIN:
            yield from snippet_problems(body, name, line)
            yield from diagram(body, name, directive.above + 1)
        case Body.UNKNOWN if not _FENCE.search(body):
            yield from snippet_problems(body, "", line)
            yield from _walk(body, directive.above, files)
        case Body.MARKDOWN | Body.UNKNOWN:
            yield from _walk(directive.argument, line - 1, files)
            yield from _walk(body, directive.above, files)


def _included_page(text: str, files: Files) -> Page:
    return parse_page(text, files[-1].name, files)
