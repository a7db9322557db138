"""The programs of the guide to other libraries: each runs, and its report appears.

`nox -s libraries` installs the libraries.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "broken-training.md"
PROGRAM = re.compile(
    r"^```\{unproven\} python\n:because: [^\n]*\n\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
PROGRAMS = dict(
    zip(
        ("lightning", "transformers", "accelerate", "tensorboard"),
        PROGRAM.findall(GUIDE.read_text("utf-8")),
        strict=True,
    )
)


@pytest.mark.parametrize("library", PROGRAMS)
def test_program_of_the_guide_reports_the_line_that_cuts_the_encoder_off(
    library: str, tmp_path: Path
) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    script = tmp_path / "train.py"
    script.write_text(PROGRAMS[library], "utf-8")
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, script.name],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    (cut,) = (
        number
        for number, line in enumerate(PROGRAMS[library].splitlines(), start=1)
        if ".detach()" in line
    )
    assert "error[detached]: no gradient reaches `encoder.weight`" in done.stderr
    assert f"train.py:{cut}:" in done.stderr
    if library == "tensorboard":
        (events,) = tmp_path.glob("runs/events*")
        assert b"error[detached]" in events.read_bytes()
