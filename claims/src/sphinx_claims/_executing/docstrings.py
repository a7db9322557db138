"""Find `>>>` examples in the docstrings of a module's public names. Each docstring is a page."""

import ast
import doctest
import functools
import importlib
import inspect
import linecache
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from sphinx_claims._config import relative_path
from sphinx_claims._page import Doctest, Page
from sphinx_claims._python import parse_python


def find_docstrings(module: str, root: Path) -> Iterator[Page]:
    """Import `module` and yield a page for each public docstring with examples.

    Public names are those in `__all__`. Without `__all__`, they are the names without a leading
    underscore that come from the same package. Paths are relative to `root`.
    """
    public = importlib.import_module(module)
    things = [public, *(getattr(public, name, None) for name in _public_names(public))]
    finder = doctest.DocTestFinder(exclude_empty=True)
    tests = [
        test
        for thing in things
        if isinstance(getattr(thing, "__doc__", None), str)
        for test in finder.find(thing, module, module=inspect.getmodule(thing))
        if test.examples
    ]
    places = {(test.filename or module, _line_of(test)): test for test in tests}
    for (file, line), test in sorted(places.items()):
        items = (Doctest(line=line, source=test.docstring or ""),)
        yield Page(path=relative_path(root, file), items=items, module=test.globs["__name__"])


def _line_of(test: doctest.DocTest) -> int:
    """Return the line where a docstring begins. The line that doctest reports may be wrong.

    It is wrong for decorated functions.
    """
    near = (test.lineno or 0) + 1
    lines = _docstring_lines(test.filename or "").get(inspect.cleandoc(test.docstring or ""), [])
    return min(lines, key=lambda line: abs(line - near), default=near)


@functools.cache
def _docstring_lines(file: str) -> dict[str, list[int]]:
    """Return the lines where the docstrings of a file begin, by the text of the docstring."""
    lines: dict[str, list[int]] = {}
    tree = parse_python("".join(linecache.getlines(file)))
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                lines.setdefault(text, []).append(node.body[0].lineno)
    return lines


def _public_names(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    package = module.__name__.partition(".")[0]
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and str(getattr(thing, "__module__", None)).partition(".")[0] == package
    ]
