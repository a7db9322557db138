"""What every test stands on."""

import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import hypothesis
import pytest
import torch

collect_ignore = ["docs/_build", "docs/_extensions", "docs/conf.py"]  # of docs, the pages are tests

MEASURING = Path(__file__).parent / "tests" / "measuring"
if coverage.Coverage.current() is not None:  # for the processes that tests start
    paths = (str(MEASURING), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))

hypothesis.settings.register_profile("leafgrad", deadline=None, derandomize=True)
hypothesis.settings.load_profile("leafgrad")


def pytest_sessionfinish() -> None:
    """Save what this process has covered: pytest-xdist kills a worker that takes 10 s to end."""
    measuring = coverage.Coverage.current()
    if measuring is not None:
        measuring.save()


def switches() -> dict[str, object]:
    """Read PyTorch's global switches, which no test may leave flipped."""
    return {
        "default dtype": torch.get_default_dtype(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


@pytest.fixture(autouse=True)
def _switches_stay() -> Iterator[None]:
    before = switches()
    yield
    assert switches() == before
