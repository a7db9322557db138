"""Which PyTorch the pages really import: a question for the process that they are forked from."""

import sys
from collections.abc import Iterator
from importlib import metadata


def loaded_torch() -> Iterator[str]:
    """Yield the version of torch that this process has imported, or else would find installed.

    The one imported may be another than the one installed: PYTHONPATH comes first.
    """
    if "torch" in sys.modules:
        yield str(sys.modules["torch"].__version__).partition("+")[0]
        return
    try:
        yield metadata.version("torch").partition("+")[0]
    except metadata.PackageNotFoundError:
        return
