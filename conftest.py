"""What every test stands on."""

import gc
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import coverage
import hypothesis
import pytest
import torch

from tests.processes import unmeasured

# Of docs, the pages are tests.
collect_ignore = ["docs/_build", "docs/_extensions", "docs/conf.py"]

MEASURING = Path(__file__).parent / "tests" / "measuring"
if coverage.Coverage.current() is not None:  # for the processes that tests start
    paths = (str(MEASURING), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))

# Tests make objects by the million and few cycles: to search for these took 5 % of their time.
gc.set_threshold(20_000, 20, 20)

hypothesis.settings.register_profile("leafgrad", deadline=None, derandomize=True)
hypothesis.settings.load_profile("leafgrad")


def pytest_sessionfinish() -> None:
    """Save what this process has covered: pytest-xdist kills a worker that takes 10 s to end."""
    measuring = coverage.Coverage.current()
    if measuring is not None:
        measuring.save()


# --- Coverage is counted of what tests run, not of what pytest does around them: whatever is
# counted, all of Python takes half as long again.

IS_MEASURED = coverage.Coverage.current() is not None
COUNTER = sys.gettrace()  # Coverage.stop() would do as well, but start() trips over torch.ops
if IS_MEASURED:  # a process that hands tests out to others has none to count
    sys.settrace(None)


@contextmanager
def counted(*, when: bool = True) -> Iterator[None]:
    """Count what is run within, and nothing from then on."""
    if not IS_MEASURED:
        yield
        return
    sys.settrace(COUNTER if when else None)
    try:
        yield
    finally:
        sys.settrace(None)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, object, object]:
    """Count what is imported of the library and the prover, not the pages that are read."""
    with counted(when="src" in collector.path.parts):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Count what fixtures run, but for those of a sweep."""
    with counted(when=not is_sweep(item)):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Count a test, but neither a sweep nor the processes that it starts."""
    if not is_sweep(item):
        with counted():
            return (yield)
    measuring = {name: os.environ.pop(name) for name in os.environ.keys() - unmeasured().keys()}
    try:
        return (yield)
    finally:
        os.environ.update(measuring)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Count what fixtures run at their end, but for those of a sweep."""
    with counted(when=not is_sweep(item)):
        return (yield)


def is_sweep(item: pytest.Item) -> bool:
    """Tell whether other tests cover the lines that this one runs."""
    return item.get_closest_marker("covered_elsewhere") is not None


def switches() -> dict[str, object]:
    """Read PyTorch's global switches, which no test may leave flipped."""
    return {
        "default dtype": torch.get_default_dtype(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


@pytest.fixture(autouse=True, scope="module")
def _what_is_there_to_stay_is_not_searched() -> None:
    """Keep what was loaded before a file of tests from the garbage collector.

    What PyTorch, Sphinx and 7,000 tests are made of took longer to search, at each `gc.collect()`
    of a test, than most of them to run; and no child need collect what it was forked with.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _switches_stay() -> Iterator[None]:
    before = switches()
    yield
    assert switches() == before
