"""Does this text look like Python that nobody executes?"""

import ast
import re
import sys
import textwrap
from collections.abc import Sequence

from sphinx_claims._python import parsed
from sphinx_claims._reading.languages import OUTPUT, Kind, kind_of, python_languages
from sphinx_claims._reading.pasted import pasted
from sphinx_claims._vocabulary import known, one_of

_CURE = "or say why not, in {unproven}"
_EXAMPLE = re.compile(r"^[ \t]*>>>(?=[\s\w\"'(\[]|$)", re.MULTILINE)
_NUMBERED = re.compile(r"^[ \t]*In ?\[\d*\]: ", re.MULTILINE)
_FENCE = r"^[ \t>*-]*(?:`{3,}|~{3,}|:{3,}|\.\.)[ \t]*"
_CELL = re.compile(rf"{_FENCE}\{{?(?:code-cell|claim)(?:\}}|::)", re.MULTILINE)
_TRACEBACK = re.compile(r"^[ \t]*Traceback \(most recent call last\)", re.MULTILINE)

_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.With, ast.AsyncWith)
_BLOCKS = (*_DEFINES, ast.ImportFrom, ast.Assert, ast.If, ast.Try, ast.For, ast.While)
_ACTS = (*_BLOCKS, ast.Import)
_BINDS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete, ast.Raise)
_FORMULA = (
    *(ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple),
    *(ast.operator, ast.unaryop, ast.expr_context),
)
_HARDLY_ELSE = re.compile(r"\bimport\b|\w\.\w+\(")


def has_examples(source: str) -> bool:
    """Return whether `source` holds `>>>` examples."""
    return _EXAMPLE.search(source) is not None


def holds_cells(source: str) -> bool:
    """Return whether `source` holds the Markdown of a cell or of a claim."""
    return _CELL.search(source) is not None


def unexecuted(source: str, language: str) -> str | None:
    """Return why a snippet that was not executed must be; None where it is no Python."""
    kind = kind_of(language)
    if kind is Kind.PYTHON:
        return f"nobody executes this {language} snippet: make it a {{code-cell}}, {_CURE}"
    if _NUMBERED.search(source):
        return f"nobody executes these IPython prompts: make them a {{code-cell}}, {_CURE}"
    if has_examples(source):
        return f"nobody executes these >>> examples: put them in a ```pycon fence, {_CURE}"
    if holds_cells(source) or _holds_python(source):
        return f"nobody executes the code in this block: let a cell print it, {_CURE}"
    shown = _new_side(source) if language in {"diff", "udiff", "patch"} else source
    if _is_python(shown, kind):
        return f"this looks like Python and nobody executes it: make it a {{code-cell}}, {_CURE}"
    line = pasted(source) if kind in {Kind.BARE, Kind.TEXT} or language in OUTPUT else None
    return line and f"{line!r} looks printed and nobody executed it: let a cell print it, {_CURE}"


def _holds_python(source: str) -> bool:
    """Return whether `source` holds the Markdown of a snippet of Python."""
    languages = one_of(sorted(python_languages()))
    return re.search(rf"{_FENCE}{languages}\b", source, re.MULTILINE) is not None


def _is_python(source: str, kind: Kind) -> bool:
    source = textwrap.dedent(source)
    tree = parsed(source)
    if tree is None:
        is_looked_into = kind in {Kind.BARE, Kind.TEXT} and not _TRACEBACK.search(source)
        return is_looked_into and any(map(_is_statement, source.split("\n")))
    if kind in {Kind.FOREIGN, Kind.MATHEMATICS}:
        return any(map(_is_hardly_foreign, ast.walk(tree)))
    lines = source.encode().split(b"\n")
    return any(
        isinstance(node, _ACTS) or _assigns(node, kind) or _is_call(node, lines)
        for node in ast.walk(tree)
    )


def _is_hardly_foreign(node: ast.AST) -> bool:
    """Return whether `node`, which parses as Python, would be written so in no other language."""
    match node:
        case ast.Import():
            packages = {*sys.stdlib_module_names, *known().names}
            return any(alias.name.partition(".")[0] in packages for alias in node.names)
        case ast.Attribute(value=ast.Name(id=name)):
            return name in known().names
        case ast.Call():
            return any(keyword.arg for keyword in node.keywords)
    return isinstance(node, _BLOCKS)


def _is_statement(line: str) -> bool:
    """Return whether a line among others that are no Python can hardly be anything else."""
    tree = parsed(line.strip()) if _HARDLY_ELSE.search(line) else None
    for statement in tree.body if tree is not None else ():
        match statement:
            case ast.Import() | ast.ImportFrom() | ast.Assign(value=ast.Call(func=ast.Attribute())):
                return True
            case ast.Expr(value=ast.Call(func=ast.Attribute())):
                return True
    return False


def _assigns(node: ast.AST, kind: Kind) -> bool:
    """Return whether `node` gives a value to a name; in text, a formula of names is none."""
    if kind is Kind.PLAIN or not isinstance(node, _BINDS):
        return False
    if kind is Kind.BARE:
        return not (isinstance(node, ast.AnnAssign) and node.value is None)
    parts = (part for child in ast.iter_child_nodes(node) for part in ast.walk(child))
    return not all(isinstance(part, _FORMULA) for part in parts)


def _is_call(node: ast.AST, lines: Sequence[bytes]) -> bool:
    """Return whether `node` is a call as Python is written, unlike the `words (of prose)`."""
    if not isinstance(node, ast.Call):
        return False
    line, end = lines[(node.func.end_lineno or 1) - 1], node.func.end_col_offset or 0
    return line[end : end + 1] == b"("


def _new_side(source: str) -> str:
    """Return what a diff leads to, as far as it shows it."""
    kept = (line[1:] for line in source.split("\n") if re.match(r"\+(?!\+\+)| ", line))
    return "\n".join(kept)
