"""Helpers for tests of models that several processes share."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_start_method
from pathlib import Path
from typing import Any

import pytest
import torch

needs_distributed = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="this PyTorch was built without torch.distributed"
)


@contextmanager
def one_of(count: int) -> Iterator[None]:
    """Act as the first of `count` processes, without the others: nothing is sent or awaited.

    Use `in_two_processes` to check what arrives in each of two real processes.
    """
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415 (may lack)

    torch.distributed.init_process_group("fake", rank=0, world_size=count, store=FakeStore())
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def in_two_processes(program: Path, folder: Path) -> list[Any]:
    """Run a program that starts two processes; return the data that each writes to the folder."""
    # Forking saves an import of PyTorch, and is safe where it is the default.
    way = "spawn" if get_start_method() == "spawn" else "fork"
    command = [sys.executable, "-m", f"tests.{program.stem}", str(folder), way]
    root = Path(__file__).parents[1]
    subprocess.run(command, capture_output=True, check=True, timeout=300, cwd=root)
    return [json.loads((folder / f"{rank}.json").read_text("utf-8")) for rank in range(2)]
