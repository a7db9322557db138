"""The `>>>` examples in the docstrings of a module's public names: each docstring is a page."""

import doctest
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

from sphinx_claims._page import Doctest, Page
from sphinx_claims._paths import path_from


def find_docstrings(module: str, root: Path) -> Iterator[Page]:
    """Import `module`; yield a page for each docstring with examples behind its `__all__`."""
    public = importlib.import_module(module)
    things = [public, *(getattr(public, name) for name in public.__all__)]
    finder = doctest.DocTestFinder(exclude_empty=True)
    tests = [
        test
        for thing in things
        if isinstance(getattr(thing, "__doc__", None), str)
        for test in finder.find(thing, module, module=inspect.getmodule(thing))
        if test.examples
    ]
    places = {(test.filename or module, (test.lineno or 0) + 1): test for test in tests}
    for (file, line), test in sorted(places.items()):
        yield Page(
            path=path_from(root, file), items=(Doctest(line=line, source=test.docstring or ""),)
        )
