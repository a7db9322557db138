"""In which processes the pages run: forked ones where there are such, else spawned ones."""

import os
from collections.abc import Sequence

from sphinx_claims._executing.spawned import SpawnedWorkers
from sphinx_claims._executing.workers import Workers

KINDS = {"fork": Workers, "spawn": SpawnedWorkers}


def workers(preload: Sequence[str], kind: str | None) -> Workers:
    """Start what runs jobs in processes of a `kind`, the quickest where none is asked for."""
    return KINDS[kind or ("fork" if hasattr(os, "fork") else "spawn")](preload)
