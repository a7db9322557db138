"""What every test stands on."""

import gc
from collections.abc import Iterator

import hypothesis
import pytest
import torch

# In docs, only pages are tests. Importing the demonstration would run its training.
collect_ignore = ["docs/_build", "docs/_extensions", "docs/conf.py"]
collect_ignore += ["src/leafgrad/_debug/demonstration.py"]

# Tests create millions of objects and few cycles; searching for cycles took 5 % of their time.
gc.set_threshold(20_000, 20, 20)

hypothesis.settings.register_profile("leafgrad", deadline=None, derandomize=True)
hypothesis.settings.load_profile("leafgrad")


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
def _seed() -> None:
    """Draw the same random numbers in a test, whatever ran before it."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _switches_stay() -> Iterator[None]:
    before = switches()
    yield
    assert switches() == before
