"""A job in a process of its own: what it imports first, how it runs, and what comes back."""

import dataclasses
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from typing import Any, NoReturn

from sphinx_claims._executing.raised import describe


def loaded_version(package: str) -> Iterator[str]:
    """Yield the version of `package` that this process has imported, or else would import.

    The one imported may be another than the one installed: PYTHONPATH comes first.
    """
    version = _attribute_version(package) or _distribution_version(package)
    if version is None:
        importlib.import_module(package)
        version = _attribute_version(package)
    if version is not None:
        yield version.partition("+")[0]


def _attribute_version(package: str) -> str | None:
    version = getattr(sys.modules.get(package), "__version__", None)
    return None if version is None else str(version)


def _distribution_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # its distribution may have another name
        distributions = metadata.packages_distributions().get(package, ())
        return next(map(metadata.version, distributions), None)


if sys.platform != "win32":
    import resource

_ALWAYS = ("sphinx_claims._executing.execute", "IPython.core.formatters")
_LARGEST_FILE = 2**30


@dataclasses.dataclass(frozen=True)
class JobEnd:
    """The last message of a job that came to an end, by itself or by an exception."""

    failure: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a job yielded, and what ended it too early, if anything did."""

    messages: tuple[Any, ...]
    failure: str | None


def import_all(preload: Iterable[str]) -> None:
    """Import what every page needs and `preload`, and end the process where one cannot be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in (*_ALWAYS, *preload):
            try:
                importlib.import_module(module)
            except BaseException as error:  # noqa: BLE001 - whatever a module does, one line says it
                sys.exit(
                    f"preload in [tool.claims]: {module} cannot be imported: {describe(error)}"
                )
    sys.dont_write_bytecode = True


def limit_files() -> None:
    """Limit the size of files that this process writes, where the system supports it."""
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE, _LARGEST_FILE))


def run_job(
    send: Callable[[Any], None], function: Callable[..., Iterator[Any]], arguments: tuple[Any, ...]
) -> NoReturn:
    """Send what a job yields and how it ended, and end the process."""
    itself, failure = os.getpid(), None
    try:
        for message in function(*arguments):
            _send_as(itself, send, message)
    except BaseException as error:  # noqa: BLE001 - the other end tells of it
        failure = describe(error)
    _send_as(itself, send, JobEnd(failure))
    os._exit(0)


def _send_as(itself: int, send: Callable[[Any], None], message: Any) -> None:
    """Send a message of the job `itself`: a process that it forked has nothing to say."""
    if os.getpid() != itself:
        os._exit(0)
    send(message)


def outcome(messages: tuple[Any, ...], code: int | None, seconds: float) -> Outcome:
    """Read the outcome off a job's messages and its exit code: None if it took too long."""
    if messages and isinstance(messages[-1], JobEnd):
        return Outcome(messages=messages[:-1], failure=messages[-1].failure)
    if code is None:
        return Outcome(messages=messages, failure=f"it ran longer than {seconds:g} s")
    if code < 0:
        known = {number.value: number.name for number in signal.Signals}
        name = known.get(-code, f"signal {-code}")
        return Outcome(messages=messages, failure=f"its process died of {name}")
    return Outcome(messages=messages, failure=f"its process ended with exit code {code}")
