"""Settings and fixtures for all tests: garbage collection, hypothesis, seeds, global switches."""

import gc
from collections.abc import Iterator

import hypothesis
import pytest
import torch

# pytest must not import these: they are not tests, and the demonstration would run its training.
collect_ignore = ["docs/_build", "docs/_extensions", "docs/conf.py"]
collect_ignore += ["src/leafgrad/_debug/demonstration.py"]

# Tests create millions of objects but few cycles. With Python's default thresholds, the search for
# cycles takes 5 % of their time.
gc.set_threshold(20_000, 20, 20)

hypothesis.settings.register_profile("leafgrad", deadline=None, derandomize=True)
hypothesis.settings.load_profile("leafgrad")


def switches() -> dict[str, object]:
    """Return the values of PyTorch's global switches, which each test must restore."""
    return {
        "default dtype": torch.get_default_dtype(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


@pytest.fixture(autouse=True, scope="module")
def _freeze_loaded_objects() -> None:
    """Exclude all objects that exist before a test file runs from garbage collection.

    They are the modules of PyTorch and Sphinx and 7,000 tests. A `gc.collect()` in a test that
    searches them takes longer than most tests. Forked child processes need not search them either.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Set PyTorch's random seed, so that a test does not depend on the tests before it."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _switches_stay() -> Iterator[None]:
    before = switches()
    yield
    assert switches() == before
