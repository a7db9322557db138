"""Save what a process has covered before it forks, so that its child does not write it again.

Python imports this as it starts, wherever PYTHONPATH names the folder: `conftest.py` says so to
the processes of a run whose coverage is measured. A process that executes pages forks thousands of
times, and what each child inherited of it took longer to write than most of them to run.
"""

import os
import sys

if "coverage" in sys.modules and hasattr(os, "register_at_fork"):
    from coverage import Coverage

    def save() -> None:
        """Save what is covered so far, if anything is measured."""
        if measuring := Coverage.current():
            measuring.save()

    os.register_at_fork(before=save)
