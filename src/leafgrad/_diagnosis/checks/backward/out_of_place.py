"""Edits that replace an in-place change by a new tensor, or move it below `backward()`."""

import ast
from typing import Any

import torch

from leafgrad._diagnosis.diagnosis import Edit
from leafgrad._diagnosis.edits import MODULES, insert, marked, move, parse, replace, statement_at
from leafgrad._graph.nodes import Source
from leafgrad._messages import message


def changed_name(source: Source | None) -> str | None:
    """Return the variable that a line changes in place; None if it is not a simple name."""
    target = _target(statement_at(source))
    return None if target is None else ast.unparse(_WithoutData().visit(target))


def subject_or_tensor(names: list[str], source: Source | None) -> dict[str, Any]:
    """Return the arguments of `diagnosis` that name the changed tensors, or call it "a tensor"."""
    subject = names or [*filter(None, [changed_name(source)])]
    return {"subject": subject} if subject else {"names": message("in-place.tensor")}


def _target(statement: ast.stmt | None) -> ast.expr | None:
    """Return the variable that a statement changes: `h` in ``h[0] = 1`` and ``h.mul_(2)``.

    Return None if the statement has another form.
    """
    found: ast.expr | None = None
    if isinstance(statement, ast.AugAssign):
        found = statement.target
    elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        found = statement.targets[0]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        found = _receiver(statement.value)
    while isinstance(found, ast.Subscript):
        found = found.value
    return found if isinstance(found, ast.Name | ast.Attribute) else None


def _receiver(call: ast.Call) -> ast.expr | None:
    """Return the first object in a chain of methods, or the first argument of ``F.relu_(h)``.

    Return None if the function has no positional argument.
    """
    found: ast.expr = call
    while isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute):
        is_library = isinstance(found.func.value, ast.Name) and found.func.value.id in MODULES
        if is_library:
            return found.args[0] if found.args else None
        found = found.func.value
    return found


def do_out_of_place(source: Source | None, variant: str) -> tuple[Edit, ...]:
    """Return the edit that makes a line create a new tensor; `()` if no exact edit is known.

    `variant` is the name of the cause in the finding, such as ``"entry"``. Some causes have no
    edit.
    """
    if source is None or variant not in {"", "entry", "entries", "argument"}:
        return ()
    statement, name = statement_at(source), changed_name(source)
    if (read := _entry_read(statement, name)) is not None:
        return replace(source, read, f"{ast.unparse(read)}.clone()")
    is_entry = isinstance(getattr(statement, "target", 0), ast.Subscript)
    if is_entry or variant in {"entry", "entries"}:
        return insert(source, [f"{name} = {name}.clone()"]) if name else ()
    text = None if statement is None else _out_of_place(_WithoutData().visit(statement), name)
    if statement is None or text is None:
        return _module_out_of_place(source)
    return replace(source, statement, text)


def _entry_read(statement: ast.stmt | None, name: str | None) -> ast.Subscript | None:
    """Return ``h[i]`` in ``h[i + 1] = f(h[i])``; None in statements of another form."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    nodes = () if value is None else ast.walk(value)
    entries = (node for node in nodes if isinstance(node, ast.Subscript))
    return next((one for one in entries if ast.unparse(one.value) == name), None)


def _out_of_place(statement: ast.stmt, name: str | None) -> str | None:
    """Return the code of a statement without in-place calls; None if it has none."""
    if isinstance(statement, ast.AugAssign):
        new = ast.BinOp(statement.target, statement.op, statement.value)
        return f"{name} = {ast.unparse(new)}"
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    writing = [call for call in calls if _is_in_place(call)]
    for call in writing:
        call.keywords = [one for one in call.keywords if one.arg != "inplace"]
        if isinstance(call.func, ast.Attribute):
            call.func.attr = call.func.attr.removesuffix("_")
    is_lost = isinstance(statement, ast.Expr)
    text = f"{name} = {ast.unparse(statement)}" if is_lost else ast.unparse(statement)
    return text if writing and (name or not is_lost) else None


class _WithoutData(ast.NodeTransformer):
    """Replaces ``x.data`` by ``x`` in a syntax tree."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        inner: ast.expr = self.visit(node.value)
        return inner if node.attr == "data" else ast.Attribute(inner, node.attr, node.ctx)


def _is_in_place(call: ast.Call) -> bool:
    """Return whether a call changes its input in place and has a variant that does not."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    plain = name.removesuffix("_")
    is_paired = hasattr(torch.Tensor, plain) or hasattr(torch.nn.functional, plain)
    return (plain != name and is_paired and plain != "bernoulli") or bool(_inplace_of(call))


def _inplace_of(call: ast.Call) -> list[ast.keyword]:
    """Return the argument ``inplace`` of a call, as a list of at most one keyword."""
    return [one for one in call.keywords if one.arg == "inplace"]


def _module_out_of_place(source: Source) -> tuple[Edit, ...]:
    """Return the edit that passes ``inplace=False`` to a module instead of True.

    There is no edit unless exactly one call in the file has the argument ``inplace``.
    """
    calls = [node for node in ast.walk(parse(source.file)) if isinstance(node, ast.Call)]
    found = [one for call in calls for one in _inplace_of(call)]
    return replace(source, found[0], "inplace=False") if len(found) == 1 else ()


def step_after_backward(source: Source | None) -> tuple[Edit, ...]:
    """Return the edits that move ``optimizer.step()`` below the ``backward()`` of its block.

    Return no edits if a ``backward()`` already precedes it.
    """
    step = statement_at(source)
    if source is None or step is None:
        return ()
    blocks = [
        [one for one in block if isinstance(one, ast.stmt)]
        for node in ast.walk(parse(source.file))
        for _, block in ast.iter_fields(node)
        if isinstance(block, list)
    ]
    around = [block for block in blocks if step.lineno in {one.lineno for one in block}]
    backwards = [one for one in around[-1] if ast.unparse(one).endswith(".backward()")]
    if not backwards or backwards[0].lineno < step.lineno:
        return ()
    return move(source, marked(source, backwards[0]), below=True)
