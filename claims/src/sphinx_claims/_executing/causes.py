"""Failures that have a common cause: a name that an earlier failure left undefined."""

from collections.abc import Mapping

from sphinx_claims._python import parsed, stored


class Causes:
    """Remembers which names are missing and why, so that each cause is reported once."""

    def __init__(self, namespace: Mapping[str, object]) -> None:
        self._namespace = namespace
        self._by_name: dict[str, str] = {}

    def of(self, error: BaseException, source: str, line: int) -> str:
        """Return a key for the cause of `error`, which `source` raised on `line`."""
        cause = f"line {line}"
        if isinstance(error, NameError | ModuleNotFoundError) and error.name:
            cause = self._by_name.setdefault(error.name, f"name {error.name}")
        tree = parsed(source)
        for name in stored(tree.body) if tree is not None else ():
            if name not in self._namespace:
                self._by_name.setdefault(name, cause)
        return cause
