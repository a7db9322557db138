"""Python as it stands on a page: parsed where it is some, and the names in it."""

import ast
import doctest
import warnings
from collections.abc import Iterable, Iterator

CLOSE = frozenset({"allclose", "approx", "isclose"})
EQUAL = frozenset({"array_equal", "array_equiv", "equal"})
"""Functions that tell whether what they are given is alike, nearly or to the last digit."""

TOLERANCES = frozenset({"abs", "abs_tol", "atol", "delta", "rel", "rel_tol", "rtol"})
"""What such functions are told of how nearly."""

SHOWS = frozenset({"display", "print"})
"""Functions that show what they are given."""


def parsed(source: str) -> ast.Module | None:
    """Return `source` as Python; None where it is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is only looked at
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def parts(source: str) -> Iterator[ast.AST]:
    """Yield all that `source` consists of; nothing where it is no Python."""
    return ast.walk(parsed(source) or ast.Module([], []))


def examples(source: str) -> list[doctest.Example]:
    """List the `>>>` examples in `source`; none where they cannot be read, which is red itself."""
    try:
        return doctest.DocTestParser().get_examples(source)
    except ValueError:
        return []


def last_name(called: ast.expr) -> str:
    """Return the name of what is called, or of a call, without where it comes from."""
    function = called.func if isinstance(called, ast.Call) else called
    return ast.unparse(function).rpartition(".")[2]


def called_names(tree: ast.AST) -> Iterator[str]:
    """Yield the name of all that is called anywhere in `tree`, without where it comes from."""
    return (last_name(node) for node in ast.walk(tree) if isinstance(node, ast.Call))


def loaded(nodes: Iterable[ast.AST]) -> list[str]:
    """List the names that are read anywhere in `nodes`, each as often as it is."""
    return [name.id for name in _names(nodes) if isinstance(name.ctx, ast.Load)]


def stored(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that are given values anywhere in `nodes`."""
    return {name.id for name in _names(nodes) if isinstance(name.ctx, ast.Store)}


def _names(nodes: Iterable[ast.AST]) -> Iterator[ast.Name]:
    for outer in nodes:
        yield from (node for node in ast.walk(outer) if isinstance(node, ast.Name))
