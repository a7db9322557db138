"""MyST Markdown -> Page: everything that is executed or claimed, wherever it is nested."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from docutils.parsers.rst import Directive
from docutils.parsers.rst.states import MarkupError
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.directives import parse_directive_text
from myst_parser.parsers.mdit import create_md_parser

from leafgrad.claims._census import PROSE, PYTHON, has_examples, unexecuted
from leafgrad.claims._page import Cell, Claim, Doctest, Heading, Inline, Item, Page, Problem

MYST_EXTENSIONS = frozenset({"attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"})
"""The syntax that a page may use, the same for every front end."""

CELL_TAGS = frozenset({"hide-input", "hide-output", "hide-cell", "remove-input"})
"""Tags that change how a cell looks and nothing about what it proves."""

_CELL_OPTIONS = frozenset({"raises", "warns", "tags"})
_CLAIM_OPTIONS = frozenset({"sources"})
_CODE_DIRECTIVES = frozenset({"code", "code-block", "sourcecode"})
_VERBATIM_DIRECTIVES = frozenset(
    "literalinclude parsed-literal raw raw-cell eval-rst math toctree csv-table mermaid graphviz"
    " doctest testcode testoutput testsetup testcleanup include".split()
)
_SILENCERS = frozenset({"mystnb", "execution"})


def read_page(file: Path, path: str) -> Page:
    """Read the page in `file`, to be reported as `path`."""
    try:
        return parse_page(file.read_text(encoding="utf-8-sig"), path)
    except UnicodeDecodeError as error:
        return Page(path=path, items=(), problems=(Problem(1, f"a page must be UTF-8: {error}"),))


def parse_page(text: str, path: str) -> Page:
    """Find every cell, example, inline expression, claim and heading in the text of a page."""
    found = list(_walk(text, above=0))
    return Page(
        path=path,
        items=tuple(thing for thing in found if not isinstance(thing, Problem)),
        problems=tuple(dict.fromkeys(thing for thing in found if isinstance(thing, Problem))),
    )


class _AnyDirective(Directive):
    """Options, one argument and a body: what MyST needs to know to take a directive apart."""

    option_spec = {"any": str}  # noqa: RUF012 - docutils declares it so
    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True


def _parser() -> MarkdownIt:
    return create_md_parser(MdParserConfig(enable_extensions=set(MYST_EXTENSIONS)), RendererHTML)


def _walk(text: str, above: int) -> Iterator[Item | Problem]:
    """Yield what stands in `text`, which begins under line `above` of the page."""
    lines = text.splitlines()
    for token in _parser().parse(text):
        line = above + (token.map or [0])[0] + 1
        if token.type == "front_matter":
            yield from _front_matter(token.content, line)
        elif token.type == "heading_open":
            yield Heading(line=line)
        elif token.type == "inline":
            yield from _inline(token, line)
        elif token.type in {"fence", "colon_fence"}:
            yield from _fence(token, line)
        elif token.type == "code_block":
            yield from _snippet(token.content, "", line)
        elif token.type == "blockquote_open" and has_examples(lines[line - above - 1]):
            yield Problem(line, "nobody executes this >>> example: put it in a ```pycon fence")


def _front_matter(text: str, line: int) -> Iterator[Problem]:
    try:
        metadata = yaml.safe_load(text)
    except yaml.YAMLError as error:
        yield Problem(line, f"front matter must be YAML: {' '.join(str(error).split())}")
        return
    for key in sorted(_SILENCERS.intersection(metadata or ())):
        yield Problem(line, f"front matter must not set {key!r}: every cell is executed")


def _inline(token: Token, line: int) -> Iterator[Inline]:
    for child in token.children or ():
        if child.type in {"softbreak", "hardbreak"}:
            line += 1
        elif child.type == "myst_role" and child.meta["name"] in {"claim", "value"}:
            yield Inline(line=line, role=child.meta["name"], source=child.content)


def _fence(token: Token, line: int) -> Iterator[Item | Problem]:
    info = token.info.strip()
    directive = re.match(r"\{([^}]+)\}\s*(.*)", info)
    if directive is None:
        yield from _snippet(token.content, info.partition(" ")[0], line)
    else:
        yield from _directive(directive[1], directive[2], token.content, line)


def _directive(name: str, argument: str, content: str, line: int) -> Iterator[Item | Problem]:
    try:
        parsed = parse_directive_text(_AnyDirective, argument, content, validate_options=False)
    except MarkupError as error:
        yield Problem(line, f"{{{name}}} cannot be read: {error}")
        return
    for warning in parsed.warnings:
        yield Problem(line, f"{{{name}}} cannot be read: {warning.msg}")
    body, above = "\n".join(parsed.body), line + parsed.body_offset
    if name == "code-cell":
        yield from _cell(body, parsed.options, fence=line, line=above + 1)
    elif name == "claim":
        yield from _claim(argument, body, parsed.options, line)
        yield from _walk(body, above)
    elif name in _CODE_DIRECTIVES:
        yield from _census(body, argument, line)
    elif name in _VERBATIM_DIRECTIVES:
        yield from _census(body, "text" if has_examples(body) else name, line)
    else:
        yield from _walk(body, above)


def _cell(
    source: str, options: dict[str, Any], *, fence: int, line: int
) -> Iterator[Cell | Problem]:
    for key in sorted(set(options) - _CELL_OPTIONS):
        yield Problem(fence, f"a cell's options are {_listed(_CELL_OPTIONS)}, not {key!r}")
    tags = _tags(options.get("tags"))
    for tag in sorted(set(tags) - CELL_TAGS):
        yield Problem(fence, f"a cell's tags are {_listed(CELL_TAGS)}, not {tag!r}")
    declared: dict[str, str | None] = {"raises": None, "warns": None}
    for key in declared.keys() & options.keys():
        try:
            declared[key] = _declaration(str(options[key]))
        except ValueError as error:
            yield Problem(fence, f":{key}: {error}")
    yield Cell(
        line=line,
        fence=fence,
        source=source,
        **declared,
        tags=tuple(tag for tag in tags if tag in CELL_TAGS),
    )


def _declaration(text: str) -> str:
    name, _, pattern = text.partition(":")
    if not re.fullmatch(r"[A-Za-z_][\w.]*", name.strip()):
        message = f'must read "Type: pattern", not {text!r}'
        raise ValueError(message)
    try:
        re.compile(pattern.strip())
    except re.error as error:
        message = f"must hold a regular expression after the type: {error}"
        raise ValueError(message) from error
    return text


def _claim(
    argument: str, body: str, options: dict[str, Any], line: int
) -> Iterator[Claim | Problem]:
    for key in sorted(set(options) - _CLAIM_OPTIONS):
        yield Problem(line, f"a claim's options are {_listed(_CLAIM_OPTIONS)}, not {key!r}")
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)+", argument):
        yield Problem(line, f"a claim's id must read topic/name, not {argument!r}")
    statement = " ".join(re.split(r"^[`:]{3,}", body, maxsplit=1, flags=re.MULTILINE)[0].split())
    if not statement:
        yield Problem(line, "a claim must hold the sentence that it claims")
    sources = (source.strip() for source in str(options.get("sources") or "").split(","))
    yield Claim(line=line, id=argument, statement=statement, sources=tuple(filter(None, sources)))


def _snippet(source: str, language: str, line: int) -> Iterator[Doctest | Problem]:
    if language.lower() in PYTHON | PROSE and has_examples(source):
        yield Doctest(line=line + 1, source=source)
    else:
        yield from _census(source, language, line)


def _census(source: str, language: str, line: int) -> Iterator[Problem]:
    reason = unexecuted(source, language)
    if reason is not None:
        yield Problem(line, reason, snippet=source.strip())


def _tags(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(value.split()) if isinstance(value, str) else tuple(map(str, value))


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
