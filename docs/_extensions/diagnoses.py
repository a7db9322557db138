"""Show the example of a diagnosis: a minimal program, PyTorch's error, and the report.

The directive `{diagnosis} CODE` ends the section about a code, and makes the code an anchor of
that section. The programs of a page run in a separate process, because they may change its state.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

import leafgrad

LIBRARY = Path(leafgrad.__file__).parent
MESSAGES = tomllib.loads((LIBRARY / "_messages" / "en.toml").read_text("utf-8"))
PROGRAMS = Path(__file__).parents[1] / "diagnoses"
ON_PAGE = re.compile(r"^```\{diagnosis\} (\S+)\n```$", re.MULTILINE)
ALSO = "Also reported as: {}\n\n"
FENCE = "```{{code-block}} {}\n:class: report\n{}\n```\n\n"


def program(code: str) -> str:
    """Return the example program for a diagnosis code."""
    return (PROGRAMS / f"{code}.py").read_text("utf-8")


def run(code: str) -> tuple[str, str]:
    """Run the example program of a diagnosis code. Return `diagnose`'s report and PyTorch's error.

    If PyTorch has an error message for this code, also run the backward pass to get it. The error
    is "" if there is none.
    """
    variables: dict[str, Any] = {"__name__": "__main__"}
    script = compile(program(code), f"{code}.py", "exec")
    torch.manual_seed(0)
    with leafgrad.record(values=True) as recording:
        error = error_of(lambda: exec(script, variables))  # noqa: S102 # a script of this folder
    loss, model, optimizer, expect = map(variables.get, ("loss", "model", "optimizer", "expect"))
    report = leafgrad.diagnose(
        loss, model, optimizer, recording=recording, gradients=True, expect=expect
    )
    if isinstance(loss, Exception):
        error = f"RuntimeError: {loss}"
    elif "pytorch" in MESSAGES[code]:
        error = error or error_of(variables["loss"].backward)
    return str(report), error


def error_of(function: Callable[[], object]) -> str:
    """Return the RuntimeError that a function raises as text, or "" if there is none."""
    try:
        function()
    except RuntimeError as error:
        return f"RuntimeError: {error}"
    return ""


@cache
def results(codes: tuple[str, ...], language: str) -> dict[str, tuple[str, str]]:
    """Run the programs of `codes` in a new process; return each one's report and error."""
    environment = os.environ | {"LEAFGRAD_LANG": language}
    command = [sys.executable, "-W", "ignore", __file__, *codes]
    options: Any = {"cwd": PROGRAMS, "stdout": subprocess.PIPE, "env": environment}
    done = subprocess.run(command, check=True, **options)  # noqa: S603 # our own program
    found: dict[str, tuple[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


class DiagnosisDirective(SphinxDirective):
    """The directive `{diagnosis}`: the example of a diagnosis code, which becomes a link target."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return PyTorch's other messages for this code, and the folded example."""
        (code,) = self.arguments
        section: Any = self.state_machine.node
        page, title = self.env.docname, section[0].astext()
        section["ids"].insert(0, code)
        labels = self.env.domains.standard_domain
        labels.anonlabels[code], labels.labels[code] = (page, code), (page, code, title)
        for file in (PROGRAMS / f"{code}.py", *LIBRARY.rglob("*.py"), *LIBRARY.rglob("*.toml")):
            self.env.note_dependency(file)
        others = [m for m in MESSAGES[code].get("pytorch", ()) if m.lower() not in title.lower()]
        text = ALSO.format(", ".join(f"`{message}`" for message in others)) if others else ""
        codes = ON_PAGE.findall(self.env.doc2path(page).read_text("utf-8"))
        report, error = results(tuple(codes), self.config.language)[code]
        text += f":::{{fold}} Example: `{code}`\n{FENCE.format('python', program(code).rstrip())}"
        text += f"PyTorch raises:\n\n{FENCE.format('text', error)}" if error else ""
        text += f"`diagnose` reports:\n\n{FENCE.format('text', report)}:::\n"
        return self.parse_text_to_nodes(text)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("diagnosis", DiagnosisDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    sys.stdout.write(json.dumps({code: run(code) for code in sys.argv[1:]}))
