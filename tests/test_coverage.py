"""What the tests have covered is counted whole, however the processes end that ran them."""

import shutil
import subprocess
import sys
from pathlib import Path

import coverage

from tests.processes import needs_posix, unmeasured

CONFTEST = Path(__file__).parent.parent / "conftest.py"
SETTINGS = (
    '[tool.coverage.run]\nparallel = true\npatch = ["subprocess"]\n'
    'core = "ctrace"\ninclude = ["src/covered.py"]\n'
)
STAND_IN = "def __getattr__(_): return lambda: None"
COVERED = """\
def by_a_worker():
    assert True
def by_a_sweep():
    assert True
def by_a_module_of_tests():
    assert True
"""
TEST = """
import atexit, os, signal, covered, pytest

covered.by_a_module_of_tests()

@pytest.mark.covered_elsewhere
def test_sweep():
    covered.by_a_sweep()

def test_covered():
    atexit.register(os.kill, os.getpid(), signal.SIGKILL)
    covered.by_a_worker()
"""


@needs_posix
def test_a_worker_that_is_killed_when_it_ends_has_saved_what_it_covered_but_for_sweeps(
    tmp_path: Path,
) -> None:
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "torch.py").write_text(STAND_IN)  # itself takes seconds to import, twice
    library = tmp_path / "src" / "covered.py"
    library.parent.mkdir()
    library.write_text(COVERED)
    (tmp_path / "test_covered.py").write_text(TEST)
    mine = unmeasured() | {"PYTHONPATH": str(CONFTEST.parent)}
    pytest = (sys.executable, "-m", "coverage", "run", "-m", "pytest", "--numprocesses=1")
    paths = ("--doctest-modules", "src", "test_covered.py")
    subprocess.run([*pytest, *paths], cwd=tmp_path, env=mine, check=True, capture_output=True)
    data = coverage.CoverageData(str(tmp_path / ".coverage"))
    for file in tmp_path.glob(".coverage.*"):
        saved = coverage.CoverageData(str(file))
        saved.read()
        data.update(saved)
    assert data.lines(str(library)) == [1, 2, 3, 5]
