"""The `>>>` examples in the docstrings of a module's public names: each docstring is a page."""

import doctest
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from sphinx_claims._config import path_from
from sphinx_claims._page import Doctest, Page


def find_docstrings(module: str, root: Path) -> Iterator[Page]:
    """Import `module`; yield a page for each public docstring with examples.

    Public is what `__all__` lists or else what has no underscore and comes from the same package.
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
    # The text belongs to the key: doctest takes the line of a decorated function from its wrapper.
    places = {
        (test.filename or module, (test.lineno or 0) + 1, test.docstring or ""): test
        for test in tests
    }
    for (file, line, text), test in sorted(places.items()):
        items = (Doctest(line=line, source=text),)
        yield Page(path=path_from(root, file), items=items, module=test.globs["__name__"])


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
