"""Edits of the user's code that fix a problem, found by parsing the line at fault.

A *source* is the place of an expression in a file: a `Source`.
"""

import ast
import dataclasses
import linecache
from collections.abc import Iterable, Sequence
from typing import TypeVar

from leafgrad._diagnosis.diagnosis import Edit
from leafgrad._graph.nodes import Source

Expression = TypeVar("Expression", bound=ast.expr)


def call_at(source: Source | None) -> ast.Call | None:
    """Return the call at a source; None if there is none or the file cannot be read."""
    return node_at(source, ast.Call)


def node_at(source: Source | None, kind: type[Expression]) -> Expression | None:
    """Return the expression at `source` if its syntax type is `kind`; None if it is not."""
    if source is None or source.column is None:
        return None
    wanted = (source.line, source.column, source.end_line, source.end_column)
    for node in ast.walk(parse(source.file)):
        if isinstance(node, kind):
            place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
            if place == wanted:
                return node
    return None


def marked(source: Source, node: ast.expr | ast.stmt) -> Source:
    """Return the source of a syntax node, in the file and function of `source`."""
    return dataclasses.replace(
        source,
        line=node.lineno,
        column=node.col_offset,
        end_line=node.end_lineno,
        end_column=node.end_col_offset,
    )


def start_of_method(source: Source) -> int | None:
    """Return the column of the dot before the last method in a chain of calls on one line.

    Return None if there is no such chain.
    """
    match call_at(source):
        case ast.Call(
            func=ast.Attribute(value=ast.Call() | ast.BinOp() | ast.Subscript() as chain)
        ):
            is_on_line = chain.end_lineno == source.line
            return chain.end_col_offset if is_on_line else None
    return None


MODULES = {"torch", "F", "functional", "nn"}
ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)


def wrap(
    source: Source, node: ast.expr, template: str, *, is_second: bool = False
) -> tuple[Edit, ...]:
    """Return the edit that wraps the input of an operation in other code.

    Args:
        source: The source of the operation.
        node: The operation: ``x / y``, ``x.log()`` or ``torch.log(x)``.
        template: The code, with ``{x}`` for the input.
        is_second: Whether to wrap the second input instead of the first.
    """
    if isinstance(node, ast.BinOp):
        operands = [node.left, node.right]
    elif isinstance(node, ast.Call):
        root = ast.unparse(node.func).partition(".")[0]
        is_method = isinstance(node.func, ast.Attribute) and root not in MODULES
        receiver = [node.func.value] if is_method and isinstance(node.func, ast.Attribute) else []
        operands = [*receiver, *node.args]
    else:
        return ()
    if len(operands) <= is_second:
        return ()
    operand = operands[is_second]
    text = text_of(source, operand)
    is_argument = isinstance(node, ast.Call) and operand in node.args
    text = text if isinstance(operand, ATOMS) else f"({text})"
    wrapped = template.format(x=text)
    if is_argument and template.startswith("({x}"):
        wrapped = wrapped[1:-1]
    return replace(source, operand, wrapped)


def add_argument(source: Source, call: ast.Call, argument: str) -> tuple[Edit, ...]:
    """Return the edit that adds an argument to a call; none if ``**`` may pass it already."""
    if any(one.arg is None for one in call.keywords):
        return ()
    start = text_of(source, call)[:-1].rstrip(" ,")
    comma = ", " if call.args or call.keywords else ""
    return replace(source, call, f"{start}{comma}{argument})")


def pass_create_graph(source: Source | None) -> tuple[Edit, ...]:
    """Return the edit that passes ``create_graph=True`` to a call of ``torch.autograd.grad``.

    It replaces ``retain_graph=True``, which it includes.
    """
    call = call_at(source)
    if source is None or call is None:
        return ()
    for one in call.keywords:
        if one.arg in {"create_graph", "retain_graph"} and isinstance(one.value, ast.Constant):
            return replace(source, one, "create_graph=True")
    return add_argument(source, call, "create_graph=True")


def statement_at(source: Source | None) -> ast.stmt | None:
    """Return the innermost statement on the line of a source; None if there is none."""
    if source is None:
        return None
    around = [
        node
        for node in ast.walk(parse(source.file))
        if isinstance(node, ast.stmt) and node.lineno <= source.line <= (node.end_lineno or 0)
    ]
    return around[-1] if around else None


def function_around(source: Source) -> ast.FunctionDef | None:
    """Return the innermost function definition around the line of a source, or None."""
    functions = [node for node in ast.walk(parse(source.file)) if isinstance(node, ast.FunctionDef)]
    around = [one for one in functions if one.lineno <= source.line <= (one.end_lineno or 0)]
    return around[-1] if around else None


def returned_by(definition: Source | None) -> list[Source]:
    """Return the sources of the expressions that a function returns, given its definition."""
    for node in [] if definition is None else ast.walk(parse(definition.file)):
        if isinstance(node, ast.FunctionDef) and definition is not None:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if first == definition.line:
                values = [one.value for one in ast.walk(node) if isinstance(one, ast.Return)]
                return [marked(definition, one) for one in values if one]
    return []


def text_of(source: Source, node: ast.expr) -> str:
    """Return the code of an expression as it is written in the file."""
    return ast.get_source_segment("".join(linecache.getlines(source.file)), node) or ""


def replace(source: Source, node: ast.expr | ast.stmt | ast.keyword, text: str) -> tuple[Edit, ...]:
    """Return the edit that replaces a syntax node on one line; none if it spans several lines."""
    if node.end_lineno != node.lineno:
        return ()
    encoded = line_text(source.file, node.lineno).encode()
    start, stop = node.col_offset, node.end_col_offset or 0
    after = encoded[:start].decode() + text + encoded[stop:].decode()
    return (change_line(source.file, node.lineno, after),)


def append(source: Source | None, method: str) -> tuple[Edit, ...]:
    """Return the edit that appends a method call, such as ``.mean()``, to an expression."""
    found = node_at(source, ast.expr)
    if source is None or found is None:
        return ()
    text = text_of(source, found)
    is_whole = isinstance(found, ast.Call | ast.Name | ast.Attribute | ast.Subscript)
    return replace(source, found, f"{text}{method}" if is_whole else f"({text}){method}")


def insert(source: Source, lines: Sequence[str], *, below: bool = False) -> tuple[Edit, ...]:
    """Return the edit that inserts lines above or below a statement, at its indentation."""
    statement = statement_at(source)
    if statement is None:
        return ()
    number = (below and statement.end_lineno) or statement.lineno
    line, indent = line_text(source.file, number), " " * statement.col_offset
    added = [f"{indent}{one}" for one in lines]
    after = (line, *added) if below else (*added, line)
    return (change_line(source.file, number, *after),)


def delete(source: Source) -> tuple[Edit, ...]:
    """Return the edit that deletes a statement; none if it spans several lines."""
    statement = statement_at(source)
    if statement is None or statement.lineno != statement.end_lineno:
        return ()
    return (change_line(source.file, statement.lineno),)


def change_line(file: str, number: int, *after: str) -> Edit:
    """Return the edit that replaces the line `number` by others, or deletes it.

    `after` contains the new lines; without any, the line is deleted.
    """
    return Edit(file=file, line=number, before=line_text(file, number), after=after)


def line_text(file: str, number: int) -> str:
    """Return the line `number` of a file without its line break."""
    return linecache.getline(file, number).rstrip("\n")


def parse(file: str) -> ast.Module:
    """Return the syntax tree of a file; an empty module if it cannot be parsed."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        # For example, a notebook cell with magics is not valid Python.
        return ast.Module(body=[], type_ignores=[])


def move_above_forward(at: Source | None, recorded: Iterable[Source]) -> tuple[Edit, ...]:
    """Return the edits that move a statement to just above the recorded forward pass.

    `at` is a part of the statement, and `recorded` contains the lines of the forward pass.
    """
    statement = statement_at(at)
    lines = [one.line for one in recorded if at and one.file == at.file]
    if at is None or statement is None or not lines:
        return ()
    first = min(lines)
    blocks = [
        node
        for node in ast.walk(parse(at.file))
        if isinstance(node, ast.stmt) and node.col_offset == statement.col_offset
        if node.lineno <= first <= (node.end_lineno or 0) and node.lineno > statement.lineno
    ]
    return move(at, marked(at, blocks[0]), below=False) if blocks else ()


def move(at: Source | None, target: Source | None, *, below: bool) -> tuple[Edit, ...]:
    """Return the edits that move a one-line statement above or below another one in its block.

    `at` is a part of the statement to move, and `target` a part of the other one.
    """
    moved, other = statement_at(at), statement_at(target)
    if at is None or target is None or moved is None or other is None or at.file != target.file:
        return ()
    if moved.lineno != moved.end_lineno or moved.col_offset != other.col_offset:
        return ()
    text = line_text(at.file, moved.lineno).strip()
    edits = (*delete(at), *insert(target, [text], below=below))
    return tuple(sorted(edits, key=lambda edit: edit.line))
