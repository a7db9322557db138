"""How a file is named where it is told of."""

import os
from pathlib import Path


def path_from(root: Path | str, file: Path | str) -> str:
    """Return the way from `root` to `file`, with slashes; its whole path if there is none.

    On Windows no way leads from one drive to another.
    """
    try:
        return Path(os.path.relpath(file, root)).as_posix()
    except ValueError:
        return Path(file).as_posix()
