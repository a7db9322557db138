"""The edit that cuts a state off the graph before the next step uses it."""

import ast

from leafgrad._diagnosis.diagnosis import Edit
from leafgrad._diagnosis.edits import insert, parse, statement_at
from leafgrad._graph.nodes import Source
from leafgrad._record.module_paths import ModuleCall


def detach_before(
    source: Source | None, module: ModuleCall | None
) -> tuple[str | None, tuple[Edit, ...]]:
    """Return how to detach the state in a line such as ``state = cell(x, state)``, and an edit.

    There is no edit if the line does not show the state, or the state may not be a tensor.
    """
    statement = statement_at(source)
    if source is None or not isinstance(statement, ast.Assign | ast.AugAssign):
        return None, ()
    targets = [statement.target] if isinstance(statement, ast.AugAssign) else statement.targets
    stored = [node for one in targets for node in _variables(one)]
    loaded = {*map(ast.unparse, _variables(statement.value))}
    if isinstance(statement, ast.AugAssign):
        loaded.update(map(ast.unparse, stored))
    carried = [name for name in map(ast.unparse, stored) if name in loaded]
    if not carried:
        return None, ()
    is_tuple = len(carried) == 1 and module is not None and "LSTM" in module.kind
    form = "{0} = tuple(one.detach() for one in {0})" if is_tuple else "{0} = {0}.detach()"
    lines = [form.format(name) for name in carried]
    is_other = _starts_as_other({*carried}, source.file)
    return lines[0], () if is_other or is_tuple else insert(source, lines)


def _variables(expression: ast.expr) -> list[ast.expr]:
    """Return the variables and attributes in an expression, each as a whole."""
    found: list[ast.expr] = []
    ahead: list[ast.AST] = [expression]
    for node in ahead:
        if isinstance(node, ast.Name | ast.Attribute):
            found.append(node)
        else:
            ahead += ast.iter_child_nodes(node)
    return found


def _starts_as_other(names: set[str], file: str) -> bool:
    """Return whether one of the names is set to None or a number somewhere in a file."""
    pairs: list[tuple[str, ast.expr | None]] = []
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.Assign):
            pairs += ((ast.unparse(target), node.value) for target in node.targets)
        elif isinstance(node, ast.arguments):
            pairs += zip([one.arg for one in node.args][::-1], node.defaults[::-1], strict=False)
    return any(name in names and isinstance(value, ast.Constant) for name, value in pairs)
