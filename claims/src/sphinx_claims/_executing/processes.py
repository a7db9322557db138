"""In which processes the pages run: forked ones where these are safe, else spawned ones."""

import os
import sys
from collections.abc import Sequence

from sphinx_claims._executing.spawned import SpawnedWorkers
from sphinx_claims._executing.workers import Workers

KINDS = {"fork": Workers, "spawn": SpawnedWorkers}


def workers(preload: Sequence[str], kind: str | None) -> Workers:
    """Start what runs jobs in processes of a `kind`, by default of the quickest that is safe."""
    return KINDS[kind or usual_kind()](preload)


def usual_kind() -> str:
    """Return which kind is quickest here and safe.

    On macOS a forked process may crash in the system's libraries, which NumPy computes with.
    """
    return "fork" if hasattr(os, "fork") and sys.platform != "darwin" else "spawn"
