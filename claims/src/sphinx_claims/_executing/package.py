"""Which version of a package the pages really import: a question for the process they run in."""

import importlib
import sys
from collections.abc import Iterator
from importlib import metadata


def loaded_version(package: str) -> Iterator[str]:
    """Yield the version of `package` that this process has imported, or else would import.

    The one imported may be another than the one installed: PYTHONPATH comes first.
    """
    version = _own(package) or _installed(package)
    if version is None:
        importlib.import_module(package)
        version = _own(package)
    if version is not None:
        yield version.partition("+")[0]


def _own(package: str) -> str | None:
    version = getattr(sys.modules.get(package), "__version__", None)
    return None if version is None else str(version)


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # it may come in a distribution of another name
        distributions = metadata.packages_distributions().get(package, ())
        return next(map(metadata.version, distributions), None)
