"""Find the message of an exception and the line of the page that raised it."""

import traceback
from collections.abc import Mapping

from sphinx_claims._python import bound_names, parse_python


class Causes:
    """Finds out which errors have the same cause, so that each cause is reported once.

    It remembers which names are missing, and because of which error.
    """

    def __init__(self, namespace: Mapping[str, object]) -> None:
        self._namespace = namespace
        self._by_name: dict[str, str] = {}

    def of(self, error: BaseException, source: str, line: int) -> str:
        """Return a key for the cause of `error`. Errors with the same key have the same cause.

        `source` is the code that raised the error, on `line`.
        """
        cause = f"line {line}"
        if isinstance(error, NameError | ModuleNotFoundError) and error.name:
            cause = self._by_name.setdefault(error.name, f"name {error.name}")
        tree = parse_python(source)
        for name in bound_names(tree.body) if tree is not None else ():
            if name not in self._namespace:
                self._by_name.setdefault(name, cause)
        return cause


def describe(error: object) -> str:
    """Return the last line that Python prints for the exception `error`: its type and message."""
    try:
        message = str(error).strip()
    except Exception as another:  # noqa: BLE001 - a page may define any exception
        message = f"(its message raises {type(another).__name__})"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def line_of(error: BaseException | None, path: str) -> int | None:
    """Return the line of the page `path` that raised `error`, or None if no line of it did."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__ if error is not None else None)
    lines = [line_on_page(path, frame.filename, frame.lineno) for frame in frames]
    return next(filter(None, reversed(lines)), None)


def line_on_page(path: str, filename: str, line: int | None) -> int | None:
    """Return the line of the page `path` for a line of the file `filename`, None for other files.

    As in doctest, each example is a separate file. Its name contains the line where it begins.
    """
    first, _, rest = filename.partition(f"<doctest {path}[")
    if filename == path or line is None:
        return line
    return int(rest.rstrip("]>")) + line - 1 if rest and not first else None
