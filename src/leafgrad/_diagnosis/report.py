"""`Report`: the findings about a training step, shown as text, in a terminal or in a notebook.

A finding becomes pieces of text, each with a style. Only the last step adds colours. The *gutter*
is the column of line numbers; functions take its width.
"""

import linecache
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any, NamedTuple, TextIO

from leafgrad._diagnosis.diagnosis import Diagnosis, Help, Severity, Span
from leafgrad._diagnosis.edits import start_of_method
from leafgrad._display.jsonable import fields_as_json
from leafgrad._display.markup import visible
from leafgrad._display.text_width import cells, wrap
from leafgrad._graph.code_files import short_path
from leafgrad._graph.nodes import Source
from leafgrad._messages import message, translate

WIDTH = 80
MOST_LINES_BETWEEN = 2
CODE = re.compile("`[^`]{1,50}`")
GLUE = "\ue000"
"""Replaces spaces inside code while a sentence is wrapped, so that no line ends there."""


class Piece(NamedTuple):
    """Text on a line, and its style: a severity, or one of the keys of `ANSI`."""

    text: str
    style: str = ""


class Paragraph(NamedTuple):
    """A sentence after a label, wrapped to the width of the page.

    Attributes:
        label: The label, such as "help".
        style: The style of the label.
        text: The sentence.
        body: The style of the sentence.
    """

    label: str
    style: str
    text: str
    body: str = ""


Line = list[Piece]

ANSI = {
    "error": "1;31",
    "warning": "1;33",
    "note": "1;32",
    "help": "1;36",
    "frame": "1;34",
    "second": "1;34",
    "bold": "1",
    "removed": "31",
    "added": "32",
}
CSS = {
    "error": "color: light-dark(#b00020, #ff7b86); font-weight: bold",
    "warning": "color: light-dark(#8a5300, #f0b849); font-weight: bold",
    "note": "color: light-dark(#1a6b2f, #7ed491); font-weight: bold",
    "help": "color: light-dark(#00616e, #67d3e2); font-weight: bold",
    "frame": "color: light-dark(#34558b, #9ab8ee)",
    "second": "color: light-dark(#34558b, #9ab8ee); font-weight: bold",
    "bold": "font-weight: bold",
    "removed": "color: light-dark(#b00020, #ff7b86)",
    "added": "color: light-dark(#1a6b2f, #7ed491)",
}


HANGING = "white-space: pre-wrap; padding-left: 2em; text-indent: -2em"
"""CSS of a sentence: the browser wraps it to the width of the screen."""


def _coloured(piece: Piece) -> str:
    """Return a piece of text with the terminal codes of its style."""
    code = ANSI.get(piece.style)
    return f"\x1b[{code}m{piece.text}\x1b[0m" if code else piece.text


def _line_as_html(line: Line | Paragraph) -> str:
    """Return a line or paragraph as HTML."""
    if isinstance(line, Paragraph):
        label = _piece_as_html(Piece(line.label, line.style))
        text = message("report.line", label="", text=visible(line.text))
        return f'<div style="{HANGING}">{label}{_piece_as_html(Piece(text, line.body))}</div>'
    return f"{''.join(map(_piece_as_html, line))}\n"


def _piece_as_html(piece: Piece) -> str:
    """Return a piece of text as HTML with the colour of its style."""
    style = CSS.get(piece.style)
    text = escape(piece.text)
    return f'<span style="{style}">{text}</span>' if style else text


# --- The lines of a finding


def _lines(diagnoses: Sequence[Diagnosis], more: str) -> Iterator[Line | Paragraph]:
    """Yield the lines of a report: each finding, then `more`, the help for the whole report."""
    if not diagnoses:
        yield [Piece(message("report.clean"))]
    for number, one in enumerate(diagnoses):
        if number:
            yield []
        yield from _finding(one)
    if more:
        yield []
        yield Paragraph(message("report.severity.help"), "help", translate(more))


def _finding(one: Diagnosis) -> Iterator[Line | Paragraph]:
    """Yield the lines of one finding: headline, code with marks, notes and help."""
    kind = f"{message(f'report.severity.{one.severity}')}[{one.code}]"
    yield Paragraph(kind, one.severity, translate(one.headline), "bold")
    spans = [span for span in (one.primary, *one.secondary) if span is not None]
    edited = [edit.line for help_text in one.help for edit in help_text.edits]
    lines = [line for span in spans for line in (span.source.line, span.source.end_line or 0)]
    gutter = len(str(max([*lines, *edited], default=0)))
    files = [*dict.fromkeys(span.source.file for span in spans)]
    spans.sort(key=lambda span: (files.index(span.source.file), span.source.line))
    for _, group in groupby(spans, key=lambda span: span.source.file):
        yield from _snippet([*group], one, gutter)
    if spans:
        yield [Piece(f"{'':{gutter}} |", "frame")]
    also = [message("report.also", headline=after.headline) for after in one.consequences]
    for note in (*one.notes, *also):
        yield Paragraph(message("report.severity.note"), "note", translate(note))
    for help_text in one.help:
        yield from _help(help_text, gutter)


def _wrapped(lines: Iterable[Line | Paragraph]) -> Iterator[Line]:
    """Yield lines of at most 80 columns; code in backticks is not broken."""
    for line in lines:
        if not isinstance(line, Paragraph):
            yield line
            continue
        label, style, text, body = line
        indent = " " * (2 if body else cells(label) + 2)
        text = CODE.sub(lambda code: code[0].replace(" ", GLUE), visible(text))
        text = message("report.line", label=label, text=text)
        broken = wrap(text, WIDTH, indent, break_long_words=False, break_on_hyphens=False)
        first, *rest = (one.replace(GLUE, " ") for one in broken)
        yield [Piece(label, style), Piece(first.removeprefix(label), body)]
        yield from ([Piece(one, body)] for one in rest)


def _help(one: Help, gutter: int) -> Iterator[Line | Paragraph]:
    """Yield the lines of the help `one`: the advice, then its edits as a diff."""
    yield Paragraph(message("report.severity.help"), "help", translate(one.text))
    last: int | None = None
    for edit in one.edits:
        if last is not None and edit.line > last + 1:
            yield [Piece("...", "frame")]
        last = edit.line
        number, is_kept = f"{edit.line:>{gutter}}", edit.before in edit.after
        if not is_kept:
            yield [Piece(f"{number} ", "frame"), Piece(f"- {edit.before}", "removed")]
        for line in edit.after:
            if is_kept and line == edit.before:
                yield [Piece(f"{number}   ", "frame"), Piece(line)]
                continue
            added = f"{'':{gutter}}" if is_kept else number
            yield [Piece(f"{added} ", "frame"), Piece(f"+ {line}", "added")]


# --- The lines of code that a finding marks


def _snippet(spans: Sequence[Span], one: Diagnosis, gutter: int) -> Iterator[Line]:
    """Yield the lines of one file that a finding marks, with a mark under each expression.

    `spans` are the marked expressions in this file, and `one` is the finding. `gutter` is the width
    of the column of line numbers.
    """
    main = next((span for span in spans if span is one.primary), spans[0])
    arrow = "-->" if main is one.primary else ":::"
    yield [Piece(f"{'':{gutter}}{arrow} ", "frame"), Piece(_place_text(main.source))]
    shown = [span for span in spans if linecache.getline(span.source.file, span.source.line)]
    if not shown:
        labels = [translate(span.label) for span in spans if span.label]
        yield from ([Piece(f"{'':{gutter}} = ", "frame"), Piece(one)] for one in labels)
        return
    yield [Piece(f"{'':{gutter}} |", "frame")]
    last: int | None = None
    for line, group in groupby(shown, key=lambda span: span.source.line):
        yield from _lines_between(last, line, main.source.file, gutter)
        text = linecache.getline(main.source.file, line).rstrip("\n").expandtabs(4)
        yield [Piece(f"{line:>{gutter}} | ", "frame"), Piece(visible(text))]
        for span in group:
            style = one.severity if span is one.primary else "second"
            for mark in _marks(span, text, one, WIDTH - gutter - 3):
                yield [Piece(f"{'':{gutter}} | ", "frame"), Piece(mark, style)]
        last = line


def _lines_between(last: int | None, line: int, file: str, gutter: int) -> Iterator[Line]:
    """Yield the lines of code between two marked lines, or dots if there are many.

    `last` is the number of the first marked line, None if there is none, and `line` that of the
    second.
    """
    if last is None or line == last + 1:
        return
    if line - last - 1 > MOST_LINES_BETWEEN:
        yield [Piece("...", "frame")]
        return
    for between in range(last + 1, line):
        text = linecache.getline(file, between).rstrip("\n").expandtabs(4)
        yield [Piece(f"{between:>{gutter}} | ", "frame"), Piece(visible(text))]


def _marks(span: Span, text: str, one: Diagnosis, width: int) -> Iterator[str]:
    """Yield the line under an expression: carets or dashes, and the label.

    `span` is the expression, and `one` the finding. A label that is too long for the line goes
    below the marks.
    """
    start, stop = columns_of(span.source, text)
    marks = ("^" if span is one.primary else "-") * max(stop - start, 1)
    label = translate(span.label)
    line, size = f"{'':{start}}{marks} {label}", cells(label)
    if cells(line) <= width or not label:
        yield line
        return
    yield f"{'':{start}}{marks}"
    yield f"{'':{max(0, min(start, width - size))}}{label}"


def columns_of(source: Source, text: str) -> tuple[int, int]:
    """Return the first and last terminal column of an expression on its first line.

    A `Source` counts columns in bytes, as Python does. If an expression continues on the next line,
    the result reaches to the end of the first line. Of a chain of calls, only the last method
    counts.
    """
    encoded = text.encode()
    first = len(text) - len(text.lstrip())
    if source.column is None or source.column >= len(encoded):
        return first, cells(text)
    begin = start_of_method(source) or source.column
    start = cells(encoded[:begin].decode(errors="replace"))
    ends_here = source.end_column is not None and source.end_line in {None, source.line}
    stop = encoded[: source.end_column].decode(errors="replace") if ends_here else text
    return start, cells(stop.rstrip())


def _place_text(source: Source) -> str:
    """Return the place of a source as text, such as ``train.py:12:5 in forward``."""
    column = "" if source.column is None else f":{source.column + 1}"
    within = "" if source.function == "<module>" else message("report.in", function=source.function)
    at = f"{short_path(source.file)}:{source.line}{column}{within}"
    return message("sources.through", place=at, library=source.library) if source.library else at


@dataclass(frozen=True, repr=False)
class Report:
    """The findings of `diagnose`, the most severe first.

    A report keeps no tensor and no graph alive. ``print(report)`` shows it as text, and a notebook
    shows it in colour.

    Attributes:
        diagnoses: The findings, the most severe first. If one finding causes others, they are
            listed inside it.
        help: Advice on how to find out more, for example which lines are at fault. Empty if the
            report is complete.
    """

    diagnoses: tuple[Diagnosis, ...]
    help: str = ""

    @property
    def ok(self) -> bool:
        """Whether the report contains no error and no warning."""
        return all(one.severity is Severity.NOTE for one in self.diagnoses)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the findings, in the order of the report."""
        return tuple(one.code for one in self.diagnoses)

    def about(self, *names: str) -> "Report":
        """Return a report with only the findings about the named tensors.

        Args:
            names: The names of the tensors, as in `Diagnosis.subject`.
        """
        about = tuple(one for one in self.diagnoses if not {*names}.isdisjoint(one.subject))
        return Report(about, self.help if about else "")

    def show(self, file: TextIO | None = None) -> None:
        """Print the report, in colour if the terminal supports it and ``NO_COLOR`` is not set.

        Args:
            file: The file to print to. By default, this is standard output.
        """
        stream, text = file or sys.stdout, str(self)
        has_colours = stream.isatty() and os.environ.get("TERM") != "dumb"
        if has_colours and not os.environ.get("NO_COLOR"):
            lines = _wrapped(_lines(self.diagnoses, self.help))
            text = "\n".join("".join(map(_coloured, line)) for line in lines)
        print(text, file=stream)

    def __str__(self) -> str:
        lines = _wrapped(_lines(self.diagnoses, self.help))
        return "\n".join("".join(piece.text for piece in line).rstrip() for line in lines)

    def __repr__(self) -> str:
        return f"<Report: {', '.join(self.codes) or 'ok'}>"

    def __bool__(self) -> bool:
        raise TypeError(
            "a Report is neither true nor false: use report.ok, which is True if nothing is wrong, "
            "or report.diagnoses"
        )

    def __iter__(self) -> Iterator[Diagnosis]:
        return iter(self.diagnoses)

    def __len__(self) -> int:
        return len(self.diagnoses)

    def _repr_html_(self) -> str:
        body = "".join(map(_line_as_html, _lines(self.diagnoses, self.help)))
        style = "color: inherit; background: none; overflow-x: auto; line-height: 1.35"
        return f'<pre class="leafgrad-report" style="{style}">{body}</pre>'

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a dict of JSON types.

        Returns:
            A dict with the keys ``ok``, ``help`` and ``diagnoses``, which is a list with one dict
            for each finding.
        """
        return {"ok": self.ok, **fields_as_json(self)}
