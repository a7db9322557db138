"""Run a job in a separate process: imports, execution, messages and outcome.

A job is a call of a function that yields messages, such as the records of a page.
"""

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
    """Yield the version of `package` that this process has imported or would import.

    The imported version can differ from the installed one, because PYTHONPATH comes first.
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
    """The last message of a job. `failure` describes its exception, or is None if it returned."""

    failure: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """The messages of a job. `failure` says why the job ended too early, or is None."""

    messages: tuple[Any, ...]
    failure: str | None


def import_all(preload: Iterable[str]) -> None:
    """Import `preload` and the modules that every page needs. Exit if an import fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in (*_ALWAYS, *preload):
            try:
                importlib.import_module(module)
            except BaseException as error:  # noqa: BLE001 - any error is reported in one line
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
    """Call `function`, send each message that it yields, then a `JobEnd`, and exit the process."""
    itself, failure = os.getpid(), None
    try:
        for message in function(*arguments):
            _send_as(itself, send, message)
    except BaseException as error:  # noqa: BLE001 - the receiver reports it
        failure = describe(error)
    _send_as(itself, send, JobEnd(failure))
    os._exit(0)


def _send_as(itself: int, send: Callable[[Any], None], message: Any) -> None:
    """Send a message if this process has the id `itself`. Otherwise exit: it is a forked child."""
    if os.getpid() != itself:
        os._exit(0)
    send(message)


def outcome(messages: tuple[Any, ...], code: int | None, seconds: float) -> Outcome:
    """Return the outcome of a job from its messages and its exit code (None after a timeout).

    `seconds` is the time limit, for the message about a timeout.
    """
    if messages and isinstance(messages[-1], JobEnd):
        return Outcome(messages=messages[:-1], failure=messages[-1].failure)
    if code is None:
        return Outcome(messages=messages, failure=f"it ran longer than {seconds:g} s")
    if code < 0:
        known = {number.value: number.name for number in signal.Signals}
        name = known.get(-code, f"signal {-code}")
        return Outcome(messages=messages, failure=f"its process died of {name}")
    return Outcome(messages=messages, failure=f"its process ended with exit code {code}")
