"""Modules that stand beside a page: imported as in a notebook, and always from their source.

Python trusts compiled code whose source has the recorded size and, to the second, time: a module
that was changed twice in a second would be the old one.
"""

import sys
from collections.abc import Callable
from functools import partial
from importlib.abc import PathEntryFinder
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType


class _FromSource(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def import_from(folder: Path) -> None:
    """Let `import` look into `folder` first, and compile anew what it finds there or below."""
    finder = FileFinder.path_hook(
        (ExtensionFileLoader, EXTENSION_SUFFIXES), (_FromSource, SOURCE_SUFFIXES)
    )
    sys.path.insert(0, str(folder))
    sys.path_hooks.insert(0, partial(_below, folder, finder))
    for path in [path for path in sys.path_importer_cache if path.startswith(str(folder))]:
        del sys.path_importer_cache[path]


def _below(folder: Path, finder: Callable[[str], PathEntryFinder], path: str) -> PathEntryFinder:
    """Find modules in `path` if it is in `folder` and nothing was installed there."""
    found = Path(path)
    if not found.is_relative_to(folder) or "site-packages" in found.parts:
        raise ImportError(path)
    return finder(path)
