"""Run scripts as a user would, diagnose them, and apply the edits that a report prints."""

import linecache
import re
from pathlib import Path
from typing import Any

import torch

from leafgrad import Recording, Report, diagnose, record
from tests.messages import CODES

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "docs" / "diagnoses"
NEAR_MISSES = Path(__file__).with_name("near_misses")
FAILING = {
    *("in-place", "step-before-backward", "freed", "detached-in-place", "leaf-in-place"),
    *("no-formula", "once-differentiable", "custom-backward-count"),
}
"""The codes of what makes `backward()` raise an error after the loss was computed."""

EDIT = re.compile(r"^ *(\d*) ([-+ ]) ?(.*)$")


def run(file: Path, code: str | None = None) -> dict[str, Any]:
    """Run a script under a recording; return its variables and the exception it raised."""
    text = file.read_text("utf-8") if code is None else code
    name = str(file) if code is None else f"{file}.fixed"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    variables: dict[str, Any] = {"__name__": "__main__", "raised": None}
    torch.manual_seed(0)
    with record(values=True) as recording:
        try:
            exec(compile(text, name, "exec"), variables)
        except Exception as error:  # noqa: BLE001 # the script's own
            variables["raised"] = error
    return variables | {"recording": recording}


def report_of(variables: dict[str, Any]) -> Report:
    """Diagnose the variables of a script: `loss`, `model`, `optimizer` and `expect`."""
    return diagnose(
        variables["loss"],
        variables.get("model"),
        variables.get("optimizer"),
        recording=variables["recording"],
        gradients=variables.get("gradients", True),
        expect=variables.get("expect"),
    )


def apply_printed_edits(report: str, code: str) -> str:
    """Apply the edits in the text of a report to the source of a script."""
    lines = code.splitlines()
    changed: dict[int, list[str]] = {}
    above: list[str] = []
    last = 0
    for line in report.splitlines():
        match = EDIT.match(line)
        if line.startswith(("help", "...")):
            last = 0
        elif match and match[1] and match[2] != "+":
            last = int(match[1])
            assert lines[last - 1] == match[3], "the report quotes another line than the script has"
            changed[last] = [*above, *([match[3]] if match[2] == " " else [])]
            above = []
        elif match and match[2] == "+":
            (changed[last] if last else above).append(match[3])
    parts = [changed.get(number, [line]) for number, line in enumerate(lines, start=1)]
    return "\n".join(line for part in parts for line in part) + "\n"


def code_of(tensor: Any, loss: Any, recording: Recording | None = None) -> str | None:
    """Return the code of the finding about the gradient of a tensor; None if there is none."""
    found = diagnose(loss, {"x": tensor}, recording=recording)
    return next((code for code in found.codes if code in CODES), None)
