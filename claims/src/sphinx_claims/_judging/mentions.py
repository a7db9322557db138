"""Find code and numbers that a claim's sentence mentions but its evidence does not contain.

Each piece of code in backticks must occur in the code, output or exceptions of the evidence, or in
earlier statements that create or use the same objects. These parts of it must occur:

- for a dotted name or a call, the last name: `backward` for `Tensor.backward()`;
- for `flag=value`, both parts, side by side;
- for `True`, `False` and `None`, a value that a check evaluates or compares with, not an argument;
- for any other code, each name and number.

If the sentence contains a comparison, an assert of it counts as `True`, and an assert of its
negation as `False`.

A number in the text must occur as well. If the evidence has more digits, it is rounded. A number
with a unit may also occur without it: 4 MB as 4e6, 5% as 1.05. `ones` counts as 1, `zeros` as 0.
Numbers after a capitalised word (PyTorch 2.13, Figure 2), the years of citations and the addresses
of links are names, so they are not checked. Code after "without", "instead of", "rather than" or a
negated "raise", "issue" or "emit" is not checked either.
"""

import ast
import itertools
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence

from sphinx_claims._executing.asserts import statements
from sphinx_claims._page import Cell, Claim, Doctest, Inline, Step
from sphinx_claims._python import bound_names, parse_python
from sphinx_claims._reading.markdown import parser
from sphinx_claims._record import Ran, Record

_DIGITS = (
    r"(?i:0(?:x(?:_?[\da-f]){1,200}|o(?:_?[0-7]){1,200}|b(?:_?[01]){1,200})(?!\w)"
    r"|\d+(?:[,_]\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?)"
)
_TOKEN = re.compile(rf"[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*|{_DIGITS}|\S")
_NUMBER = re.compile(
    rf"(?<![\w.])({_DIGITS})(?:\s?(%|percent\b|[kKMGT]i?B\b|[mµn]s\b)|(?![\w.]*\w))"
)
_BARE_POINT = re.compile(r"(?<![\w.)\]])\.(?=\d)")
_BASES = {*"xXoObB"}
_UNITS = {"%": 1e-2, "percent": 1e-2, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "kB": 1e3, "kiB": 1024.0}
for _power, _prefix in enumerate("KMGT", 1):
    _UNITS |= {f"{_prefix}B": 1e3**_power, f"{_prefix}iB": 1024.0**_power}
_FILLED = {"ones": 1.0, "ones_like": 1.0, "zeros": 0.0, "zeros_like": 0.0}
_NAMED = re.compile(r"(?<![.!?:])\s[A-Z]\w*\s\[?$|\bet al\.,?\s\(?$")
_BRACKETS = re.compile(r"\(\d+\)|[(\[][^()\[\]]*[^\W\d_a-z][^()\[\]]*[)\]]")
_YEAR = re.compile(r"[(\[,;]\s*(?:1[5-9]|20)\d\d(?=[a-z]?\s*[)\],;])")
_WITHOUT = re.compile(
    r"\b(?:(?:without|instead of|rather than)(?:\s\w+ing)?|(?:raise|issue|emit)s? no"
    r"|(?:\w*n[o'’]t|never)\s(?:raise|issue|emit)s?)(?:\san?)?\s$",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"https?://\S+")
_LINK = {"link_open": "[", "link_close": "]"}
_SHOWN = {"text", *_LINK}
_FLAG = re.compile(r"(\w+)\s*=\s*([\w.'\"]+)")
_OPPOSITES: dict[type, ast.cmpop] = {ast.NotEq: ast.Eq(), ast.IsNot: ast.Is(), ast.NotIn: ast.In()}
_CONSTANTS = frozenset({"True", "False", "None"})
_TEXTS = frozenset({"text/plain", "text/markdown", "text/latex", "text/html"})


def missing_mentions(claim: Claim, own: Sequence[Ran], ran: Sequence[Ran]) -> Iterator[str]:
    """Yield the code and the numbers in the sentence of a claim that its evidence lacks.

    `own` contains the steps of its evidence, and `ran` all steps of the page.
    """
    spans, text = _parts(claim.statement)
    if not (spans or _NUMBER.search(text)):
        return
    evidence = _Evidence(claim, own, ran)
    named = " ".join(claim.exceptions)
    for span in spans:
        if span not in named and not evidence.has_code(span):
            yield f"`{span}`"
    spots = (brackets.span() for brackets in _BRACKETS.finditer(text))
    years = {year.end() for spot in spots for year in _YEAR.finditer(text, *spot)}
    for number in _NUMBER.finditer(text):
        is_name = _NAMED.search(text, 0, number.start()) or number.end() in years
        if not is_name and not evidence.has_number(number[1], _UNITS.get(number[2], 1.0)):
            yield number[0]


def _parts(sentence: str) -> tuple[list[str], str]:
    """Return the pieces of code in a sentence, except after "without", and the other text."""
    (inline,) = parser().parseInline(sentence)
    children = inline.children or []
    spans = [
        child.content
        for before, child in itertools.pairwise([inline, *children])
        if child.type == "code_inline" and not _WITHOUT.search(before.content)
    ]
    texts = (_LINK.get(child.type, child.content) for child in children if child.type in _SHOWN)
    return spans, _ADDRESS.sub("", " ".join(texts))


class _Evidence:
    """The words and numbers in the code and the output of a claim's evidence."""

    def __init__(self, claim: Claim, own: Sequence[Ran], ran: Sequence[Ran]) -> None:
        shown = [claim.since or "", claim.until or ""]
        shown += [text for step, record in own for text in _collect_texts(step, record)]
        trees = [tree for step, _ in own for tree in _trees(step)]
        above = list(_find_uses(trees, [step for step, _ in ran if step.line < own[0][0].line]))
        code = [ast.unparse(node) for node in (*trees, *above)]
        self._text = f" {' '.join(_tokens(' '.join((*code, *shown))))} "
        words = _split(self._text)
        self._words = {word for word in words if not word[0].isdigit()}
        self._numbers = {_value(word) for word in words if word[0].isdigit()}
        self._numbers |= {number for name, number in _FILLED.items() if name in self._words}
        spans = filter(None, map(parse_python, _parts(claim.statement)[0]))
        nodes = itertools.chain.from_iterable(tree.body for tree in spans)
        stated = dict(_without_not(node.value) for node in nodes if isinstance(node, ast.Expr))
        self._constants = {word for text in shown for word in _split(text)} | {
            constant
            for step, _ in own
            for tree in _trees(step)
            for constant in _find_constants(step, tree, stated)
        }

    def has_code(self, span: str) -> bool:
        if span in _CONSTANTS:
            return span in self._constants
        if flag := _FLAG.fullmatch(span):
            is_there = f" {' '.join(_tokens(span))} " in self._text
            values = self._constants if flag[2] in _CONSTANTS else self._words
            return is_there or (flag[2].strip("'\"") in values and flag[1] in self._words)
        tree = parse_python(span)
        normal = ast.unparse(tree) if tree is not None else ""
        return self._has_words(span) or (bool(normal) and self._has_words(normal))

    def _has_words(self, code: str) -> bool:
        words = [_names_in(token)[-1] for token in _tokens(code)]
        return all(
            self.has_number(word) if word[0].isdigit() else word in self._words
            for word in words
            if word[0].isalnum() and not keyword.iskeyword(word) and word not in _CONSTANTS
        )

    def has_number(self, text: str, unit: float = 1.0) -> bool:
        value, (mantissa, _, exponent) = _value(text), text.lower().partition("e")
        is_decimal = text[1:2] not in _BASES
        digits = len(mantissa.partition(".")[2]) - int(exponent or 0) if is_decimal else 0
        scaled = [one / scale for one in self._numbers for scale in (1.0, unit)]
        if unit == _UNITS["%"]:  # A factor of 1.05 means 5% more.
            scaled += [abs(one - 1) / unit for one in self._numbers]
        return value in self._numbers or value in (round(one, digits) for one in scaled)


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(_BARE_POINT.sub("0.", text.replace('"', "'")))


def _split(text: str) -> list[str]:
    return [word for token in _tokens(text) for word in _names_in(token)]


def _names_in(token: str) -> list[str]:
    """Return the parts of a dotted name, or the token itself if it is not a name."""
    is_name = token[0].isalpha() or token[0] == "_"
    return [name.strip() for name in token.split(".")] if is_name else [token]


def _value(number: str) -> float:
    is_decimal = number[1:2] not in _BASES
    return float(re.sub("[,_]", "", number) if is_decimal else int(number, 0))


def _collect_texts(step: Step, record: Record) -> Iterator[str]:
    """Yield the texts of a step: its declarations, expected outputs and actual outputs."""
    yield record.value or ""
    if isinstance(step, Cell):
        yield f"{step.raises or ''} {step.warns or ''}"
    if isinstance(step, Doctest):
        yield from (check.expected for check in record.checks)
    for output in record.outputs:
        data = output.get("data") or {}
        yield from (str(text) for kind, text in data.items() if kind in _TEXTS)
        yield " ".join(str(output.get(key, "")) for key in ("text", "ename", "evalue"))


def _trees(step: Step) -> Iterator[ast.Module]:
    sources = step.python() if isinstance(step, Doctest) else [(step.line, step.source)]
    for _, source in sources:
        if (tree := parse_python(source)) is not None:
            yield tree


def _find_uses(trees: Sequence[ast.AST], steps: Sequence[Step]) -> Iterator[ast.stmt]:
    """Yield statements in `steps` that bind or use names that `trees` use, the last one first.

    The names that these statements use count too.
    """
    used = {name for tree in trees for name in _names(tree)}
    bodies = (tree.body for step in reversed(steps) for tree in _trees(step))
    for statement in (statement for body in bodies for statement in reversed(body)):
        names = set(_names(statement))
        if bound_names([statement]) & used:
            used |= names
            yield statement
        elif isinstance(statement, ast.Expr) and names & used:
            yield statement


def _names(tree: ast.AST) -> Iterator[str]:
    return (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def _find_constants(step: Step, tree: ast.Module, stated: Mapping[str, bool]) -> Iterator[str]:
    """Yield `True`, `False` or `None` for each one that a check evaluates to or that code contains.

    Values of keyword arguments do not count. `stated` contains the expressions of the sentence
    without "not", and whether they had one.
    """
    nodes = [*ast.walk(tree)]
    calls = (node for node in nodes if isinstance(node, ast.Call))
    arguments = {id(option.value) for call in calls for option in call.keywords}
    for node in nodes:
        is_constant = isinstance(node, ast.Constant) and str(node.value) in _CONSTANTS
        if is_constant and id(node) not in arguments:
            yield ast.unparse(node)
    tests = [node.test for node in statements(tree) if isinstance(node, ast.Assert)]
    inline = tree.body if isinstance(step, Inline) else []
    tests += [node.value for node in inline if isinstance(node, ast.Expr)]
    for test in tests:
        parts = test.values if isinstance(test, ast.BoolOp) else [test]
        for part in parts:
            text, is_negated = _without_not(part)
            if text in stated:
                yield str(is_negated == stated[text])
            elif isinstance(part, ast.UnaryOp) and is_negated:
                yield "False"
            elif not isinstance(part, ast.Compare):
                yield "True"


def _without_not(test: ast.expr) -> tuple[str, bool]:
    """Return the text of a test without "not", and whether it had one. `a != b` is `not a == b`."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            text, is_negated = _without_not(operand)
            return text, not is_negated
        case ast.Compare(left=left, ops=[op], comparators=right) if type(op) in _OPPOSITES:
            return ast.unparse(ast.Compare(left, [_OPPOSITES[type(op)]], right)), True
    return ast.unparse(test), False
