"""Which version of a package the pages really import: a question for the process they run in."""

import sys
from collections.abc import Iterator
from importlib import metadata


def loaded_version(package: str) -> Iterator[str]:
    """Yield the version of `package` that this process has imported, or else would find installed.

    The one imported may be another than the one installed: PYTHONPATH comes first.
    """
    imported = getattr(sys.modules.get(package), "__version__", None)
    version = _installed(package) if imported is None else str(imported)
    if version is not None:
        yield version.partition("+")[0]


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # it may come in a distribution of another name
        distributions = metadata.packages_distributions().get(package, ())
        return next(map(metadata.version, distributions), None)
