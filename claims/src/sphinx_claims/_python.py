"""Parse Python, and find the names in it."""

import ast
import functools
import warnings
from collections.abc import Iterable


@functools.lru_cache(maxsize=4096)
def parse_python(source: str) -> ast.Module | None:
    """Return the syntax tree of Python code, or None if it is invalid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def last_name(called: ast.expr) -> str:
    """Return the last part of a dotted name. For a call, use the name of its function."""
    function = called.func if isinstance(called, ast.Call) else called
    return ast.unparse(function).rpartition(".")[2]


def bound_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that statements bind, by assignment, import or definition."""
    names: set[str] = set()
    for node in (node for outer in nodes for node in ast.walk(outer)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(name=name, asname=alias):
                names.add(alias or name.partition(".")[0])
    return names
