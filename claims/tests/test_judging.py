"""Sphinx reads pages that are judged: what they show of each other, and how a build ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import needs_proc

HANGS = """\
```{code-cell} python
import pathlib, time
pathlib.Path("part").write_text(pathlib.Path("/proc/self/stat").read_text())
pathlib.Path("part").rename("stat")  # whole from the start
time.sleep(600)
```
"""
CONF = "extensions = ['sphinx_claims']\n"


@needs_proc
@pytest.mark.usefixtures("interruptible")
def test_control_c_ends_a_build_at_once(tmp_path: Path) -> None:
    toml = "[tool.claims]\ntimeout = 600\n"
    texts = {"conf.py": CONF, "pyproject.toml": toml, "index.md": f"# First\n\n{HANGS}"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "sphinx", "-q", ".", "_build"]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, process_group=0
    ) as building:
        _wait((tmp_path / "stat").is_file)
        os.killpg(building.pid, signal.SIGINT)
        _, error = building.communicate(timeout=30)
    assert (building.returncode, error.strip()) == (2, "Interrupted!")
    _wait(lambda: _is_gone(tmp_path / "stat"))


def _is_gone(started: Path) -> bool:
    """Say whether the process that wrote down its `stat` has ended; its number may come again."""
    begun = started.read_text()
    try:
        return _start(Path("/proc", begun.split()[0], "stat").read_text()) != _start(begun)
    except (FileNotFoundError, ProcessLookupError):
        return True


def _start(stat: str) -> str:
    return stat.rpartition(")")[2].split()[19]


def _wait(happens: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)
