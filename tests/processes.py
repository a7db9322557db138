"""What tests that start processes share."""

import os


def unmeasured() -> dict[str, str]:
    """Return the environment of a process whose coverage is not counted.

    To count costs up to half of what it runs: it is for what tests in the process itself cover.
    """
    return {name: text for name, text in os.environ.items() if not name.startswith("COVERAGE_")}
