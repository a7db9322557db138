"""Sweeps over PyTorch's table of operators, which takes seconds to import."""

import pytest


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Do not import the table if its tests would be deselected."""
    return True if config.option.markexpr == "not sweep" else None
