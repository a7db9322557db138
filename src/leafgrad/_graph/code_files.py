"""Recognize files of installed packages, and shorten file paths for display."""

import os
import sysconfig
from functools import cache
from pathlib import PurePath

_INSTALLED = {"site-packages", "dist-packages"}
_GENERATED = ("<frozen ", "<eval_with_key>", "<attrs generated ", "<@beartype(")


def is_installed(file: str) -> bool:
    """Return whether a file belongs to Python or an installed package, not to the user.

    Notebook cells and projects installed in editable mode belong to the user.
    """
    return file.startswith(_GENERATED) or _path_in_package(file) is not None


@cache
def _path_in_package(file: str) -> str | None:
    """Return the path of an installed file from its package on; None for a user's file."""
    parts = PurePath(file).parts
    folders = [place for place, part in enumerate(parts) if part in _INSTALLED]
    if folders:
        return PurePath(*parts[folders[-1] + 1 :]).as_posix()
    for folder in (os.path.dirname(os.__file__), sysconfig.get_path("scripts")):  # noqa: PTH120
        if PurePath(file).is_relative_to(folder):
            return PurePath(file).relative_to(folder).as_posix()
    return None


def short_path(file: str) -> str:
    """Return a short path for display.

    The path of an installed file begins at its package. Other paths are relative to the working
    directory; outside of it, the last two parts of the path are returned.
    """
    path = PurePath(file)
    installed = _path_in_package(file)
    if installed is not None or not path.is_absolute():
        return installed or file
    try:
        return path.relative_to(os.getcwd()).as_posix()  # noqa: PTH109
    except (ValueError, FileNotFoundError):
        return PurePath(*path.parts[-2:]).as_posix()
